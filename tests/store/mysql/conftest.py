"""What the tests of the MySQL backend share: sessions that end with the test, and a line that can be cut."""

from collections.abc import AsyncIterator, Awaitable, Callable

import attrs
import pytest
import trio

from tarry.store.mysql.connection import Connection, connect
from tarry.store.mysql.dsn import Dsn


@pytest.fixture
def dsn(mysql_dsn: str) -> Dsn:
    return Dsn.parse(mysql_dsn)


@pytest.fixture
async def open_connection(dsn: Dsn) -> AsyncIterator[Callable[..., Awaitable[Connection]]]:
    """A function that opens a write session to the fresh database; all are closed after the test."""
    opened: list[Connection] = []

    async def open_one(to: Dsn = dsn, *, write: bool = True) -> Connection:
        opened.append(await connect(to, write=write))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
async def connection(open_connection: Callable[[], Awaitable[Connection]]) -> Connection:
    return await open_connection()


class Line:
    """A line to the server that the test can stop or cut. `dsn` leads over it."""

    def __init__(self, dsn: Dsn, listener: trio.SocketListener) -> None:
        self._target = (dsn.host, dsn.port)
        self._listener = listener
        self._open = trio.Event()
        self._open.set()
        self.dsn = attrs.evolve(dsn, host="127.0.0.1", port=listener.socket.getsockname()[1])
        self.sent = b""
        """All that clients have said."""
        self.cut_before: bytes | None = None
        """The line is cut when a client says this; the server does not hear it."""
        self.cut_after: bytes | None = None
        """The server hears this, and its answer is lost with the line."""

    def stop(self) -> None:
        """What clients say from now on is not even read."""
        self._open = trio.Event()

    async def run(self) -> None:
        await trio.serve_listeners(self._join, [self._listener])

    async def _join(self, client: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream(*self._target)
        answer_lost = trio.Event()

        async def up() -> None:
            async for data in client:
                self.sent += data
                if self.cut_before is not None and self.cut_before in data:
                    break
                if self.cut_after is not None and self.cut_after in data:
                    answer_lost.set()
                await server.send_all(data)
                await self._open.wait()
            nursery.cancel_scope.cancel()

        async def down() -> None:
            async for data in server:
                if answer_lost.is_set():
                    break
                await client.send_all(data)
            nursery.cancel_scope.cancel()

        try:
            async with client, server, trio.open_nursery() as nursery:
                nursery.start_soon(up)
                nursery.start_soon(down)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


@pytest.fixture
async def line(dsn: Dsn, nursery: trio.Nursery) -> Line:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    line = Line(dsn, listener)
    nursery.start_soon(line.run)
    return line
