"""A Ctrl-C, and a SIGTERM with a handler, at every step that `consume` makes in the main thread."""

import itertools
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import anyio
import httpx
import pytest
from attrs import define, field

import tarry.client
from support.claimed import TIME, record
from support.effort import full, tries
from tarry.client import AsyncTarry
from tarry.client.calls import Call, Reply
from tarry.client.consumption import Consumption
from tarry.client.signals import ends, signals
from tarry.client.stock import Terms
from tarry.client.transport import ThreadTransport

_TERMS = Terms(topic="t", group="g", client="c", size=2, lease=60.0, wait=0.0, ahead=0)
_WATCHED = (str(Path(tarry.client.__file__).parent), threading.__file__)
T = TypeVar("T")


class OneClaim(ThreadTransport):
    """No server: one claim of two messages, then none. Notes what is settled."""

    def __init__(self) -> None:
        self.settled: list[str] = []
        self.given = threading.Event()

    async def send(self, call: Call[T], *, deadline: float | None = None, abandon: threading.Event | None = None) -> T:
        document: dict[str, Any] = {"alive_until": TIME, "claims": 0}
        if call.path.endswith("/claim"):
            document = {"claim": None, "messages": []}
            if not self.given.is_set():
                self.given.set()
                document = {"claim": "c1", "lease_until": TIME, "messages": [record(n, n) for n in (1, 2)]}
            elif abandon is not None:
                abandon.wait()
        elif call.content is not None and not call.path.endswith("/renew"):
            request = json.loads(call.content)
            parts = [one.get("fail") or {"ids": one["ack"]} for one in request.get("settle", ())]
            self.settled += [id_ for one in parts or [request] for id_ in one["ids"]]
            document["settled"] = [{}] * len(parts)
        return call.read(Reply(document, 0))


class Told(BaseException):
    """What a handler of the program's own raises."""


@define
class Interruption:
    """Sends a signal at one step of the main thread within the client or `threading`."""

    number: signal.Signals
    at: int
    steps: int = field(default=0, init=False)

    def trace(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(_WATCHED):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.steps += 1
            if self.steps == self.at:
                signal.raise_signal(self.number)
        return self.trace


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    def tell(_number: int, _frame: FrameType | None) -> None:
        raise Told

    number: signal.Signals = request.param
    former = signal.signal(number, tell)
    yield number
    signal.signal(number, former)


def _consume(consuming: Consumption) -> None:
    """Handles the two messages, and waits in vain for a third."""
    consuming.start()
    for _ in range(2):
        delivery = consuming.next(10)
        assert delivery is not None
        with delivery:
            pass
    assert consuming.next(0.001) is None


@pytest.mark.slow
@full
def test_nothing_is_left_half_done(number: signal.Signals) -> None:
    handler = signal.getsignal(number)
    for at in itertools.count(tries(number, 1), tries(11, 1)):
        server = OneClaim()
        consuming = Consumption(server, _TERMS)
        interruption = Interruption(number, at)
        told = False
        sys.settrace(interruption.trace)
        try:
            _consume(consuming)
        except Told:
            told = True
        finally:
            sys.settrace(None)
            closing = threading.Thread(target=consuming.close, daemon=True)
            closing.start()
            closing.join(10)
            consuming.close()
        assert not closing.is_alive(), at
        assert sorted(server.settled) == (["1", "2"] if server.given.is_set() else []), at
        assert signal.getsignal(number) is handler
        if interruption.steps < at:
            assert at > 1000
            return
        assert told, at


def test_a_handler_that_a_program_sets_meanwhile_stays(number: signal.Signals) -> None:
    signals.watch()
    signal.signal(number, signal.SIG_IGN)
    signals.leave()
    assert signal.getsignal(number) is signal.SIG_IGN


def test_a_consumption_within_another_leaves_the_handler_to_it(number: signal.Signals) -> None:
    handler = signal.getsignal(number)
    signals.watch()
    signals.watch()
    signals.leave()
    with pytest.raises(Told):
        _raise_within(number)
    signals.leave()
    assert signal.getsignal(number) is handler


def test_a_second_signal_waits_as_the_first_would(number: signal.Signals) -> None:
    """Between the first, which asks for the end, and the end a lock must not be left held either."""
    handler, told = signal.getsignal(number), list[bool]()
    with ends.heard(lambda: told.append(True), True):
        signals.watch()
        signal.raise_signal(number)
        assert told == [True]
        with pytest.raises(Told):
            _raise_within(number)
    signals.leave()
    assert signal.getsignal(number) is handler


def _raise_within(number: signal.Signals) -> None:
    done = False
    try:
        with signals, signals:
            signal.raise_signal(number)
            done = True
    finally:
        assert done


@define
class Interrupting(httpx.AsyncBaseTransport):
    """A server that has nothing, and a Ctrl-C in the task that makes such a call."""

    verb: str

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(self.verb):
            signal.raise_signal(signal.SIGINT)
        return httpx.Response(200, json={"claim": None, "messages": [], "until": "2026-01-01T00:00:00.000Z"})


async def _consume_in_tasks(verb: str) -> None:
    async with (
        httpx.AsyncClient(transport=Interrupting(verb), base_url="http://nowhere") as client,
        AsyncTarry("http://nowhere", client=client) as tarry,
    ):
        async for _ in tarry.consume("t", "g"):
            raise AssertionError("unreachable")


@pytest.mark.parametrize("verb", ["claim", "renew"])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_ctrl_c_in_a_task_of_the_client_interrupts_the_users(loop: str, verb: str) -> None:
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            anyio.run(_consume_in_tasks, verb, backend=loop)
    finally:
        signal.signal(signal.SIGINT, former)
