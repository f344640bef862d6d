"""How fast is a month of messages scheduled through HTTP, and in how much memory?

    python -m tarry.bench.scheduling --dsn mysql://root@127.0.0.1:3306/any [--rows 1000000] [--days 30] [--runs 3]

Messages of 200 bytes, due at random times of the days to come, in one request of NDJSON to a real server: each line has
its own answer behind its commit. `server_mb` is the memory that the server had taken before the request, and `peak_mb`
the most that it took in it.
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
"""Milliseconds until the first may fall due: nothing does while it is measured."""


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
    """Through a server of its own."""
    with served(dsn, log_level="warning") as server:
        before = rss_of(server.pid)
        began = time.perf_counter()
        begin, length = now() + _LEAD, days * 86_400_000
        dues = lines(rows, lambda: begin + random.randrange(length))  # it spreads times
        send_lines(server.port, dues, rows, topic="bench")
        took = time.perf_counter() - began
        memory = {"server_mb": before >> 20, "peak_mb": peak_of(server.pid) >> 20}
    databases.expect_rows(dsn, "delay", rows)
    return {"rows": rows, "seconds": round(took, 1), "per_s": round(rows / took)} | memory


def lines(rows: int, due: Callable[[], int]) -> Iterator[bytes]:
    """So many messages, each with a due time of its own, Unix milliseconds; a piece at a time."""
    for at in range(0, rows, _PIECE):
        if at % 100_000 == 0:
            say(f"{at} of {rows}")
        dues = [due() for _ in range(min(_PIECE, rows - at))]
        yield b"".join([b'{"deliver_at":"%b","body":%b}\n' % (format_time(due).encode(), BODY) for due in dues])


if __name__ == "__main__":
    main()
