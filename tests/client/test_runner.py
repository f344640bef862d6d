"""`run`: workers, flow control, and an orderly end. `test_async_runner` has what is in the main thread only."""

import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from support.scripted_server import ScriptedServer, problem
from support.small_broker import SmallBroker
from tarry.client import BadRequest, Tarry
from tarry.client.signals import ends


def test_handlers_get_bodies_and_work_side_by_side(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend({"order": n} for n in range(8))
    together = threading.Barrier(4, timeout=10)
    seen: list[Any] = []
    stop = threading.Event()

    def handle(body: Any) -> None:
        together.wait()
        seen.append(body["order"])
        if len(seen) == 8:
            stop.set()

    tarry.run("t", "g", handle, workers=4, stop=stop)
    assert sorted(seen) == list(range(8))
    assert broker.settled("ack") == list(range(1, 9))


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_in_flight_and_gives_back_the_rest(
    tarry: Tarry, broker: SmallBroker, number: signal.Signals
) -> None:
    broker.backlog.extend(range(50))
    former = signal.getsignal(number)
    signalled = threading.Event()
    finished: list[int] = []

    def handle(body: int) -> None:
        if body == 0:
            os.kill(os.getpid(), number)
            while ends.hears:  # the main thread hears it when it comes to it
                signalled.wait(0.001)
            signalled.set()
        signalled.wait(10)
        finished.append(body)

    tarry.run("t", "g", handle, workers=2, max=10)
    assert broker.settled("ack") == sorted(body + 1 for body in finished)
    given_back = broker.settled("fail")
    assert sorted([*broker.settled("ack"), *given_back]) == list(range(1, 51 - len(broker.backlog)))
    assert len(finished) < 50
    assert signal.getsignal(number) is former


def test_no_more_is_claimed_than_may_be_held(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend(range(100))
    stop = threading.Event()
    release = threading.Event()
    held: list[int] = []

    def handle(body: int) -> None:
        held.append(100 - len(broker.backlog))
        if body == 0:
            release.wait(10)
        elif body == 20:
            stop.set()
            release.set()

    tarry.run("t", "g", handle, workers=2, max=10, max_cached=7, stop=stop)
    assert all(request["max"] <= 7 for request in broker.all("claim"))
    assert held[0] <= 7


def test_bytes_are_limited_too(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend("x" * 1000 for _ in range(30))
    stop = threading.Event()
    handled: list[str] = []

    def handle(body: str) -> None:
        claimed = 30 - len(broker.backlog)
        # Never more than one claim beyond the limit.
        assert claimed - len(handled) <= 10
        handled.append(body)
        if len(handled) == 30:
            stop.set()

    tarry.run("t", "g", handle, workers=1, max=5, max_cached_bytes=3000, stop=stop)
    assert broker.all("fail") == []


def test_a_refused_claim_ends_it(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(problem(400, detail="no such thing"))
    with pytest.raises(BadRequest, match="no such thing"):
        tarry.run("t", "g", print, workers=3)


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_a_handler_that_exits_ends_it(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.append(1)
    with pytest.raises(SystemExit):
        tarry.run("t", "g", raise_exit, workers=3)
    assert broker.all("fail") == [{"ids": ["1"], "reason": "given back", "retry_after": 0, "count": False}]


def raise_exit(_body: object) -> None:
    raise SystemExit(3)


def test_it_runs_outside_the_main_thread(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.append(1)
    stop = threading.Event()

    def handle(_body: object) -> None:
        stop.set()

    thread = threading.Thread(target=tarry.run, args=("t", "g", handle), kwargs={"workers": 1, "stop": stop})
    thread.start()
    thread.join(10)
    assert broker.settled("ack") == [1]


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_a_handler_that_never_returns_is_left_to_its_lease(
    tarry: Tarry, script: ScriptedServer, broker: SmallBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """While it runs its lease is renewed; at the end it is waited for as long as `drain`, and nobody gets it sooner."""
    broker.backlog.extend(range(5))
    stop, never, ended = threading.Event(), threading.Event(), threading.Event()

    def handle(body: int) -> None:
        if body == 0:
            broker.wait_for("extend", 2)
            stop.set()
            never.wait(60)
            ended.set()

    tarry.run("t", "g", handle, workers=1, max=5, lease="60ms", stop=stop, drain="50ms")
    assert broker.all("ack") == []
    (given_back,) = broker.all("fail")
    assert (given_back["ids"], given_back["count"]) == (["2", "3", "4", "5"], False)
    assert not [sign for sign in script.signs if sign.method == "DELETE"], "that would end its claim at once"
    assert "1 handlers still work 0.05 s after the end was asked for; their messages come again" in caplog.text
    never.set()
    assert ended.wait(10)
    deadline = time.monotonic() + 10
    while "its lease is over, so its result is dropped" not in caplog.text:
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)
    assert broker.all("ack") == []


async def asynchronous(_: Any) -> None: ...


def generator(_: Any) -> Any:
    yield


async def asynchronous_generator(_: Any) -> Any:
    yield


class Handler:
    async def method(self, _: Any) -> None: ...

    async def __call__(self, _: Any) -> None: ...


IDLE: dict[str, Callable[[Any], object]] = {
    "function": asynchronous,
    "partial": functools.partial(functools.partial(asynchronous)),
    "method": Handler().method,
    "object": Handler(),
    "partial of an object": functools.partial(Handler()),
    "generator": generator,
    "asynchronous generator": asynchronous_generator,
}


@pytest.mark.parametrize("name", list(IDLE))
@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_a_handler_that_threads_cannot_run_is_refused_before_the_first_claim(
    tarry: Tarry, broker: SmallBroker, name: str
) -> None:
    broker.backlog.append(1)
    with pytest.raises(TypeError, match=r"^handler: .*(give it to AsyncTarry\.run|take out its yield)$"):
        tarry.run("t", "g", IDLE[name], workers=1)
    assert broker.calls == []


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_a_plain_handler_that_gives_a_coroutine_ends_it_with_nothing_acked(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.append(1)
    with pytest.raises(TypeError, match=r"use AsyncTarry\.run"):
        tarry.run("t", "g", lambda body: asynchronous(body), workers=1)
    assert broker.all("ack") == []
    assert [request["count"] for request in broker.all("fail")] == [False]


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
@pytest.mark.parametrize("signals", [None, False])
def test_a_signal_that_somebody_else_handles_is_left_to_them(
    tarry: Tarry, broker: SmallBroker, signals: bool | None
) -> None:
    broker.backlog.append(1)
    stop = threading.Event()
    heard: list[int] = []

    def theirs(number: int, _: object) -> None:
        heard.append(number)
        stop.set()

    former = signal.signal(signal.SIGTERM, theirs)
    try:
        tarry.run("t", "g", lambda _: os.kill(os.getpid(), signal.SIGTERM), workers=1, stop=stop, signals=signals)
    finally:
        signal.signal(signal.SIGTERM, former)
    assert heard == [signal.SIGTERM]
    assert len(broker.all("ack")) == 1


def test_signals_are_not_heard_beside_the_main_thread(tarry: Tarry, broker: SmallBroker) -> None:
    said: list[BaseException] = []

    def run() -> None:
        try:
            tarry.run("t", "g", print, workers=1, signals=True)
        except ValueError as error:
            said.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in str(said[0])
