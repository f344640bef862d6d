"""The asynchronous `run` in the main thread: signals, cancellation, errors. The rest is in `test_runner`."""

import asyncio
import functools
import os
import signal
from typing import Any

import anyio
import pytest
import trio

from support.each_loop import on_each_loop, on_loops
from support.scripted_server import ScriptedServer
from support.small_broker import SmallBroker
from tarry.client import AsyncDelivery, AsyncTarry


@on_each_loop
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_finishes_what_is_in_flight_and_gives_back_the_rest(
    script: ScriptedServer, broker: SmallBroker, number: signal.Signals
) -> None:
    broker.backlog.extend(range(50))
    finished: list[int] = []
    former = signal.getsignal(number)
    over = anyio.Event()

    async def handle(body: int) -> None:
        if body == 0:
            os.kill(os.getpid(), number)
            while signal.getsignal(number) is not former:
                await anyio.sleep(0.001)
            over.set()
        await over.wait()
        finished.append(body)

    async with AsyncTarry(script.url) as tarry:
        await tarry.run("t", "g", handle, workers=2, max=10)
    assert signal.getsignal(number) is former
    assert broker.settled("ack") == sorted(body + 1 for body in finished)
    assert sorted([*broker.settled("ack"), *broker.settled("fail")]) == list(range(1, 51 - len(broker.backlog)))
    assert 0 < len(finished) < 50


@on_each_loop
async def test_a_cancelled_run_gives_everything_back_uncounted(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(8))
    async with AsyncTarry(script.url) as tarry:
        with anyio.CancelScope() as scope:

            async def handle(_: Any) -> None:
                scope.cancel()
                await anyio.sleep_forever()

            await tarry.run("t", "g", handle, workers=2)
        assert scope.cancelled_caught
    assert broker.settled("fail") == list(range(1, 9))
    assert not any(request["count"] for request in broker.all("fail"))
    assert broker.all("ack") == []


@on_loops("asyncio")
async def test_asyncios_own_cancel(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(4))
    async with AsyncTarry(script.url) as tarry:
        began = asyncio.Event()

        async def handle(_: Any) -> None:
            began.set()
            await asyncio.sleep(60)

        task = asyncio.create_task(tarry.run("t", "g", handle, workers=1))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert broker.settled("fail") == [1, 2, 3, 4]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_handler_that_exits_ends_it(script: ScriptedServer, broker: SmallBroker, backend: str) -> None:
    broker.backlog.append(1)

    async def handle(_: Any) -> None:
        raise SystemExit(3)

    async def main() -> None:
        async with AsyncTarry(script.url) as tarry:
            await tarry.run("t", "g", handle, workers=3)

    with pytest.raises(SystemExit):
        anyio.run(main, backend=backend)
    assert broker.all("fail") == [{"ids": ["1"], "reason": "given back", "retry_after": 0, "count": False}]


def test_an_event_of_each_loop_stops_it(script: ScriptedServer, broker: SmallBroker) -> None:
    async def main(stop: Any) -> None:
        def plain(message: AsyncDelivery) -> None:
            message.retry(after="1h")
            stop.set()

        broker.backlog.append(1)
        async with AsyncTarry(script.url) as tarry:
            await tarry.run("t", "g", plain, workers=1, pass_message=True, stop=stop)

    async def asyncios() -> None:
        await main(asyncio.Event())

    async def trios() -> None:
        await main(trio.Event())

    asyncio.run(asyncios())
    trio.run(trios)
    assert [request["retry_after"] for request in broker.all("fail")] == ["1h", "1h"]


@on_each_loop
async def test_a_handler_that_never_returns_is_cancelled(
    script: ScriptedServer, broker: SmallBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.backlog.extend(range(3))
    stop = anyio.Event()

    async def handle(body: int) -> None:
        if body == 1:
            stop.set()
            await anyio.sleep_forever()

    async with AsyncTarry(script.url) as tarry:
        await tarry.run("t", "g", handle, workers=1, stop=stop, drain="50ms")
    assert (broker.settled("ack"), broker.settled("fail")) == ([1], [2, 3])
    assert not any(request["count"] for request in broker.all("fail"))
    assert "handlers still worked 0.05 s after the end was asked for, and were cancelled" in caplog.text


@on_each_loop
async def test_a_signal_ends_every_run_of_the_program(script: ScriptedServer, broker: SmallBroker) -> None:
    former = signal.getsignal(signal.SIGTERM)
    async with AsyncTarry(script.url) as tarry, anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(functools.partial(tarry.run, "t", "g", print, workers=1, wait="10ms"))
        await anyio.wait_all_tasks_blocked()
        assert signal.getsignal(signal.SIGTERM) is not former
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is former


@on_each_loop
async def test_a_signal_that_somebody_else_handles_is_left_to_them(script: ScriptedServer, broker: SmallBroker) -> None:
    """As within a web server, whose own handler was there before."""
    broker.backlog.append(1)
    stop = anyio.Event()
    with anyio.open_signal_receiver(signal.SIGTERM) as received:
        async with AsyncTarry(script.url) as tarry, anyio.create_task_group() as tasks:

            async def theirs() -> None:
                async for _ in received:
                    stop.set()
                    return

            tasks.start_soon(theirs)
            await tarry.run("t", "g", lambda _: os.kill(os.getpid(), signal.SIGTERM), workers=1, stop=stop)
    assert broker.settled("ack") == [1]


@on_each_loop
async def test_a_generator_is_no_handler(script: ScriptedServer, broker: SmallBroker) -> None:
    async def handle(_: Any) -> Any:
        yield

    async with AsyncTarry(script.url) as tarry:
        with pytest.raises(TypeError, match=r"^handler: it is a generator"):
            await tarry.run("t", "g", handle, workers=1)
    assert broker.calls == []
