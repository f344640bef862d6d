"""Connections at rest: each is let go in its own time, and one that is asked something again rests anew."""

import pytest
import trio
from trio.testing import MockClock

from tarry.service.http.server.front_door import FrontDoor
from tarry.service.http.server.ports import Receive, Scope, Send
from tarry.service.http.server.rests import Rests
from tarry.service.http.server.terms import KEEP_ALIVE


async def test_each_is_let_go_in_its_time(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    rests, ended = Rests(10), dict[int, float]()
    nursery.start_soon(rests.run)

    async def rest(number: int, began: float) -> None:
        await trio.sleep(began)
        with trio.CancelScope() as scope:
            rests.begin(scope)
            if number == 1:
                await trio.sleep(5)
                rests.end(scope)
                await trio.sleep(5)
                rests.begin(scope)
            await trio.sleep_forever()
        ended[number] = trio.current_time()

    began = trio.current_time()
    async with trio.open_nursery() as resting:
        for number in range(3):
            resting.start_soon(rest, number, number)
    assert {number: time - began for number, time in ended.items()} == pytest.approx({0: 10, 2: 12, 1: 21})


async def test_who_rests_no_more_stays(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    rests = Rests(10)
    nursery.start_soon(rests.run)
    for pause in (9, 30):
        with trio.CancelScope() as scope:
            rests.begin(scope)
            await trio.sleep(pause)
            rests.end(scope)
            await trio.sleep(100)
        assert scope.cancelled_caught == (pause > 10)
    rests.end(scope)  # which did not rest


async def _app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204})
    await send({"type": "http.response.body"})


async def test_the_front_door_lets_go_who_rests(mock_clock: MockClock) -> None:
    stopped = trio.Event()
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(FrontDoor(_app, 1, 1 << 20, 20).serve, [listener], stopped)
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            await client.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await client.receive_some()).startswith(b"HTTP/1.1 204")
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(KEEP_ALIVE)
            assert await client.receive_some() == b""
        stopped.set()
