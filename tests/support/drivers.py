"""Connections of users' own drivers, one for each driver that the outbox supports; at the server's isolation level."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

AsyncConnect = Callable[[str], Awaitable[Any]]
Connect = Callable[[str], Any]
"""Opens a connection with transactions to a DSN."""


def login(dsn: str) -> dict[str, Any]:
    parts = urlsplit(dsn)
    return {
        "host": parts.hostname,
        "port": parts.port or 3306,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": parts.path[1:],
    }


def _by(driver: str) -> Connect:
    return lambda dsn: import_module(driver).connect(**login(dsn))


def _pymysql_dicts(dsn: str) -> Any:
    import pymysql
    from pymysql.cursors import DictCursor

    return pymysql.connect(**login(dsn), cursorclass=DictCursor)


def _mysqlclient(dsn: str) -> Any:
    driver = pytest.importorskip("MySQLdb", reason="mysqlclient is not installed: it is built from C")
    return driver.connect(**login(dsn))


def _sqlalchemy(dsn: str) -> Any:
    import sqlalchemy

    parts = login(dsn)
    url = sqlalchemy.URL.create(
        "mysql+pymysql", parts["user"], parts["password"], parts["host"], parts["port"], parts["database"]
    )
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
    return engine.raw_connection()


DRIVERS: dict[str, Connect] = {
    "pymysql": _by("pymysql"),
    "pymysql-dicts": _pymysql_dicts,
    "mysqlclient": _mysqlclient,
    "mysql-connector": _by("mysql.connector"),
    "sqlalchemy": _sqlalchemy,
}


async def _trio_mysql(dsn: str) -> Any:
    import trio_mysql

    connection = trio_mysql.connect(**login(dsn))
    await connection.connect()
    return connection


async def _aiomysql(dsn: str) -> Any:
    import aiomysql

    parts = login(dsn)
    return await aiomysql.connect(db=parts.pop("database"), **parts)


ASYNC_DRIVERS: dict[str, tuple[str, AsyncConnect]] = {
    "trio-mysql": ("trio", _trio_mysql),
    "aiomysql": ("asyncio", _aiomysql),
    "asyncmy": ("asyncio", _by("asyncmy")),
}
"""Each with the event loop that it runs on."""


def close(connection: Any) -> None:
    with suppress(Exception):
        connection.close()
