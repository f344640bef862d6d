"""A server that takes writes and has another database than the one before is told apart; a copy of it is not."""

from collections.abc import Awaitable, Callable

import pytest

from support.generations import adding
from support.servers import run_sql
from tarry.store.errors import Foreign
from tarry.store.migrations import load_migrations
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.mysql.connection import Connection
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.schema import check_same, read_begun

Open = Callable[..., Awaitable[Connection]]


@pytest.fixture
async def connection(mysql_dsn: str, open_connection: Open) -> Connection:
    """With a database that has the schema."""
    backend = MySQLBackend(mysql_dsn)
    await backend.migrate()
    await backend.aclose()
    return await open_connection(write=False)


@pytest.fixture
async def begun(connection: Connection) -> int:
    """When its schema was."""
    begun = await read_begun(connection)
    assert begun is not None
    return begun


async def test_the_same_database(connection: Connection, begun: int) -> None:
    await check_same(connection, begun)


async def test_no_schema(open_connection: Open, fresh_database: Callable[[str], str], mysql_server: str) -> None:
    other = await open_connection(Dsn.parse(fresh_database(mysql_server)))
    assert await read_begun(other) is None
    with pytest.raises(Foreign, match="no schema of Tarry's: make it a replica"):
        await check_same(other, 1)


async def test_another_database_of_tarrys(connection: Connection) -> None:
    with pytest.raises(Foreign, match=r"another database of Tarry's, begun at 20.* and not at 1970-01-01T00:00:00.001"):
        await check_same(connection, 1)


async def test_an_older_schema_and_a_newer_one(
    mysql_dsn: str, connection: Connection, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = adding("mysql")
    monkeypatch.setattr("tarry.store.mysql.schema.load_migrations", lambda _: [*load_migrations("mysql"), more])
    with pytest.raises(Foreign, match=rf"its schema lacks {more.version:04} .*: `tarry migrate`"):
        await check_same(connection, begun)
    run_sql(mysql_dsn, "INSERT INTO migration SELECT 9999, name, checksum, applied_at FROM migration LIMIT 1")
    with pytest.raises(Foreign, match="newer than this program"):
        await check_same(connection, begun)
