"""A connection over a stream in memory, on a clock of the test's own: how it is served, and everything that ends it."""

import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from math import inf

import pytest
import trio
from trio.testing import lockstep_stream_pair, memory_stream_pair

from support.failing import failing
from support.simulated import on_simulated_time
from tarry.service.errors import Stopping
from tarry.service.http.problems import Problem
from tarry.service.http.server import channel, connection, exchange
from tarry.service.http.server.connection import Connection
from tarry.service.http.server.exchange import AppFault
from tarry.service.http.server.ports import ARRIVED, TAKEN, Message, Receive, Scope, Send
from tarry.service.http.server.terms import KEEP_ALIVE, Limits, Terms

pytestmark = on_simulated_time

GET = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPLOAD = b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n" + b"x" * 50

Stream = trio.abc.HalfCloseableStream


class App:
    """Answers `body` after `work`; remembers what it was asked and told."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.told: list[Message] = []
        self.body = b"done"
        self.work: Callable[[Receive], Awaitable[object]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        if self.work is not None:
            await self.work(receive)
        headers = [(b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})

    async def until_gone(self, receive: Receive) -> None:
        while not self.told or self.told[-1]["type"] != "http.disconnect":
            self.told.append(await receive())


def sleeps(seconds: float) -> Callable[[Receive], Awaitable[object]]:
    async def work(_: Receive) -> None:
        await trio.sleep(seconds)

    return work


@pytest.fixture
def app() -> App:
    return App()


@asynccontextmanager
async def served(app: App, pair: tuple[Stream, Stream] | None = None) -> AsyncIterator[tuple[Stream, Connection]]:
    """A client's end, and the connection that serves the other; at the block's end it has ended, in its own time."""
    near, far = pair or memory_stream_pair()
    terms = Terms(app, Limits(1 << 30), 20)
    serving = Connection(terms, far)

    async def serve() -> None:
        async with far:
            await serving.run()

    async with trio.open_nursery() as pacing:
        pacing.start_soon(terms.pace.run)
        pacing.start_soon(terms.rests.run)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await trio.testing.wait_all_tasks_blocked()
            yield near, serving
        pacing.cancel_scope.cancel()


async def everything(stream: Stream) -> bytes:
    return b"".join([piece async for piece in stream])


async def test_a_request_has_the_time_of_its_arrival(app: App) -> None:
    began = trio.current_time()
    async with served(app) as (client, _):
        for _ in range(2):
            await trio.sleep(5)
            await client.send_all(GET)
        await client.send_eof()
    assert [scope[ARRIVED] - began for scope in app.scopes] == [5, 10]


async def test_a_connection_serves_one_request_after_the_other(app: App) -> None:
    async with served(app) as (client, _):
        await client.send_all(GET + GET + GET.replace(b"/a", b"/b"))
        await client.send_eof()
        assert (await everything(client)).count(b"HTTP/1.1 200") == 3
    assert [scope["path"] for scope in app.scopes] == ["/a", "/a", "/b"]


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"http://b:80/a%20b?c=%2F", "/a b", b"b:80"),
        (b"HTTP://b", "/", b"b"),
        (b"http://b?c=/d", "/", b"b"),
        (b"ftp://b/a", "ftp://b/a", b"localhost"),
        (b"*", "*", b"localhost"),
    ],
)
async def test_the_host_of_a_whole_address_is_the_one_meant(app: App, target: bytes, path: str, host: bytes) -> None:
    async with served(app) as (client, _):
        await client.send_all(GET.replace(b"/a", target))
        await client.send_eof()
        await everything(client)
    (scope,) = app.scopes
    assert scope["path"] == path
    assert [value for name, value in scope["headers"] if name == b"host"] == [host]


async def test_who_rests_too_long_is_let_go(app: App) -> None:
    began = trio.current_time()
    async with served(app) as (client, _):
        await trio.sleep(KEEP_ALIVE - 1)
        await client.send_all(GET)
        assert (await everything(client)).startswith(b"HTTP/1.1 200")
    assert trio.current_time() - began == pytest.approx(2 * KEEP_ALIVE - 1)


async def test_a_head_that_trickles_is_not_waited_for(app: App) -> None:
    began = trio.current_time()
    async with served(app) as (client, _):
        for byte in GET[:-2]:
            await client.send_all(bytes([byte]))
            await trio.sleep(1)
        await everything(client)
    assert trio.current_time() - began < KEEP_ALIVE + 2 * channel.LINGER
    assert app.scopes == []


@pytest.mark.parametrize("behind", [GET, b"\r\n", b"\x00" * 200_000])
@pytest.mark.parametrize("last", [GET.replace(b"1.1", b"1.0"), GET[:-2] + b"Connection: close\r\n\r\n"])
async def test_what_comes_behind_the_last_request_changes_no_answer(app: App, last: bytes, behind: bytes) -> None:
    app.work = sleeps(1)
    async with served(app) as (client, _):
        await client.send_all(last + behind)
        answer = await everything(client)
        await client.aclose()
    assert (answer[9:12], answer.count(b"HTTP/1.1")) == (b"200", 1)
    assert len(app.scopes) == 1


@pytest.mark.parametrize("version", [b"2.0", b"0.9", b"3.0"])
async def test_another_version_is_505(app: App, version: bytes) -> None:
    async with served(app) as (client, _):
        await client.send_all(b"PRI * HTTP/" + version + b"\r\n\r\nSM\r\n\r\n")
        answer = await everything(client)
        assert answer.startswith(b"HTTP/1.1 505")
        assert b"connection: close" in answer.lower()
        await client.aclose()
    assert app.scopes == []


async def test_an_answer_before_the_end_of_its_request_arrives(app: App) -> None:
    """To close at once would have the kernel reset the connection, and the answer be lost."""
    began = trio.current_time()
    async with served(app) as (client, _):
        await client.send_all(UPLOAD)
        assert (await everything(client)).startswith(b"HTTP/1.1 200")
        await client.send_all(b"x" * 50)
    assert trio.current_time() - began == pytest.approx(exchange.LITTLE_TIME + channel.LINGER)


async def test_who_uploads_without_end_is_not_read_for_ever(app: App) -> None:
    sent = 0
    async with served(app, lockstep_stream_pair()) as (client, _):
        await client.send_all(UPLOAD)
        with suppress(trio.BrokenResourceError):
            while sent < 100 << 20:
                await client.send_all(b"x" * (1 << 20))
                sent += 1 << 20
    assert sent <= 20 << 20


async def test_an_app_that_reads_nothing_holds_nobody_up(app: App) -> None:
    """The pieces that wait for it are dropped with it."""
    async with served(app) as (client, _):
        pieces = b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n"
        await client.send_all(b"POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces)
        assert (await everything(client)).startswith(b"HTTP/1.1 200")
        await client.aclose()


@pytest.mark.parametrize("bytes_", [GET, UPLOAD])
async def test_who_leaves_is_told_of_and_soon_forgotten(app: App, bytes_: bytes) -> None:
    app.work = app.until_gone
    async with served(app) as (client, _):
        await client.send_all(bytes_)
        await trio.testing.wait_all_tasks_blocked()
        await client.aclose()
    assert trio.current_time() < connection.AFTER_LEAVING
    assert app.told[-1]["type"] == "http.disconnect"


@pytest.mark.parametrize("bytes_", [GET, UPLOAD, GET + GET])
async def test_who_has_left_does_not_wait_for_an_app(app: App, bytes_: bytes) -> None:
    """The kernel tells of it, so that nobody has to read to hear of it."""
    app.work = sleeps(inf)
    began = trio.current_time()
    async with served(app) as (client, serving):
        await client.send_all(bytes_)
        await trio.testing.wait_all_tasks_blocked()
        serving.left()
    assert trio.current_time() - began == pytest.approx(connection.AFTER_LEAVING)


async def test_who_takes_nothing_of_its_answer_is_gone(app: App) -> None:
    app.body = b"x" * (1 << 20)
    began = trio.current_time()
    async with served(app, lockstep_stream_pair()) as (client, _):
        await client.send_all(GET)
    assert trio.current_time() - began == pytest.approx(channel.SENDING)


async def test_who_takes_its_answer_slowly_gets_it(app: App) -> None:
    app.body = b"x" * (1 << 20)
    got = 0
    async with served(app, lockstep_stream_pair()) as (client, _):
        await client.send_all(GET)
        while got < len(app.body):
            got += len(await client.receive_some(10_000))
            await trio.sleep(channel.SENDING / 10)
        await client.aclose()


async def test_the_end_lets_who_rests_go(app: App) -> None:
    async with served(app) as (client, serving):
        serving.finish()
        assert await everything(client) == b""
    assert trio.current_time() == pytest.approx(connection.ON_ITS_WAY)


async def test_the_end_waits_for_an_answer(app: App) -> None:
    app.work = sleeps(5)
    async with served(app) as (client, serving):
        await client.send_all(GET)
        await trio.testing.wait_all_tasks_blocked()
        serving.finish()
        serving._terms.closing = True
        answer = await everything(client)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer.lower()
    assert trio.current_time() == pytest.approx(5)


async def test_a_fault_of_the_app_is_raised_to_whoever_contains_it(app: App) -> None:
    app.work = failing(KeyError("its own"))
    with pytest.raises(ExceptionGroup) as raised:
        async with served(app) as (client, _):
            await client.send_all(GET)
    assert raised.group_contains(KeyError)


async def test_more_than_was_said_is_a_fault_of_the_app() -> None:
    class Liar(App):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
            await send({"type": "http.response.body", "body": b"two"})

    with pytest.raises(ExceptionGroup) as raised:
        async with served(Liar()) as (client, _):
            await client.send_all(GET)
    assert raised.group_contains(AppFault)


class Echo(App):
    """Sends each piece of the body back while the next is on its way; `kept` of it stay with the app."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = 0
        self.failed: Exception | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        more = True
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while more:
                scope[TAKEN](self.kept)
                message = await receive()
                self.told.append(message)
                more = message.get("more_body", False)
                await send({"type": "http.response.body", "body": message.get("body", b""), "more_body": True})
        except (Problem, Stopping, trio.BrokenResourceError) as error:
            self.failed = error
        await send({"type": "http.response.body", "body": b"", "more_body": False})


