"""How late do messages arrive, at a steady rate, at a consumer that claims over HTTP?

    python -m tarry.bench.lateness --dsn mysql://root@127.0.0.1:3306/any [--rate 1000] [--seconds 30] [--runs 5]

A real server runs in its own process. Messages of 200 bytes are scheduled ahead, one due in each millisecond at the
default rate; four consumers, each on its own connection, claim with a long poll, acknowledge and claim again.
Lateness is the wall clock when the whole answer to the claim has arrived, less the message's `deliver_at`; database,
server and consumers share this machine and so its clock. The first seconds do not count. Every message must arrive
exactly once, and all must be acknowledged; `early` counts those that came before their time.
"""

import time

import msgspec
import trio

from ..service.demo.server_process import ServerProcess
from ..service.durations import format_time
from . import databases
from .arrivals import Arrivals, percentiles
from .lean_http import LeanHTTP
from .report import Figures, chosen, say, spread, summarize
from .subject import now, served

_CONSUMERS = 4
_WARM_UP = 2.0
_PAGE = 1000
_LEAD = 3.0
"""Seconds between the last publish and the first due time."""
_PUBLISHES_A_SECOND = 2000
"""The least that a usable machine does; publishing must be over before the first message falls due."""


def main() -> None:
    parser = databases.options("lateness", __doc__, "sqlite", runs=5)
    parser.add_argument("--rate", type=databases.count, default=1000, help="messages due a second")
    parser.add_argument("--seconds", type=databases.seconds, default=30, help="that count, of each run")
    arguments = parser.parse_args()
    how = (arguments.rate, arguments.seconds)
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        runs = databases.alternate(dsn, "lateness", arguments.runs, {"tarry": lambda empty: measure(empty, *how)})
    found = [run["tarry"] for run in runs]
    summarize(
        "lateness",
        **chosen(arguments, "rate", "seconds", "runs"),
        **settings,
        **{name: spread([figures[name] for figures in found], 2) for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")},
        early=sum(figures["early"] for figures in found),
    )


def measure(dsn: str, rate: int, seconds: float) -> Figures:
    """Measures one run against its own server."""
    with served(dsn, log_level="warning") as server:
        return measure_on(server, rate, seconds)


def measure_on(server: ServerProcess, rate: int, seconds: float) -> Figures:
    """Measures one run against a server that is already running."""
    return trio.run(_measure, server.port, rate, round(rate * (seconds + _WARM_UP)))


async def _measure(port: int, rate: int, total: int) -> Figures:
    """Schedules the messages, runs the consumers and computes the lateness."""
    arrivals = Arrivals(port, total)
    first = now() + round(1000 * (_LEAD + total / _PUBLISHES_A_SECOND))
    await _schedule(port, first, rate, total)
    if now() > first - 500:
        raise RuntimeError("scheduling took longer than the time that was left for it")
    await trio.sleep(first / 1000 - time.time())
    async with trio.open_nursery() as nursery:
        for number in range(_CONSUMERS):
            nursery.start_soon(arrivals.consume, f"bench-{number}")
    times = list(arrivals.times())
    late = [lateness for deliver_at, lateness in times if deliver_at >= first + round(1000 * _WARM_UP)]
    return {
        **percentiles(late),
        "early": sum(lateness < 0 for _, lateness in times),
        "counted": len(late),
        "acked": arrivals.acked,
        "claims": len(arrivals.answers),
    }


async def _schedule(port: int, first: int, rate: int, total: int) -> None:
    async with LeanHTTP(port) as http:
        for start in range(0, total, _PAGE):
            say(f"scheduling {start} of {total}")
            page = [
                {"body": "x" * 198, "deliver_at": format_time(first + number * 1000 // rate)}
                for number in range(start, min(start + _PAGE, total))
            ]
            await http.post("/v1/topics/bench/messages", msgspec.json.encode({"messages": page}))


if __name__ == "__main__":
    main()
