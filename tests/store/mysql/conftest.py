"""What the tests of the MySQL backend share."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio

from support import servers
from support.scripted_hosts import Servers
from tarry.store.mysql import hosts
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


@pytest.fixture
async def line(mysql_dsn: str, nursery: trio.Nursery) -> servers.Line:
    """A line to the fresh database that can be cut."""
    line: servers.Line = await nursery.start(servers.Line(mysql_dsn).run)
    return line


@pytest.fixture(name="servers")
def scripted_servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    """Of the hosts a, b and c, none of which is a server."""
    scripted = Servers(a="one", b="two", c="three")
    monkeypatch.setattr(hosts, "connect", scripted.connect)
    return scripted
