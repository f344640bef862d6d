"""What a body may take: its time, its share of what is held for all, and what becomes of a rest that nobody reads."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_pair

from support.simulated import on_simulated_time
from tarry.service.errors import Overloaded
from tarry.service.http.problems import Problem
from tarry.service.http.server.connection import Connection
from tarry.service.http.server.exchange import BODY_PACE, LITTLE_TIME
from tarry.service.http.server.ports import CREDIT, Receive, Scope, Send
from tarry.service.http.server.terms import Limits, Terms

pytestmark = on_simulated_time

Client = trio.StapledStream[MemorySendStream, MemoryReceiveStream]
Reads = Callable[[Receive], Awaitable[object]]

GET = b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n"


def head(length: int | None = None, *headers: str) -> bytes:
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return "\r\n".join(["POST /a HTTP/1.1", "Host: h", framing, *headers, "", ""]).encode()


async def everything(receive: Receive) -> int:
    size = 0
    while True:
        message = await receive()
        size += len(message["body"])
        if not message["more_body"]:
            return size


async def nothing(_: Receive) -> int:
    return 0


class App:
    """Reads what it is told to read, and answers 200; keeps what it read, and what was raised meanwhile."""

    def __init__(self, reads: Reads = everything) -> None:
        self.reads = reads
        self.read: list[object] = []
        self.raised: list[Exception] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[CREDIT].know("key")
        try:
            self.read.append(await self.reads(receive))
        except (Problem, Overloaded) as error:
            self.raised.append(error)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Server:
    """A server of connections over streams in memory."""

    def __init__(self, app: App, limit: int = 1 << 30, body_time: float = 20) -> None:
        self.app = app
        self.terms = Terms(app, Limits(limit), body_time)

    @property
    def held(self) -> int:
        return self.terms.keyed.incoming.held

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        """A client's end; what it leaves is over when it goes."""
        near, far = memory_stream_pair()

        async def serve() -> None:
            async with far:
                await Connection(self.terms, far).run()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await trio.testing.wait_all_tasks_blocked()
            yield near
            nursery.cancel_scope.cancel()

    async def ask(self, data: bytes, pieces: Sequence[bytes] = (), rest: float = 0, *, ends: bool = True) -> bytes:
        """What is answered to a request whose body comes in pieces, each after a rest."""
        async with self.connected() as client:
            with suppress(trio.BrokenResourceError):
                await client.send_all(data)
                for piece in pieces:
                    await trio.sleep(rest)
                    await client.send_all(piece)
                if ends:
                    await client.send_stream.aclose()
            return b"".join([piece async for piece in client])


def closes(answer: bytes) -> bool:
    return b"connection: close" in answer


# Time


@pytest.mark.parametrize(("pieces", "rest"), [([b"x"] * 100, 1.0), ([b"x"], 21.0)])
async def test_a_body_that_trickles_is_408(pieces: list[bytes], rest: float) -> None:
    app, began = App(), trio.current_time()
    ended: list[float] = []

    async def read(receive: Receive) -> int:
        try:
            return await everything(receive)
        finally:
            ended.append(trio.current_time() - began)

    app.reads = read
    answer = await Server(app).ask(head(1000), pieces, rest)
    (problem,) = app.raised
    assert isinstance(problem, Problem)
    assert (problem.status, problem.body.executed) == (408, False)
    assert closes(answer)
    assert ended == [pytest.approx(20, abs=0.1)]


async def test_the_sizes_of_chunks_are_no_body() -> None:
    """What comes is of the framing, and buys no time."""
    app = App()
    await Server(app).ask(head(), [b"1;"] + [b"x" * 500] * 100, 1.0)
    (problem,) = app.raised
    assert isinstance(problem, Problem)
    assert problem.status == 408


async def test_a_large_body_has_more_time() -> None:
    """At just above the pace it never ends too late; below, it does."""
    app = App()
    await Server(app).ask(head(128 * BODY_PACE), [bytes(BODY_PACE)] * 128, 1.0)
    assert app.read == [128 * BODY_PACE]
    slow = App()
    await Server(slow).ask(head(128 * BODY_PACE), [bytes(BODY_PACE)] * 128, 2.0)
    assert [type(error) for error in slow.raised] == [Problem]


@pytest.mark.parametrize("request_", [GET, head(2) + b"{}"])
async def test_a_body_that_has_come_is_timed_no_more(request_: bytes) -> None:
    async def long_poll(receive: Receive) -> None:
        await everything(receive)
        with trio.move_on_after(600):
            await receive()

    app = App(long_poll)
    async with Server(app).connected() as client:
        await client.send_all(request_)
        answer = bytes(await client.receive_some())
    assert (answer[9:12], app.raised) == (b"200", [])
    assert trio.current_time() >= 600


