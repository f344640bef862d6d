"""What a body may take: its time, its share of what is held for all, and what becomes of a rest that nobody reads."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
from starlette.types import Message, Receive, Scope, Send
from trio.testing import MockClock

from tarry.service.errors import Overloaded
from tarry.service.http.body_time import PACE, BodyTime
from tarry.service.http.incoming import Incoming
from tarry.service.http.problems import Problem
from tarry.service.http.rest import Rest

Reads = Callable[[Receive], Awaitable[object]]


def scope(length: int | None = None, version: str = "1.1") -> Scope:
    framing = (b"transfer-encoding", b"chunked") if length is None else (b"content-length", b"%d" % length)
    return {"type": "http", "http_version": version, "method": "POST", "path": "/", "headers": [framing]}


class Client:
    """Sends pieces, each after a rest; what it has sent is counted, and what it is answered kept."""

    def __init__(self, pieces: Sequence[bytes], rest: float = 0, *, ends: bool = True) -> None:
        self.pieces = list(pieces)
        self.rest = rest
        self.ends = ends
        self.sent = 0
        self.heard: list[Message] = []

    async def receive(self) -> Message:
        await trio.sleep(self.rest)
        if not self.pieces:
            await trio.sleep_forever()
        piece = self.pieces.pop(0)
        self.sent += len(piece)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces) or not self.ends}

    async def send(self, message: Message) -> None:
        self.heard.append(message)

    @property
    def told_to_close(self) -> bool:
        return (b"connection", b"close") in self.heard[0]["headers"]


async def everything(receive: Receive) -> int:
    size = 0
    while True:
        message = await receive()
        size += len(message["body"])
        if not message["more_body"]:
            return size


class App:
    """Reads what it is told to read, and answers 200."""

    def __init__(self, reads: Reads = everything) -> None:
        self.reads = reads
        self.read: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.read = await self.reads(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def nothing(_: Receive) -> None:
    pass


# Time


@pytest.mark.parametrize(("pieces", "rest"), [([b"x"] * 100, 1.0), ([b"x"], 21.0), ([b""] * 50, 1.0)])
async def test_a_body_that_trickles_is_408(pieces: list[bytes], rest: float, autojump_clock: MockClock) -> None:
    client, began = Client(pieces, rest), trio.current_time()
    with pytest.raises(Problem) as raised:
        await BodyTime(App(), 20)(scope(), client.receive, client.send)
    assert (raised.value.status, raised.value.body.executed) == (408, False)
    assert raised.value.headers == {"Connection": "close"}
    assert trio.current_time() - began == pytest.approx(20, abs=0.1)


async def test_a_large_body_has_more_time(autojump_clock: MockClock) -> None:
    """At just above the pace it never ends too late; below, it does."""
    app, client = App(), Client([bytes(PACE)] * 128, 1.0)
    await BodyTime(app, 20)(scope(), client.receive, client.send)
    assert app.read == 128 * PACE
    slow = Client([bytes(PACE)] * 128, 2.0)
    with pytest.raises(Problem):
        await BodyTime(App(), 20)(scope(), slow.receive, slow.send)


async def test_a_body_that_has_come_is_timed_no_more(autojump_clock: MockClock) -> None:
    async def long_poll(receive: Receive) -> None:
        await everything(receive)
        with trio.move_on_after(600):
            await receive()

    client = Client([b"{}"])
    await BodyTime(App(long_poll), 20)(scope(2), client.receive, client.send)
    assert client.heard[0]["status"] == 200


async def test_no_body_is_not_timed(autojump_clock: MockClock) -> None:
    async def poll(receive: Receive) -> None:
        with trio.move_on_after(600):
            await receive()

    for head in (scope(0), {**scope(0), "headers": []}):
        client = Client([])
        await BodyTime(App(poll), 20)(head, client.receive, client.send)
        assert client.heard[0]["status"] == 200


# Bytes in flight


async def held_by_others(incoming: Incoming, nursery: trio.Nursery, size: int, times: int = 1) -> None:
    for _ in range(times):
        other = Client([bytes(size)], ends=False)
        nursery.start_soon(incoming, scope(), other.receive, other.send)
    await trio.testing.wait_all_tasks_blocked()


async def test_all_bodies_have_one_limit(autojump_clock: MockClock) -> None:
    incoming = Incoming(App(), 1000)
    async with trio.open_nursery() as nursery:
        await held_by_others(incoming, nursery, 300, times=3)
        assert incoming.held == 900
        fits = Client([bytes(100)])
        await incoming(scope(), fits.receive, fits.send)
        assert incoming.held == 900
        for head in (scope(101), scope()):
            more = Client([bytes(50), bytes(51), bytes(51)])
            with pytest.raises(Overloaded):
                await incoming(head, more.receive, more.send)
            assert more.sent == (0 if head == scope(101) else 101)
            assert incoming.held == 900
        nursery.cancel_scope.cancel()
    assert incoming.held == 0


async def test_one_alone_always_passes(autojump_clock: MockClock) -> None:
    app, client = App(), Client([bytes(900)] * 3)
    incoming = Incoming(app, 1000)
    await incoming(scope(2700), client.receive, client.send)
    assert (app.read, incoming.held) == (2700, 0)


async def test_what_is_only_said_keeps_nobody_out(autojump_clock: MockClock) -> None:
    incoming = Incoming(App(), 1000)
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            quiet = Client([])
            nursery.start_soon(incoming, scope(1000), quiet.receive, quiet.send)
        await trio.testing.wait_all_tasks_blocked()
        client = Client([bytes(1000)])
        await incoming(scope(1000), client.receive, client.send)
        assert client.heard[0]["status"] == 200
        nursery.cancel_scope.cancel()


async def test_a_failure_gives_back_what_it_held() -> None:
    async def fail(receive: Receive) -> None:
        await receive()
        raise KeyError

    incoming, client = Incoming(App(fail), 1000), Client([bytes(10)])
    with pytest.raises(KeyError):
        await incoming(scope(10), client.receive, client.send)
    assert incoming.held == 0


# The rest


@pytest.mark.parametrize(
    ("said", "reads", "closes", "sent"),
    [
        (30, nothing, False, 30),
        (30, everything, False, 30),
        (65_536, nothing, False, 30),
        (65_537, nothing, True, 0),
        (10**30, nothing, True, 0),
        (None, nothing, True, 0),
        (None, everything, False, 30),
        (5, nothing, True, 10),
    ],
)
async def test_a_little_is_read_and_else_the_connection_ends(
    said: int | None, reads: Reads, closes: bool, sent: int, autojump_clock: MockClock
) -> None:
    client = Client([bytes(10)] * 3)
    await Rest(App(reads))(scope(said), client.receive, client.send)
    assert (client.told_to_close, client.sent) == (closes, sent)


async def test_a_rest_that_does_not_come_is_not_waited_for(autojump_clock: MockClock) -> None:
    client, began = Client([bytes(10)], ends=False), trio.current_time()
    await Rest(App(nothing))(scope(30), client.receive, client.send)
    assert client.told_to_close
    assert trio.current_time() - began == pytest.approx(1)


async def test_http_2_has_no_such_header(autojump_clock: MockClock) -> None:
    client = Client([bytes(10)])
    await Rest(App(nothing))(scope(100_000, "2"), client.receive, client.send)
    assert not client.told_to_close
