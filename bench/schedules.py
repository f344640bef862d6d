"""How late are the messages of many recurring schedules, and what do they cost the server?

    python -m tarry.bench.schedules --dsn mysql://root@127.0.0.1:3306/any [--schedules 10000] [--every 60] [--runs 5]
    python -m tarry.bench.schedules --only spread

--schedules schedules on a real server send a message in every period:

    spread    their fire times are spread evenly over the period
    instant   all have the same fire times

Consumers claim with a long poll, acknowledge and claim again. Lateness is the wall clock when the whole answer to the
claim has arrived, less the message's `deliver_at`; database, server and consumers share this machine and so its clock.
`server_cpu` is the share of one processor that the server used over the periods. Each fire time must give exactly one
message; `early` counts those that came before their time.
"""

import time
from collections.abc import Sequence
from functools import partial

import trio

from ..service.demo.server_process import ServerProcess
from ..service.durations import format_time
from . import databases
from .arrivals import Arrivals, percentiles
from .lean_http import LeanHTTP
from .report import Figures, chosen, column, say, spreads, summarize
from .subject import BODY, now, served
from .usage import cpu_of

_CALLERS = 20
"""Connections that create the schedules."""
_PUTS_A_SECOND = 120
"""The least that a usable machine does; all schedules must exist before the first fire time."""
_PAGE = 1000
KINDS = ("spread", "instant")


def main() -> None:
    parser = databases.options("schedules", __doc__, "sqlite", runs=5)
    parser.add_argument("--schedules", type=databases.count, default=10_000, help="that there are")
    parser.add_argument("--every", type=databases.count, default=60, help="seconds of a period")
    parser.add_argument("--periods", type=databases.count, default=2, help="that are measured")
    parser.add_argument("--consumers", type=databases.count, default=4, help="connections that claim")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, help="kinds")
    arguments = parser.parse_args()
    how = (arguments.schedules, arguments.every, arguments.periods, arguments.consumers)
    with databases.server(arguments.dsn) as dsn:
        contestants = {kind: partial(measure, kind, *how) for kind in KINDS if kind in arguments.only}
        runs = databases.alternate(dsn, "schedules", arguments.runs, contestants)
        summarize(
            "schedules",
            **chosen(arguments, "schedules", "every", "periods", "consumers", "runs"),
            **databases.durability(dsn),
            **{name: spreads(column(runs, name), 2) for name in ("p50_ms", "p99_ms", "max_ms", "server_cpu")},
        )


def measure(kind: str, schedules: int, every: int, periods: int, consumers: int, dsn: str) -> Figures:
    """Measures one run against its own server."""
    with served(dsn, log_level="warning") as server:
        return trio.run(_measure, server, kind, schedules, every * 1000, periods, consumers)


async def _measure(
    server: ServerProcess, kind: str, schedules: int, every: int, periods: int, consumers: int
) -> Figures:
    """Creates the schedules, runs the consumers and computes the lateness."""
    arrivals = Arrivals(server.port, schedules * periods)
    lead = 5_000 + 1000 * schedules // _PUTS_A_SECOND
    first = now() + lead
    await _put(server.port, _times(kind, first, schedules, every), every, periods)
    if now() > first - 500:
        raise RuntimeError("to make the schedules took longer than the time that was left for it")
    say(f"made {lead - first + now()} ms")
    await trio.sleep((first - 500) / 1000 - time.time())
    took = 1000 * cpu_of(server.pid)
    next_first = first + periods * every
    async with trio.open_nursery() as nursery:
        for number in range(consumers):
            nursery.start_soon(arrivals.consume, f"bench-{number}")
        await trio.sleep((next_first - 500) / 1000 - time.time())  # again half a second before a fire time
        took = 1000 * cpu_of(server.pid) - took
        await trio.sleep((next_first - 50) / 1000 - time.time())
        nursery.cancel_scope.cancel()  # messages of the next fire time are not to be consumed
    late = [lateness for _, lateness in arrivals.times()]
    return {
        **percentiles(late),
        "early": sum(lateness < 0 for lateness in late),
        "server_cpu": round(took / periods / every, 3),
    }


def _times(kind: str, first: int, schedules: int, every: int) -> list[int]:
    """The first fire time of each schedule."""
    step = every / schedules if kind == "spread" else 0
    # The last one fires 1.5 s before the first one fires again, so its messages arrive before the consumers end.
    step *= max(0, 1 - 1500 / every)
    return [first + round(number * step) for number in range(schedules)]


async def _put(port: int, times: Sequence[int], every: int, periods: int) -> None:
    left = iter(enumerate(times))

    async def some() -> None:
        async with LeanHTTP(port) as http:
            for number, at in left:
                if number % _PAGE == 0:
                    say(f"making {number} of {len(times)}")
                # One fire time more than measured, so that each measured one also schedules the next.
                ends = format_time(at + periods * every).encode()
                body = b'{"topic":"bench","every":%d,"starts_at":"%b","ends_at":"%b","body":%b}'
                body %= (every, format_time(at).encode(), ends, BODY)
                await http.ask("PUT", f"/v1/schedules/bench-{number}", body)

    async with trio.open_nursery() as nursery:
        for _ in range(_CALLERS):
            nursery.start_soon(some)


if __name__ == "__main__":
    main()