# Bytes in flight


async def held_by_others(server: Server, nursery: trio.Nursery, size: int, times: int = 1) -> None:
    async def hold(task_status: trio.TaskStatus[None]) -> None:
        async with server.connected() as client:
            await client.send_all(head(size + 1) + bytes(size))
            task_status.started()
            await trio.sleep_forever()

    for _ in range(times):
        await nursery.start(hold)
    await trio.testing.wait_all_tasks_blocked()


async def test_all_bodies_have_one_limit() -> None:
    app = App()
    server = Server(app, 1000, 1e9)
    async with trio.open_nursery() as nursery:
        await held_by_others(server, nursery, 300, times=3)
        assert server.held == 900
        await server.ask(head(100) + bytes(100))
        assert (server.held, app.read, app.raised) == (900, [100], [])
        await server.ask(head(101) + bytes(101))
        await server.ask(head() + b"32\r\n" + bytes(50) + b"\r\n33\r\n" + bytes(51) + b"\r\n0\r\n\r\n")
        assert [type(error) for error in app.raised] == [Overloaded, Overloaded]
        assert server.held == 900
        nursery.cancel_scope.cancel()
    assert server.held == 0


async def test_one_alone_always_passes() -> None:
    app = App()
    server = Server(app, 1000)
    await server.ask(head(2700), [bytes(900)] * 3)
    assert (app.read, server.held) == ([2700], 0)


async def test_what_is_only_said_keeps_nobody_out() -> None:
    app = App()
    server = Server(app, 1000, 1e9)
    async with trio.open_nursery() as nursery:
        await held_by_others(server, nursery, 0, times=50)
        await server.ask(head(1000) + bytes(1000))
        assert app.read == [1000]
        nursery.cancel_scope.cancel()


async def test_a_failure_gives_back_what_it_held() -> None:
    async def fail(receive: Receive) -> None:
        await receive()
        raise KeyError

    server = Server(App(fail), 1000)
    with pytest.raises(ExceptionGroup):
        await server.ask(head(10) + bytes(10))
    assert server.held == 0


# The rest


@pytest.mark.parametrize(
    ("said", "reads", "goes_on"),
    [
        (30, nothing, True),
        (30, everything, True),
        (65_536, nothing, True),
        (65_537, nothing, False),
        (None, everything, True),
    ],
)
async def test_a_little_is_read_and_else_the_connection_ends(said: int | None, reads: Reads, goes_on: bool) -> None:
    body = [bytes(said - 10), bytes(10)] if said else [b"1e\r\n" + bytes(30), b"\r\n0\r\n\r\n"]
    answer = await Server(App(reads)).ask(head(said), [*body, GET], 0.1)
    assert (closes(answer), answer.count(b"HTTP/1.1 200")) == (not goes_on, 2 if goes_on else 1)


async def test_chunks_of_which_nobody_knows_how_many_come_end_the_connection() -> None:
    answer = await Server(App(nothing)).ask(head() + b"1\r\nx\r\n", [b"0\r\n\r\n", GET], 0.1)
    assert (closes(answer), answer.count(b"HTTP/1.1 200")) == (True, 1)


async def test_a_rest_that_does_not_come_is_not_waited_for() -> None:
    began = trio.current_time()
    async with Server(App(nothing)).connected() as client:
        await client.send_all(head(30))
        answer = bytes(await client.receive_some())
        assert closes(answer)
        assert trio.current_time() - began == pytest.approx(LITTLE_TIME)


# 100


@pytest.mark.parametrize("reads", [everything, nothing])
async def test_who_waits_for_a_100_gets_it_when_its_body_is_wanted(reads: Reads) -> None:
    async with Server(App(reads)).connected() as client:
        await client.send_all(head(3, "Expect: 100-continue"))
        first = bytes(await client.receive_some())
        if reads is nothing:
            assert first.startswith(b"HTTP/1.1 200")
            assert closes(first)  # whether the body still comes nobody knows
            return
        assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send_all(b"abc")
        assert (await client.receive_some()).startswith(b"HTTP/1.1 200")


async def test_who_sends_its_body_at_once_is_told_no_100() -> None:
    answer = await Server(App()).ask(head(3, "Expect: 100-continue") + b"abc")
    assert answer.startswith(b"HTTP/1.1 200")
