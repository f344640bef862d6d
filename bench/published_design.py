"""The published design, as a rival for bench/publish.py and bench/offsets.py: a Redis counter, a commit per message.

INCR gives the offset, then one INSERT writes the message and commits it; every caller has its own connections to both
servers. (A reader that asks for `offset > max` loses messages with it: it passes a hole that is filled later. See
ARCHITECTURE.md. Here the design only has to be fast: its table has one key and four columns, its Redis no disk.)
"""

import itertools
from contextlib import closing
from pathlib import Path

import redis
import trio

from ..store.mysql.connection import Connection, connect
from ..store.mysql.dsn import Dsn
from ..store.mysql.literals import Statement
from ..store.sqlite.connection import connect as connect_sqlite
from . import databases
from .closed_loop import in_line, in_tasks
from .report import Figures
from .subject import BODY, now

_TABLE = """CREATE TABLE published (
  queue_id INT NOT NULL, `offset` BIGINT NOT NULL, accepted_at BIGINT NOT NULL, body MEDIUMBLOB NOT NULL,
  PRIMARY KEY (queue_id, `offset`))"""
_INSERT = "INSERT INTO published (queue_id, `offset`, accepted_at, body) VALUES (1, ?, ?, ?)"
_PREPARED = Statement(_INSERT)
_INCR = b"*2\r\n$4\r\nINCR\r\n$6\r\noffset\r\n"
_LOGIN_SECONDS = 60


class Caller:
    """One caller's two connections, over the driver that the store uses."""

    def __init__(self, counter: trio.SocketStream, connection: Connection) -> None:
        self._counter = counter
        self._connection = connection

    async def publish(self, *, within: bool = False) -> int:
        """Publishes with INSERT and COMMIT. The session leaves autocommit mode at the first call, so no BEGIN is sent.

        With `within` the transaction begins before the offset is drawn.
        """
        await self._connection.begin()
        if within:
            await self._connection.fetch(b"SELECT 1")
        await self._counter.send_all(_INCR)
        answer = await self._counter.receive_some(64)  # `:1234` and a line's end, in one piece
        offset = int(answer[1:])
        await self._connection.execute(_PREPARED.bind(offset, now(), BODY))
        await self._connection.commit()
        return offset

    async def aclose(self) -> None:
        await self._counter.aclose()
        self._connection.close()


async def join(dsn: str, redis_port: int, callers: int) -> list[Caller]:
    """Creates the table, resets the counter and connects the callers."""
    with databases.log_in(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(_TABLE)
    with redis.Redis(port=redis_port) as counter:
        counter.delete("offset")
    place = Dsn.parse(dsn)
    return [
        Caller(
            await trio.open_tcp_stream("127.0.0.1", redis_port),
            await connect(place, write=False, timeout=_LOGIN_SECONDS),
        )
        for _ in range(callers)
    ]


async def measure_tasks(dsn: str, redis_port: int, callers: int, seconds: float) -> Figures:
    """Measures callers that are tasks and use the store's own MySQL driver."""
    joined = await join(dsn, redis_port, callers)
    figures = await in_tasks([caller.publish for caller in joined], seconds)
    for caller in joined:
        await caller.aclose()
    return figures


def measure_sqlite(dsn: str, seconds: float) -> Figures:
    """Measures one transaction per message on SQLite, with one caller: more would only wait for each other."""
    with closing(connect_sqlite(Path(dsn.removeprefix(databases.SQLITE)))) as connection:
        connection.execute(_TABLE)
        offsets = itertools.count(1)
        return in_line(lambda: connection.execute(_INSERT, (next(offsets), now(), BODY)), seconds)
