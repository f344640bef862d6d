"""All ways in which a handler may end, for `run` and for the body of a `consume` loop, with threads, on asyncio and on
trio: what is the handler's own fails its message, and the work goes on; what ends the program ends it, said aloud."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
import trio

from support.blocking import KINDS
from support.each_loop import on_loops
from support.scripted_server import ScriptedServer
from support.small_broker import SmallBroker
from tarry.client import AsyncTarry, Delivery, Tarry

End = Callable[[], Coroutine[Any, Any, None]]
"""How a handler ends."""


class OwnBase(BaseException):
    """A user's, which is no Exception."""


@pytest.fixture
def broker(script: ScriptedServer) -> SmallBroker:
    broker = SmallBroker()
    script.respond = broker.respond
    broker.backlog.extend(["bad", "good"])
    return broker


def raising(error: Callable[[], BaseException]) -> End:
    async def end() -> None:
        raise error()

    return end


async def inner_task_cancelled() -> None:
    inner = asyncio.ensure_future(asyncio.sleep(60))
    inner.cancel()
    await inner


async def future_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def own_task_cancelled() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


async def asyncio_timeout() -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(60)


async def anyio_timeout() -> None:
    with anyio.fail_after(0):
        await anyio.sleep(60)


async def task_group() -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(raising(lambda: ValueError("inner")))
        await anyio.sleep(60)


EVERYWHERE: dict[str, tuple[End, str]] = {
    "exception": (raising(lambda: ValueError("no")), "ValueError"),
    "timeout": (raising(TimeoutError), "TimeoutError"),
    "cancelled": (raising(asyncio.CancelledError), "CancelledError"),
    "cancelled in a group": (
        raising(lambda: BaseExceptionGroup("all", [asyncio.CancelledError(), ValueError("no")])),
        "BaseExceptionGroup",
    ),
    "exception group": (raising(lambda: ExceptionGroup("all", [ValueError("no")])), "ExceptionGroup"),
}
OF_LOOPS = {
    "anyio's timeout": (anyio_timeout, "TimeoutError"),
    "task group": (task_group, "ExceptionGroup"),
}
OF_ASYNCIO = {
    "inner task cancelled": (inner_task_cancelled, "CancelledError"),
    "future cancelled": (future_cancelled, "CancelledError"),
    "asyncio's timeout": (asyncio_timeout, "TimeoutError"),
}
FAILS = [
    *((runner, name, *way) for runner in KINDS for name, way in EVERYWHERE.items()),
    *((runner, name, *way) for runner in KINDS[1:] for name, way in OF_LOOPS.items()),
    *(("asyncio", name, *way) for name, way in OF_ASYNCIO.items()),
]
ENDS: list[Callable[[], BaseException]] = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    OwnBase,
    lambda: BaseExceptionGroup("all", [SystemExit(1), ValueError("no")]),
]


def play(script: ScriptedServer, runner: str, form: str, end: End) -> list[str]:
    """What was handled to its end, of work that ends so for the bad one, and stops after the good one."""
    done: list[str] = []
    if runner == "threads":
        _play_in_threads(script, form, end, done)
    else:
        anyio.run(_play_in_tasks, script, form, end, done, backend=runner)
    return done


def _play_in_threads(script: ScriptedServer, form: str, end: End, done: list[str]) -> None:
    stop = threading.Event()

    def handle(body: str) -> None:
        if body == "bad":
            with pytest.raises(StopIteration):  # it never suspends
                end().send(None)
        done.append(body)
        stop.set()

    with Tarry(script.url) as tarry:
        if form == "run":
            tarry.run("t", "g", handle, workers=1, stop=stop)
            return
        for message in tarry.consume("t", "g", limit=2):
            with message:
                handle(message.body)


async def _play_in_tasks(script: ScriptedServer, form: str, end: End, done: list[str]) -> None:
    stop = anyio.Event()

    async def handle(body: str) -> None:
        if body == "bad":
            await end()
        done.append(body)
        stop.set()

    async with AsyncTarry(script.url) as tarry:
        if form == "run":
            with anyio.fail_after(20):
                await tarry.run("t", "g", handle, workers=1, stop=stop)
            return
        async with tarry.consume("t", "g", limit=2) as messages:
            async for message in messages:
                async with message:
                    await handle(message.body)


@pytest.mark.parametrize("form", ["run", "consume"])
@pytest.mark.parametrize(("runner", "name", "end", "reason"), FAILS, ids=[f"{one[0]}-{one[1]}" for one in FAILS])
def test_its_own_error_fails_its_message_and_the_work_goes_on(
    script: ScriptedServer,
    broker: SmallBroker,
    runner: str,
    name: str,
    end: End,
    reason: str,
    form: str,
) -> None:
    assert play(script, runner, form, end) == ["good"], name
    (failed,) = broker.all("fail")
    assert (failed["ids"], failed["count"]) == (["1"], True)
    assert failed["reason"].startswith(f"{reason}: ")
    assert [request["ids"] for request in broker.all("ack")] == [["2"]]


