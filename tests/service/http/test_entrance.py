"""The front door under more clients than it has room for, and under very many at once."""

import json
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
import structlog
import trio
import trio.testing

from support.doors import front_door
from tarry.service.http.server import entrance
from tarry.service.http.server.entrance import MOST, Entrance, room
from tarry.service.http.server.ports import Receive, Scope, Send

GET = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"
ROOM = 3


async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def listener() -> AsyncIterator[trio.SocketListener]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        yield listener


async def ask(listener: trio.SocketListener, stack: AsyncExitStack) -> tuple[trio.SocketStream, bytes]:
    """A connection, which stays as long as the stack, and its first answer."""
    stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1]))
    await stream.send_all(GET)
    return stream, bytes(await stream.receive_some())


async def heard_by(many: int, listener: trio.SocketListener) -> list[bytes]:
    """What so many hear who come at once."""
    heard: list[bytes] = []

    async def come() -> None:
        async with AsyncExitStack() as stack:
            heard.append((await ask(listener, stack))[1][:12])

    with trio.fail_after(20):
        async with trio.open_nursery() as coming:
            for _ in range(many):
                coming.start_soon(come)
    return heard


async def test_one_too_many_is_told_so_and_comes_in_later(listener: trio.SocketListener, nursery: trio.Nursery) -> None:
    nursery.start_soon(front_door(app, most=ROOM).serve, [listener], trio.Event())
    async with AsyncExitStack() as stack:
        inside = [await ask(listener, stack) for _ in range(ROOM)]
        assert {answer[:12] for _, answer in inside} == {b"HTTP/1.1 200"}
        for _ in range(3):
            outside, answer = await ask(listener, stack)
            answer += b"".join([piece async for piece in outside])
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in head
            assert (json.loads(body)["type"], json.loads(body)["executed"]) == ("/problems/overloaded", False)
        await inside[0][0].send_all(GET)
        assert (await inside[0][0].receive_some()).startswith(b"HTTP/1.1 200"), "who is inside is served"
        await inside[1][0].aclose()
        with trio.fail_after(10):
            while not (await ask(listener, stack))[1].startswith(b"HTTP/1.1 200"):
                await trio.sleep(0.001)


async def test_who_cannot_be_told_waits_outside(
    listener: trio.SocketListener, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrance, "_REFUSING", 1)
    nursery.start_soon(front_door(app, most=1).serve, [listener], trio.Event())
    async with AsyncExitStack() as stack:
        await ask(listener, stack)
        assert await heard_by(5, listener) == [b"HTTP/1.1 503"] * 5


@pytest.mark.slow
async def test_very_many_at_once_are_all_served(listener: trio.SocketListener, nursery: trio.Nursery) -> None:
    nursery.start_soon(front_door(app).serve, [listener], trio.Event())
    assert await heard_by(300, listener) == [b"HTTP/1.1 200"] * 300


@pytest.fixture
def descriptors() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_it_takes_what_descriptors_the_system_allows(descriptors: tuple[int, int]) -> None:
    _, hard = descriptors
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard))
    most = room()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < most <= MOST
    assert soft == most + 200
    assert soft == MOST + 200 or soft == hard


def leave_free(count: int) -> None:
    """So many descriptors more this process may have, until the fixture `descriptors` is over."""
    free = [os.dup(0) for _ in range(count + 1)]
    for descriptor in free:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


async def test_that_there_are_no_descriptors_is_logged_once_each_time(
    listener: trio.SocketListener,
    nursery: trio.Nursery,
    descriptors: tuple[int, int],
    autojump_clock: trio.testing.MockClock,
) -> None:
    """However often it tries in vain."""
    place = listener.socket.getsockname()
    with trio.socket.socket() as one, trio.socket.socket() as other, trio.socket.socket() as late:
        for client in (one, other):
            await client.connect(place)
        leave_free(1)  # the entrance's own; none for a client
        with structlog.testing.capture_logs() as lines:
            nursery.start_soon(Entrance(10).take, listener, nursery, trio.SocketStream.aclose)
            await trio.sleep(50 * entrance._NO_DESCRIPTOR)
            assert [line["event"] for line in lines] == ["cannot_accept"]
            resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
            for client in (one, other):
                assert await client.recv(1) == b"", "it came in"
            leave_free(0)
            await late.connect(place)
            await trio.sleep(50 * entrance._NO_DESCRIPTOR)
            assert [line["event"] for line in lines] == ["cannot_accept"] * 2
            resource.setrlimit(resource.RLIMIT_NOFILE, descriptors)
            assert await late.recv(1) == b""