UPLOADING = b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"


async def test_an_answer_may_begin_before_the_request_has_come_whole() -> None:
    echo = Echo()
    async with served(echo) as (client, serving):
        await client.send_all(UPLOADING)
        for _ in range(10):
            await trio.sleep(15)  # each piece has the time of a body
            await client.send_all(b"0123456789")
            await trio.testing.wait_all_tasks_blocked()
            assert serving._terms.keyless.incoming.held == 0
        assert (await client.receive_some()).count(b"0123456789") == 10
        await client.send_eof()
        await everything(client)
    assert echo.failed is None
    assert serving._terms.keyless.incoming.held == 0


async def test_what_the_app_keeps_is_held() -> None:
    echo = Echo()
    echo.kept = 1000
    async with served(echo) as (client, serving):
        await client.send_all(UPLOADING + b"x" * 50)
        await trio.testing.wait_all_tasks_blocked()
        assert serving._terms.keyless.incoming.held == 1000
        await client.aclose()


async def test_the_next_piece_of_an_endless_body_comes_in_time() -> None:
    echo = Echo()
    began = trio.current_time()
    async with served(echo) as (client, _):
        await client.send_all(UPLOADING + b"x" * 50)
        got = await everything(client)
        assert got.endswith(b"0\r\n\r\n")
        await client.aclose()
    assert isinstance(echo.failed, Problem)
    assert echo.failed.kind == "too-slow"
    assert trio.current_time() - began == pytest.approx(20)