@pytest.mark.parametrize("form", ["run", "consume"])
@pytest.mark.parametrize("error", ENDS, ids=["exit", "interrupt", "generator", "own", "group"])
@pytest.mark.parametrize("runner", KINDS)
def test_what_ends_the_program_ends_the_work_aloud(
    script: ScriptedServer, broker: SmallBroker, runner: str, error: Callable[[], BaseException], form: str
) -> None:
    with pytest.raises(type(error())):
        play(script, runner, form, raising(error))
    assert broker.settled("fail") == [1, 2]
    assert not any(request["count"] for request in broker.all("fail"))
    assert broker.all("ack") == []


def test_a_worker_whose_task_the_handler_cancels_goes_on(script: ScriptedServer, broker: SmallBroker) -> None:
    assert play(script, "asyncio", "run", own_task_cancelled) == ["good"]
    (failed,) = broker.all("fail")
    assert (failed["ids"], failed["count"]) == (["1"], True)


@on_loops("asyncio")
async def test_a_handler_that_cancels_its_task_and_returns_is_done(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.appendleft("first")
    stop = asyncio.Event()

    async def handle(body: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if body == "good":
            stop.set()

    async with AsyncTarry(script.url) as tarry, asyncio.timeout(20):
        await tarry.run("t", "g", handle, workers=1, stop=stop)
    assert broker.settled("ack") == [1, 2, 3]


@on_loops("asyncio")
@pytest.mark.parametrize("kill", ["the task of run", "every task"])
async def test_the_cancel_of_the_run_gives_back_uncounted_though_the_handler_has_cancelled_something(
    script: ScriptedServer, broker: SmallBroker, kill: str
) -> None:
    began = asyncio.Event()
    workers: list[asyncio.Task[Any] | None] = []

    async def handle(_: Any) -> None:
        workers.append(asyncio.current_task())
        began.set()
        await asyncio.sleep(60)

    async with AsyncTarry(script.url) as tarry:
        run = asyncio.ensure_future(tarry.run("t", "g", handle, workers=1))
        await began.wait()
        if kill == "every task":
            assert workers[0] is not None
            workers[0].cancel()  # it hears of it first
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert broker.settled("fail") == [1, 2]
    assert not any(request["count"] for request in broker.all("fail"))


def test_a_timeout_around_a_loop_passes_through(script: ScriptedServer, broker: SmallBroker) -> None:
    async def main() -> None:
        async with AsyncTarry(script.url) as tarry, tarry.consume("t", "g") as messages:
            async with asyncio.timeout(None) as timeout:
                async for message in messages:
                    async with message:
                        timeout.reschedule(0)
                        await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert len(broker.all("fail")) > 0
    assert not any(request["count"] for request in broker.all("fail"))


@on_loops("trio")
async def test_a_scope_around_a_loop_on_trio_passes_through(script: ScriptedServer, broker: SmallBroker) -> None:
    async with AsyncTarry(script.url) as tarry, tarry.consume("t", "g") as messages:
        with trio.CancelScope() as scope:
            async for message in messages:
                async with message:
                    scope.cancel()
                    await trio.sleep_forever()
        assert scope.cancelled_caught
    assert len(broker.all("fail")) > 0
    assert not any(request["count"] for request in broker.all("fail"))


@pytest.mark.parametrize("runner", KINDS)
def test_a_handler_of_run_may_learn_that_its_lease_is_over(
    script: ScriptedServer, broker: SmallBroker, runner: str
) -> None:
    """It looks itself: nothing is raised into its work, which a thread could not hear."""
    seen: list[bool] = []

    def lose(message: Delivery) -> None:
        seen.append(message.lost)
        broker.lost = True

    def in_threads() -> None:
        stop = threading.Event()

        def handle(message: Delivery) -> None:
            lose(message)
            while not message.lost:
                stop.wait(0.001)
            stop.set()

        with Tarry(script.url) as tarry:
            tarry.run("t", "g", handle, workers=1, pass_message=True, lease="300ms", stop=stop)

    async def in_tasks() -> None:
        stop = anyio.Event()

        async def handle(message: Delivery) -> None:
            lose(message)
            with anyio.fail_after(20):
                while not message.lost:
                    await anyio.sleep(0.001)
            stop.set()

        async with AsyncTarry(script.url) as tarry:
            await tarry.run("t", "g", handle, workers=1, pass_message=True, lease="300ms", stop=stop)

    if runner == "threads":
        in_threads()
    else:
        anyio.run(in_tasks, backend=runner)
    assert seen == [False]
    assert broker.all("ack") == []
