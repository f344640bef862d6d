"""How fast does each page of the dashboard load with a million waiting messages?

    python -m tarry.bench.pages --dsn mysql://root@127.0.0.1:3306/any [--rows 1000000] [--times 20]

Messages with a key each, due at random times in the next 30 days, are published over HTTP. When the forecast counts all
of them, each page is requested --times times, one request after another on one connection. Times are milliseconds from
the request to the last byte; the first request is reported separately, since its data is not cached yet.
"""

import http.client
import json
import random
import statistics
import time
from collections.abc import Iterator
from typing import Any

from . import databases
from .line_load import send_lines
from .report import chosen, say, summarize
from .subject import served

_SPAN = 30 * 24 * 3_600_000
_LEAD = 300_000
"""Milliseconds until the first message may fall due, so that none does during the measurement."""
_PIECE = 1000
_PATIENCE = 300.0
"""Seconds to wait for the forecast."""
_PAGES = (
    "/ui",
    "/ui/pictures",
    "/ui/topics",
    "/ui/topics/orders",
    "/ui/topics/orders/pictures",
    "/ui/groups",
    "/ui/groups/orders/billing",
    "/ui/messages",
    "/ui/messages?topic=orders&state=scheduled",
    "/ui/messages?topic=orders&key=order-7",
    "/ui/schedules",
    "/ui/dead",
    "/ui/dead/orders/billing",
    "/ui/nodes",
    "/ui/reports",
)


def main() -> None:
    parser = databases.options("pages", __doc__, "sqlite")
    parser.add_argument("--rows", type=databases.count, default=1_000_000, help="messages that wait")
    parser.add_argument("--times", type=databases.count, default=20, help="each page is asked for, beside the first")
    arguments = parser.parse_args()
    with databases.server(arguments.dsn) as dsn, databases.scratch(dsn) as empty:
        durability = databases.durability(dsn)
        with served(empty, log_level="warning") as server:
            send_lines(server.port, _lines(arguments.rows), arguments.rows, topic="orders")
            say(f"{arguments.rows} messages wait")
            line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            line.request("PUT", "/v1/topics/orders/groups/billing")
            line.getresponse().read()
            _wait_for_forecast(line, arguments.rows)
            (some,) = json.loads(_ask(line, "/v1/messages?topic=orders&state=scheduled&max=1"))["messages"]
            pages = {path: _timed(line, path, arguments.times) for path in _PAGES}
            pages["/ui/messages/{id}"] = _timed(line, f"/ui/messages/{some['id']}", arguments.times)
    slowest = max(pages, key=lambda path: pages[path]["median"])
    summarize("pages", **chosen(arguments, "rows", "times"), **durability, pages=pages, slowest=slowest)


def _lines(rows: int) -> Iterator[bytes]:
    dice = random.Random(7)
    for start in range(0, rows, _PIECE):
        yield b"".join(
            b'{"body":{"order":%d},"key":"order-%d","delay":%d}\n' % (number, number, _LEAD + dice.randrange(_SPAN))
            for number in range(start, min(start + _PIECE, rows))
        )


def _wait_for_forecast(line: http.client.HTTPConnection, rows: int) -> None:
    """Waits until the forecast holds all messages, so no page has to count rows. Raises RuntimeError on a timeout."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        told: dict[str, Any] = json.loads(_ask(line, "/v1/upcoming?width=1d&buckets=31"))
        if told["counted_until"] is None and sum(one["messages"] for one in told["buckets"]) == rows:
            return
        time.sleep(1)
    raise RuntimeError(f"the forecast has not all messages after {_PATIENCE:g} s")


def _timed(line: http.client.HTTPConnection, path: str, times: int) -> dict[str, float]:
    took: list[float] = []
    for _ in range(times + 1):
        began = time.perf_counter()
        _ask(line, path)
        took.append(1000 * (time.perf_counter() - began))
    first, *rest = took
    return {"first": round(first, 1), "median": round(statistics.median(rest), 1), "max": round(max(rest), 1)}


def _ask(line: http.client.HTTPConnection, path: str) -> bytes:
    line.request("GET", path, headers={"Accept": "text/html"})
    answer = line.getresponse()
    body = answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
    return body


if __name__ == "__main__":
    main()
