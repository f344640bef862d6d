"""How the pipeline opens MySQL and MariaDB: the way a DSN says, with times in UTC, reading what is committed."""

import ssl
from typing import Any, TypeAlias

import pymysql
import pymysql.connections
import pymysql.cursors

from ..store.mysql.dsn import Dsn

Connection: TypeAlias = "pymysql.connections.Connection[pymysql.cursors.Cursor]"

_CONNECT = 10
"""Seconds."""


def open_mysql(dsn: str, *, seconds: int, autocommit: bool, settings: str = "") -> Connection:
    """`seconds` without a byte end a statement; `settings` are more of a session's, with commas.

    Raises PyMySQL's errors, and ValueError for a DSN that is none.
    """
    to = Dsn.parse(dsn)
    tls: dict[str, Any] = {"ssl": ssl.create_default_context(cafile=to.ca)} if to.tls else {"ssl_disabled": True}
    connection: Connection = pymysql.connect(
        host=to.host or None,
        port=to.port,
        unix_socket=to.socket,
        user=to.user,
        password=to.password,
        database=to.database,
        autocommit=autocommit,
        charset="utf8mb4",
        connect_timeout=_CONNECT,
        read_timeout=seconds,
        write_timeout=seconds,
        **tls,
    )
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")  # a variable has two names for it
        cursor.execute("SET SESSION time_zone = '+00:00'" + (settings and f", {settings}"))
    return connection
