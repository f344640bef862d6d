"""Users' own connections, one per driver that the outbox promises to work over; at the server's isolation level."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

Connect = Callable[[str], Any]
"""From a DSN to a connection, with transactions."""


def _login(dsn: str) -> dict[str, Any]:
    parts = urlsplit(dsn)
    return {
        "host": parts.hostname,
        "port": parts.port or 3306,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": parts.path[1:],
    }


def _pymysql(dsn: str) -> Any:
    import pymysql

    return pymysql.connect(**_login(dsn))


def _pymysql_dicts(dsn: str) -> Any:
    import pymysql
    from pymysql.cursors import DictCursor

    return pymysql.connect(**_login(dsn), cursorclass=DictCursor)


def _mysqlclient(dsn: str) -> Any:
    driver = pytest.importorskip("MySQLdb", reason="mysqlclient is not installed: it is built from C")
    return driver.connect(**_login(dsn))


def _connector(dsn: str) -> Any:
    import mysql.connector

    return mysql.connector.connect(**_login(dsn))


def _sqlalchemy(dsn: str) -> Any:
    import sqlalchemy

    login = _login(dsn)
    url = sqlalchemy.URL.create(
        "mysql+pymysql", login["user"], login["password"], login["host"], login["port"], login["database"]
    )
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
    return engine.raw_connection()


DRIVERS: dict[str, Connect] = {
    "pymysql": _pymysql,
    "pymysql-dicts": _pymysql_dicts,
    "mysqlclient": _mysqlclient,
    "mysql-connector": _connector,
    "sqlalchemy": _sqlalchemy,
}


def close(connection: Any) -> None:
    with suppress(Exception):
        connection.close()
