"""How fast is a month of messages scheduled through HTTP, in how much memory, beside a driver in C and LOAD DATA?

    python -m tarry.bench.scheduling --dsn mysql://root@127.0.0.1:3306/any [--rows 1000000] [--days 30] [--runs 3]
        [--alone]

Messages of 200 bytes, due at random times of the days to come:

    lines        one request of NDJSON to a real server, each line with its own answer behind its commit
    executemany  the same rows into `delay`, by executemany of asyncmy, whose protocol is in C, 1,000 to a commit
    load_data    the same rows into `delay`, by one LOAD DATA LOCAL INFILE

The others check nothing, count nothing and know no wheel: they are what the database can do. `server_mb` is the memory
that the server had taken before the request, and `peak_mb` the most that it took in it. All alternate, run after run,
each on an empty database.
"""

import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import trio

from ..service.durations import format_time
from ..store.ids import IdMaker, random_nonce, shard_of
from . import databases
from .line_load import send_lines
from .report import Figures, chosen, column, ratios, say, spread, spreads, summarize
from .subject import BODY, add_topic, now, opened, served
from .usage import peak_of, rss_of

_PIECE = 1000
_COLUMNS = "shard, id, due, nonce, topic_id, queue_id, body, accepted_at, deliver_at"
_INSERT = f"INSERT INTO delay ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_LEAD = 3_600_000
"""Milliseconds until the first may fall due: nothing does while it is measured."""

Row = tuple[int, int, int, int, int, int, bytes, int, int]


def main() -> None:
    parser = databases.options("scheduling", __doc__, "mysql", runs=3)
    parser.add_argument("--rows", type=databases.count, default=1_000_000, help="messages")
    parser.add_argument("--days", type=databases.count, default=30, help="over which they fall due")
    parser.add_argument("--alone", action="store_true", help="`lines` alone: its memory, without what it is beside")
    arguments = parser.parse_args()
    if arguments.dsn.startswith("sqlite"):
        parser.error("the drivers beside it are MySQL's: name MySQL or MariaDB")
    rows, days = arguments.rows, arguments.days
    contestants: dict[str, Callable[[str], Figures]] = {
        "lines": lambda empty: by_lines(empty, rows, days),
        "executemany": lambda empty: by_executemany(empty, rows, days),
        "load_data": lambda empty: by_load_data(empty, rows, days),
    }
    if arguments.alone:
        del contestants["executemany"], contestants["load_data"]
    with databases.server(arguments.dsn) as dsn:
        runs = databases.alternate(dsn, "scheduling", arguments.runs, contestants)
        rates = column(runs, "per_s")
        beside = (
            {}
            if arguments.alone
            else {
                "times_executemany": ratios(rates, "lines", "executemany"),
                "share_of_load_data": ratios(rates, "lines", "load_data"),
            }
        )
        summarize(
            "scheduling",
            **chosen(arguments, "rows", "days", "runs"),
            **databases.durability(dsn),
            per_s=spreads(rates),
            **beside,
            **{name: spread([run["lines"][name] for run in runs]) for name in ("server_mb", "peak_mb")},
        )


def by_lines(dsn: str, rows: int, days: int) -> Figures:
    """Through a server of its own."""

    def pieces() -> Iterator[bytes]:
        for dues in _dues(rows, days):
            yield b"".join([b'{"deliver_at":"%b","body":%b}\n' % (format_time(due).encode(), BODY) for due in dues])

    _make_topic(dsn)
    with served(dsn, log_level="warning") as server:
        before = rss_of(server.pid)
        began = time.perf_counter()
        send_lines(server.port, pieces(), rows, topic="bench")
        took = time.perf_counter() - began
        memory = {"server_mb": before >> 20, "peak_mb": peak_of(server.pid) >> 20}
    return _figures(dsn, rows, took) | memory


def by_executemany(dsn: str, rows: int, days: int) -> Figures:
    """By asyncmy."""
    _make_topic(dsn)
    return _figures(dsn, rows, asyncio.run(_insert(dsn, rows, days)))


async def _insert(dsn: str, rows: int, days: int) -> float:
    parts = urlsplit(dsn)
    driver: Any = import_module("asyncmy")  # its types are half known
    connection = await driver.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path[1:],
    )
    try:
        async with connection.cursor() as cursor:
            began = time.perf_counter()
            for some in _rows(rows, days):
                await cursor.executemany(_INSERT, some)
                await connection.commit()
            return time.perf_counter() - began
    finally:
        connection.close()


def by_load_data(dsn: str, rows: int, days: int) -> Figures:
    """From a file, whose writing does not count."""
    _make_topic(dsn)
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        file = Path(folder) / "rows"
        with file.open("wb") as out:
            for row in itertools.chain.from_iterable(_rows(rows, days)):
                out.write(b"%d\t%d\t%d\t%d\t%d\t%d\t%b\t%d\t%d\n" % row)
        with databases.log_in(dsn, local_infile=True) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.local_infile")
            ((allowed,),) = cursor.fetchall()
            cursor.execute("SET GLOBAL local_infile = 1")
            try:
                began = time.perf_counter()
                cursor.execute(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE delay CHARACTER SET binary ({_COLUMNS})")
                took = time.perf_counter() - began
            finally:
                cursor.execute(f"SET GLOBAL local_infile = {allowed}")
    return _figures(dsn, rows, took)


def _dues(rows: int, days: int) -> Iterator[list[int]]:
    """Times, a piece at a time."""
    begin, length = now() + _LEAD, days * 86_400_000
    for at in range(0, rows, _PIECE):
        if at % 100_000 == 0:
            say(f"{at} of {rows}")
        yield [begin + random.randrange(length) for _ in range(min(_PIECE, rows - at))]  # it spreads times


def _rows(rows: int, days: int) -> Iterator[Sequence[Row]]:
    """Rows of `delay` with ids as the server makes them, a piece at a time."""
    ids, at = IdMaker(), now()
    for dues in _dues(rows, days):
        made = [(ids.make(due), due) for due in dues]
        yield [(shard_of(id_), id_, due, random_nonce(), 1, 1, BODY, at, due) for id_, due in made]


def _make_topic(dsn: str) -> None:
    async def make() -> None:
        async with opened(dsn) as store:
            await add_topic(store)

    trio.run(make)


def _figures(dsn: str, rows: int, took: float) -> Figures:
    databases.expect_rows(dsn, "delay", rows)
    return {"rows": rows, "seconds": round(took, 1), "per_s": round(rows / took)}


if __name__ == "__main__":
    main()
