"""The asynchronous `consume`: how it may be left, and that no task outlives its block. The rest is in
`test_consumption`, which runs on asyncio and trio too."""

import socket
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from support.each_loop import on_each_loop
from support.scripted_server import ScriptedServer
from support.small_broker import SmallBroker
from tarry.client import AsyncDelivery, AsyncTarry


def given_back(broker: SmallBroker) -> list[int]:
    assert all(request["count"] is False for request in broker.all("fail"))
    return broker.settled("fail")


def claimed(broker: SmallBroker, total: int) -> int:
    return total - len(broker.backlog)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.001)


@on_each_loop
async def test_a_block_around_the_loop_gives_back_at_its_end(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(50))
    async with AsyncTarry(script.url) as tarry:
        async with tarry.consume("t", "g") as messages:
            async for message in messages:
                async with message:
                    pass
                if message.body == 4:
                    break
        assert broker.settled("ack") == [1, 2, 3, 4, 5]
        assert given_back(broker) == list(range(6, claimed(broker, 50) + 1))


@on_each_loop
async def test_a_break_gives_back_in_the_background(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(50))
    async with AsyncTarry(script.url) as tarry:
        async for message in tarry.consume("t", "g"):
            async with message:
                pass
            break
        await until(lambda: len(given_back(broker)) == claimed(broker, 50) - 1 > 0)
        assert broker.settled("ack") == [1]


@on_each_loop
async def test_the_end_of_the_client_gives_back(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(5))
    kept: list[Any] = []
    async with AsyncTarry(script.url) as tarry:
        kept.append(tarry.consume("t", "g"))
        assert (await anext(kept[0])).body == 0
    assert given_back(broker) == [1, 2, 3, 4, 5]


@on_each_loop
async def test_an_error_in_the_loop_comes_out_as_it_is(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(5))

    async def fail() -> None:
        async with AsyncTarry(script.url) as tarry:
            async for _ in tarry.consume("t", "g"):
                raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()
    assert given_back(broker) == [1, 2, 3, 4, 5]


@on_each_loop
async def test_a_cancelled_handler_gives_its_message_back_uncounted(
    script: ScriptedServer, broker: SmallBroker
) -> None:
    broker.backlog.extend(range(5))
    async with AsyncTarry(script.url) as tarry:
        with anyio.CancelScope() as scope:
            async for message in tarry.consume("t", "g"):
                async with message:
                    if message.body == 1:
                        scope.cancel()
                    await checkpoint()
        assert scope.cancelled_caught
    assert broker.settled("ack") == [1]
    assert given_back(broker) == [2, 3, 4, 5]


@on_each_loop
async def test_a_cancelled_client_gives_everything_back(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(5))
    with anyio.move_on_after(0.2) as scope:
        async with AsyncTarry(script.url) as tarry, tarry.consume("t", "g") as messages:
            async for _ in messages:
                await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert given_back(broker) == [1, 2, 3, 4, 5]


@on_each_loop
async def test_waiting_for_a_message_may_be_cancelled_and_none_is_missed(
    script: ScriptedServer, broker: SmallBroker
) -> None:
    async with AsyncTarry(script.url) as tarry:
        messages = tarry.consume("t", "g", limit=20)
        for _ in range(3):
            with anyio.move_on_after(0.01):
                await anext(messages)
        broker.backlog.extend(range(20))
        seen: list[int] = []
        while len(seen) < 20:
            with anyio.move_on_after(0.001):
                async with await anext(messages) as message:
                    seen.append(message.body)
        assert seen == list(range(20))
        with pytest.raises(StopAsyncIteration):
            await anext(messages)
    assert broker.settled("ack") == list(range(1, 21))


@on_each_loop
async def test_tasks_handle_messages_side_by_side(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(30))
    together = 0
    most = 0

    async def handle(message: Any) -> None:
        nonlocal together, most
        async with message:
            together += 1
            most = max(most, together)
            await anyio.sleep(0.001)
            together -= 1

    async with (
        AsyncTarry(script.url) as tarry,
        tarry.consume("t", "g", max=5, limit=30) as messages,
        anyio.create_task_group() as tasks,
    ):
        async for message in messages:
            tasks.start_soon(handle, message)
    assert broker.settled("ack") == list(range(1, 31))
    assert most > 1


@on_each_loop
async def test_it_wants_the_clients_block(script: ScriptedServer) -> None:
    tarry = AsyncTarry(script.url)
    with pytest.raises(RuntimeError, match="async with AsyncTarry"):
        await anext(tarry.consume("t", "g"))
    await tarry.close()


@on_each_loop
async def test_no_thread_is_begun(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(3))
    async with AsyncTarry(script.url) as tarry:
        async for message in tarry.consume("t", "g", limit=3):
            async with message:
                assert not [thread for thread in threading.enumerate() if thread.name.startswith("tarry-")]


def test_a_server_known_by_name_is_not_looked_up(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(host: str, *_: Any, flags: int = 0, **__: Any) -> Any:
        assert flags
        raise socket.gaierror if not host[0].isdigit() else OSError

    monkeypatch.setattr("socket.getaddrinfo", refused)
    AsyncTarry("http://queue.example")


@on_each_loop
async def test_messages_in_the_hands_of_other_tasks_have_not_left_the_loop(
    script: ScriptedServer, broker: SmallBroker
) -> None:
    broker.backlog.extend(range(6))
    over = anyio.Event()

    async def handle(message: AsyncDelivery) -> None:
        await over.wait()
        async with message:
            pass

    async with (
        AsyncTarry(script.url) as tarry,
        tarry.consume("t", "g", limit=6) as messages,
        anyio.create_task_group() as tasks,
    ):
        async for message in messages:
            tasks.start_soon(handle, message)
        over.set()
    assert broker.settled("ack") == list(range(1, 7))
    assert broker.all("fail") == []


@on_each_loop
async def test_what_a_block_has_left_unsettled_has_failed(script: ScriptedServer, broker: SmallBroker) -> None:
    broker.backlog.extend(range(4))

    async def leave() -> None:
        async with AsyncTarry(script.url) as tarry, tarry.consume("t", "g", limit=4) as messages:
            async for message in messages:
                assert message.body in range(4)

    with pytest.warns(RuntimeWarning, match="left the loop unsettled") as warned:
        await leave()
    assert len(warned) == 1
    assert broker.settled("fail") == [1, 2, 3, 4]
    assert all(request["count"] for request in broker.all("fail"))
