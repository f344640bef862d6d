"""How fast can a month of messages be scheduled over HTTP, and how much memory does the server take?

    python -m tarry.bench.scheduling --dsn mysql://root@127.0.0.1:3306/any [--rows 1000000] [--days 30] [--runs 3]

One NDJSON request to a real server schedules messages of 200 bytes due at random times in the next days; each line gets
its own answer after its commit. `server_mb` is the server's memory before the request, `peak_mb` the most that it took
up to the end of it.
"""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial

from ..service.durations import format_time
from . import databases
from .line_load import send_lines
from .report import Figures, chosen, say, spread, summarize
from .subject import BODY, now, served
from .usage import peak_of, rss_of

_PIECE = 1000
_LEAD = 3_600_000
"""Milliseconds until the first message may fall due, so that none does during the measurement."""


def main() -> None:
    parser = databases.options("scheduling", __doc__, "mysql", runs=3)
    parser.add_argument("--rows", type=databases.count, default=1_000_000, help="messages")
    parser.add_argument("--days", type=databases.count, default=30, help="over which they fall due")
    arguments = parser.parse_args()
    with databases.server(arguments.dsn) as dsn:
        contestants = {"lines": partial(measure, arguments.rows, arguments.days)}
        runs = databases.alternate(dsn, "scheduling", arguments.runs, contestants)
        summarize(
            "scheduling",
            **chosen(arguments, "rows", "days", "runs"),
            **databases.durability(dsn),
            **{name: spread([run["lines"][name] for run in runs]) for name in ("per_s", "server_mb", "peak_mb")},
        )


def measure(rows: int, days: int, dsn: str) -> Figures:
    """Measures one run against its own server."""
    with served(dsn, log_level="warning") as server:
        before = rss_of(server.pid)
        took = schedule(server.port, rows, now() + _LEAD, days * 86_400_000, "bench")
        memory = {"server_mb": before >> 20, "peak_mb": peak_of(server.pid) >> 20}
    databases.expect_rows(dsn, "delay", rows)
    return {"rows": rows, "seconds": round(took, 1), "per_s": round(rows / took)} | memory


def schedule(port: int, rows: int, begin: int, span: int, topic: str) -> float:
    """Schedules messages in one request at random times of so many milliseconds from `begin` on; returns the seconds
    that it took."""
    began = time.perf_counter()
    send_lines(port, lines(rows, lambda: begin + random.randrange(span)), rows, topic=topic)  # it spreads times
    return time.perf_counter() - began


def lines(rows: int, due: Callable[[], int]) -> Iterator[bytes]:
    """Yields the lines of `rows` messages in pieces; `due` gives the due time of each, in Unix milliseconds."""
    for at in range(0, rows, _PIECE):
        if at % 100_000 == 0:
            say(f"{at} of {rows}")
        dues = [due() for _ in range(min(_PIECE, rows - at))]
        yield b"".join([b'{"deliver_at":"%b","body":%b}\n' % (format_time(due).encode(), BODY) for due in dues])


if __name__ == "__main__":
    main()
