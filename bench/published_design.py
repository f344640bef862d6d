"""The design that bench/publish.py compares with, as it is published: a counter in Redis, and a commit per message.

INCR gives the offset, then one INSERT writes the message and commits it; every caller has connections of its own to
both servers. (A reader that asks for `offset > max` loses messages with it: a hole that fills later is passed. See
ARCHITECTURE.md. Here it only has to be quick: its table has one key and four columns, and its Redis no disk.)
"""

import sqlite3
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pymysql
import redis
import trio

from ..store.mysql.connection import Connection, connect
from ..store.mysql.dsn import Dsn
from ..store.mysql.literals import Statement
from ..store.sqlite.connection import connect as connect_sqlite
from . import databases
from .closed_loop import in_line, in_tasks, in_threads
from .report import Figures

TABLE = """CREATE TABLE published (
  queue_id INT NOT NULL, `offset` BIGINT NOT NULL, accepted_at BIGINT NOT NULL, body MEDIUMBLOB NOT NULL,
  PRIMARY KEY (queue_id, `offset`))"""
_INSERT = Statement("INSERT INTO published (queue_id, `offset`, accepted_at, body) VALUES (1, ?, ?, ?)")
_INCR = b"*2\r\n$4\r\nINCR\r\n$6\r\noffset\r\n"
_LOGIN_SECONDS = 60


class _Caller:
    """One caller's two connections, over the driver that the store uses."""

    def __init__(self, counter: trio.SocketStream, connection: Connection, body: bytes) -> None:
        self._counter = counter
        self._connection = connection
        self._body = body

    async def publish(self) -> None:
        """INSERT and COMMIT: the session leaves autocommit mode at the first one, so that BEGIN need not be sent."""
        await self._connection.begin()
        await self.insert()
        await self._connection.commit()

    async def insert(self) -> None:
        """The INSERT alone, which is all there is to it in autocommit mode."""
        await self._counter.send_all(_INCR)
        answer = await self._counter.receive_some(64)  # `:1234` and a line's end, in one piece
        await self._connection.execute(_INSERT.bind(int(answer[1:]), time.time_ns() // 1_000_000, self._body))

    async def aclose(self) -> None:
        await self._counter.aclose()
        self._connection.close()


async def measure_tasks(
    dsn: str, redis_port: int, callers: int, seconds: float, body: bytes, autocommit: bool
) -> Figures:
    """Callers are tasks over the store's own MySQL driver; in autocommit mode each saves the round trip of COMMIT."""
    _prepare(dsn, redis_port)
    place = Dsn.parse(dsn)
    joined: list[_Caller] = []
    for _ in range(callers):
        counter = await trio.open_tcp_stream("127.0.0.1", redis_port)
        joined.append(_Caller(counter, await connect(place, write=False, timeout=_LOGIN_SECONDS), body))
    figures = await in_tasks([caller.insert if autocommit else caller.publish for caller in joined], seconds)
    for caller in joined:
        await caller.aclose()
    return figures


class _Thread:
    """One caller's two connections, over the drivers that most would take."""

    def __init__(self, dsn: str, redis_port: int, body: bytes, closing: ExitStack) -> None:
        parts = urlsplit(dsn)
        self._counter = closing.enter_context(redis.Redis(port=redis_port))
        self._connection = closing.enter_context(
            pymysql.connect(
                host=parts.hostname,
                port=parts.port or 3306,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                database=parts.path[1:],
            )
        )
        self._cursor = self._connection.cursor()
        self._body = body

    def publish(self) -> None:
        offset = self._counter.incr("offset")
        self._cursor.execute(
            "INSERT INTO published (queue_id, `offset`, accepted_at, body) VALUES (1, %s, %s, %s)",
            (offset, time.time_ns() // 1_000_000, self._body),
        )
        self._connection.commit()


def measure_threads(dsn: str, redis_port: int, callers: int, seconds: float, body: bytes) -> Figures:
    """Callers are threads over PyMySQL and redis-py."""
    _prepare(dsn, redis_port)
    with ExitStack() as closing:
        joined = [_Thread(dsn, redis_port, body, closing) for _ in range(callers)]
        return in_threads([caller.publish for caller in joined], seconds)


def _prepare(dsn: str, redis_port: int) -> None:
    with databases.log_in(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(TABLE)
    with redis.Redis(port=redis_port) as counter:
        counter.delete("offset")


def measure_sqlite(dsn: str, seconds: float, body: bytes) -> Figures:
    """On SQLite, one transaction per message: one caller, since more would only wait for each other."""
    connection = connect_sqlite(Path(dsn.removeprefix(databases.SQLITE)))
    connection.execute(TABLE)
    try:
        return in_line(_Line(connection, body).publish, seconds)
    finally:
        connection.close()


class _Line:
    """The caller on SQLite."""

    def __init__(self, connection: sqlite3.Connection, body: bytes) -> None:
        self._connection = connection
        self._body = body
        self._offset = 0

    def publish(self) -> None:
        self._offset += 1
        self._connection.execute(
            "INSERT INTO published (queue_id, `offset`, accepted_at, body) VALUES (1, ?, ?, ?)",
            (self._offset, time.time_ns() // 1_000_000, self._body),
        )
