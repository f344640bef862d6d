"""How late are the messages of many recurring schedules, and what do they cost the server?

    python -m tarry.bench.schedules --dsn mysql://root@127.0.0.1:3306/any [--schedules 10000] [--every 60] [--runs 5]

So many schedules on a real server, each with a message in every period:

    spread    their fire times lie evenly in the period
    instant   all have the same ones
    plain     as `instant`, but messages of the same time that no schedule sends: the baseline

Some consumers claim with a long poll, acknowledge and claim again. Lateness is the wall clock when the answer to the
claim is whole, less the message's `deliver_at`; database, server and consumers share this machine and so its clock.
`server_cpu` is how much of one processor the server took over the periods. Every fire time must arrive once, and none
before its time.
"""

import itertools
import time
from functools import partial

import trio

from ..service.demo.server_process import ServerProcess
from ..service.durations import format_time
from . import databases
from .arrivals import Arrivals
from .lean_http import LeanHTTP
from .report import Figures, chosen, column, percentile, say, spreads, summarize
from .subject import BODY, now, served
from .usage import cpu_of

_CALLERS = 20
"""That make the schedules."""
_PUTS_A_SECOND = 250
"""At the least, on any machine that this is worth running on; they are made when the first falls due."""
_PAGE = 1000


def main() -> None:
    parser = databases.options("schedules", __doc__, "sqlite", runs=5)
    parser.add_argument("--schedules", type=databases.count, default=10_000, help="that there are")
    parser.add_argument("--every", type=databases.count, default=60, help="seconds of a period")
    parser.add_argument("--periods", type=databases.count, default=2, help="that are measured")
    parser.add_argument("--consumers", type=databases.count, default=4, help="connections that claim")
    arguments = parser.parse_args()
    how = (arguments.schedules, arguments.every, arguments.periods, arguments.consumers)
    kinds = ("spread", "instant", "plain")
    with databases.server(arguments.dsn) as dsn:
        contestants = {kind: partial(measure, kind, *how) for kind in kinds}
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
    """One run against a server of its own."""
    with served(dsn, log_level="warning") as server:
        return trio.run(_Run(server, kind, schedules, every * 1000, periods, consumers).measure)


class _Run:
    """The schedules, the consumers, and what arrived."""

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
        if self._kind == "plain":
            await self._publish(first)
        else:
            await self._put(first)
        if now() > first - 500:
            raise RuntimeError("to make the schedules took longer than the time that was left for it")
        say(f"made {lead - first + now()} ms")
        await trio.sleep((first - 500) / 1000 - time.time())
        # As it began, half a second before a fire time; the last of those that are measured was a second before it.
        took = 1000 * cpu_of(self._server.pid)
        async with trio.open_nursery() as nursery:
            for number in range(self._consumers):
                nursery.start_soon(self._arrivals.consume, f"bench-{number}")
            await trio.sleep((first - 500 + self._periods * self._every) / 1000 - time.time())
            took = 1000 * cpu_of(self._server.pid) - took
            nursery.cancel_scope.cancel()
        return {**self._lateness(first), "server_cpu": round(took / self._periods / self._every, 3)}

    async def _put(self, first: int) -> None:
        numbers = iter(range(self._schedules))
        step = self._every / self._schedules if self._kind == "spread" else 0
        # What falls due in the last half second of the measurement would be late in the books, and nowhere else.
        step *= 1 - 1000 / self._every

        async def some() -> None:
            async with LeanHTTP(self._server.port) as http:
                for number in numbers:
                    if number % _PAGE == 0:
                        say(f"making {number} of {self._schedules}")
                    at = first + round(number * step)
                    # One more than is measured: each that is has its next put there to wait.
                    times = [format_time(one).encode() for one in (at, at + self._periods * self._every)]
                    body = b'{"topic":"bench","every":%d,"starts_at":"%b","ends_at":"%b","body":%b}'
                    body %= (self._every, *times, BODY)
                    await http.ask("PUT", f"/v1/schedules/bench-{number}", body)

        async with trio.open_nursery() as nursery:
            for _ in range(_CALLERS):
                nursery.start_soon(some)

    async def _publish(self, first: int) -> None:
        async with LeanHTTP(self._server.port) as http:
            for period, start in itertools.product(range(self._periods), range(0, self._schedules, _PAGE)):
                due = format_time(first + period * self._every).encode()
                one = b'{"deliver_at":"%b","body":%b}' % (due, BODY)
                page = b",".join([one] * min(_PAGE, self._schedules - start))
                await http.post("/v1/topics/bench/messages", b'{"messages":[%b]}' % page)

    def _lateness(self, first: int) -> Figures:
        times = list(self._arrivals.times())
        late = sorted(lateness for _, lateness in times)
        drained: dict[int, float] = {}
        for deliver_at, lateness in times:
            period = (deliver_at - first) // self._every
            drained[period] = max(drained.get(period, 0), lateness)
        return {
            "p50_ms": round(percentile(late, 0.5), 2),
            "p99_ms": round(percentile(late, 0.99), 2),
            "max_ms": round(late[-1], 2),
            "drained_ms": round(sum(drained.values()) / len(drained), 1),
            "early": sum(one < 0 for one in late),
        }


if __name__ == "__main__":
    main()