async def test_who_takes_nothing_of_an_endless_answer_is_gone() -> None:
    echo = Echo()
    began = trio.current_time()
    async with served(echo, lockstep_stream_pair()) as (client, _):
        await client.send_all(UPLOADING + b"x" * 50)
    assert isinstance(echo.failed, trio.BrokenResourceError)
    assert trio.current_time() - began == pytest.approx(channel.SENDING)


async def test_the_end_cuts_an_endless_body() -> None:
    echo = Echo()
    async with served(echo) as (client, serving):
        await client.send_all(UPLOADING + b"x" * 50)
        await trio.testing.wait_all_tasks_blocked()
        serving._terms.closing = True
        serving.finish()
        assert (await everything(client)).endswith(b"0\r\n\r\n")
    assert isinstance(echo.failed, Stopping)
    assert trio.current_time() == pytest.approx(connection.ON_ITS_WAY + channel.LINGER)


@pytest.mark.parametrize("body", [b"zz\r\n", b"1\nx\r\n0\r\n\r\n", b"1\r\nxxx0\r\n\r\n"])
async def test_a_body_that_is_none_is_refused_as_soon_as_it_has_come(body: bytes) -> None:
    refused: list[tuple[int, float]] = []

    async def take_all(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            while (await receive())["more_body"]:
                pass
        except Problem as problem:
            refused.append((problem.status, trio.current_time()))
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body"})

    near, far = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Connection(Terms(take_all, Limits(1 << 20), 20), far).run)
        began = trio.current_time()
        await near.send_all(b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + body + GET)
    assert refused == [(400, began)]


async def test_a_connection_that_is_over_leaves_nothing_to_the_garbage_collector(app: App) -> None:
    """It looks seldom, and a crowd of connections that come and go would fill the memory until then."""
    gc.disable()
    try:
        async with served(app) as (client, serving):
            parser = weakref.ref(serving._channel.parser)
            await client.send_all(GET + UPLOAD)
            await client.send_eof()
        del client, serving
        app.scopes.clear()  # it keeps what it is asked
        await trio.testing.wait_all_tasks_blocked()
        assert parser() is None
    finally:
        gc.enable()
