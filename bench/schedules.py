"""How late are the messages of many recurring schedules, and what do they cost the server?

    python -m tarry.bench.schedules --dsn mysql://root@127.0.0.1:3306/any [--schedules 10000] [--every 60] [--runs 5]
    python -m tarry.bench.schedules --only spread spread_plain

--schedules schedules on a real server send a message in every period:

    spread          their fire times are spread evenly over the period
    spread_plain    the baseline: messages without a schedule, due when the schedules of `spread` fire
    instant         all have the same fire times
    instant_plain   the same baseline for `instant`

Consumers claim with a long poll, acknowledge and claim again. Lateness is the wall clock when the whole answer to the
claim has arrived, less the message's `deliver_at`; database, server and consumers share this machine and so its clock.
`server_cpu` is the share of one processor that the server used over the periods. Each fire time must give exactly one
message; `early` counts those that came before their time.
"""

import time
from functools import partial

import trio

from ..service.demo.server_process import ServerProcess
from ..service.durations import format_time
from ..store.schedules.firing import turn_at
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
_PLAIN = "_plain"
KINDS = ("spread", f"spread{_PLAIN}", "instant", f"instant{_PLAIN}")


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
            **{
                name: spreads(column(runs, name), 2)
                for name in ("p50_ms", "p99_ms", "max_ms", "server_cpu", "drained_ms")
            },
        )


def measure(kind: str, schedules: int, every: int, periods: int, consumers: int, dsn: str) -> Figures:
    """Measures one run against its own server."""
    with served(dsn, log_level="warning") as server:
        return trio.run(_Run(server, kind, schedules, every * 1000, periods, consumers).measure)


class _Run:
    """One run: creates the schedules or messages, runs the consumers and computes the lateness."""

    def __init__(
        self, server: ServerProcess, kind: str, schedules: int, every: int, periods: int, consumers: int
    ) -> None:
        self._server = server
        self._kind = kind
        self._schedules = schedules
        self._every = every
        self._periods = periods
        self._consumers = consumers
        self._arrivals = Arrivals(server.port, schedules * periods)

    async def measure(self) -> Figures:
        lead = 5_000 + 1000 * self._schedules // _PUTS_A_SECOND
        first = now() + lead
        if self._kind.endswith(_PLAIN):
            await self._publish(first)
        else:
            await self._put(first)
        if now() > first - 500:
            raise RuntimeError("to make the schedules took longer than the time that was left for it")
        say(f"made {lead - first + now()} ms")
        await trio.sleep((first - 500) / 1000 - time.time())
        took = 1000 * cpu_of(self._server.pid)
        next_first = first + self._periods * self._every
        async with trio.open_nursery() as nursery:
            for number in range(self._consumers):
                nursery.start_soon(self._arrivals.consume, f"bench-{number}")
            await trio.sleep((next_first - 500) / 1000 - time.time())  # again half a second before a fire time
            took = 1000 * cpu_of(self._server.pid) - took
            if not self._kind.endswith(_PLAIN):  # messages of the next fire time are not to be consumed
                await trio.sleep((next_first - 50) / 1000 - time.time())
                nursery.cancel_scope.cancel()
        return {**self._lateness(first), "server_cpu": round(took / self._periods / self._every, 3)}

    def _times(self, first: int) -> list[int]:
        """The first fire time of each schedule."""
        step = self._every / self._schedules if self._kind.startswith("spread") else 0
        # The last one fires 1.5 s before the first one fires again, so its messages arrive before the consumers end.
        step *= max(0, 1 - 1500 / self._every)
        return [first + round(number * step) for number in range(self._schedules)]

    async def _put(self, first: int) -> None:
        times = iter(enumerate(self._times(first)))

        async def some() -> None:
            async with LeanHTTP(self._server.port) as http:
                for number, at in times:
                    if number % _PAGE == 0:
                        say(f"making {number} of {self._schedules}")
                    # One fire time more than measured, so that each measured one also schedules the next.
                    ends = format_time(at + self._periods * self._every).encode()
                    body = b'{"topic":"bench","every":%d,"starts_at":"%b","ends_at":"%b","body":%b}'
                    body %= (self._every, format_time(at).encode(), ends, BODY)
                    await http.ask("PUT", f"/v1/schedules/bench-{number}", body)

        async with trio.open_nursery() as nursery:
            for _ in range(_CALLERS):
                nursery.start_soon(some)

    async def _publish(self, first: int) -> None:
        turns = [turn_at(at + nth * self._every) for nth in range(self._periods) for at in self._times(first)]
        async with LeanHTTP(self._server.port) as http:
            for start in range(0, len(turns), _PAGE):
                due = [format_time(at).encode() for at in turns[start : start + _PAGE]]
                page = b",".join([b'{"deliver_at":"%b","body":%b}' % (at, BODY) for at in due])
                await http.post("/v1/topics/bench/messages", b'{"messages":[%b]}' % page)

    def _lateness(self, first: int) -> Figures:
        times = list(self._arrivals.times())
        drained: dict[int, float] = {}
        for deliver_at, lateness in times:
            period = (deliver_at - first) // self._every
            drained[period] = max(drained.get(period, 0), lateness)
        return {
            **percentiles(lateness for _, lateness in times),
            "drained_ms": round(sum(drained.values()) / len(drained), 1),
            "early": sum(lateness < 0 for _, lateness in times),
        }


if __name__ == "__main__":
    main()
