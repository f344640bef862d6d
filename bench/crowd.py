"""How much later do a topic's messages arrive when a crowd of another topic's messages is due in one second?

    python -m tarry.bench.crowd --dsn mysql://root@127.0.0.1:3306/any [--crowd 100000] [--rate 20] [--runs 3]
    python -m tarry.bench.crowd --dsn sqlite --crowd 1000000 --runs 1

A real server starts on a store in which every message is already scheduled. Topic B has --rate messages a second:
first alone for --seconds, then beside the crowd, which is messages of topic A spread over the milliseconds of one
second. A consumer of B claims over HTTP with a long poll; nobody claims from A. Each run also measures `promote`
(bench/promote.py), which moves as many messages in batches of the service's size.

    alone, beside     lateness of B's messages at the consumer: those due before the crowd's second; and those due from
                      that second on until the crowd was drained
    drained_per_s     messages of A a second, from the crowd's first millisecond until the last was in the stream
    ratio             beside to alone, and drained to the rate of `promote` in the same run
"""

from collections.abc import Callable

import msgspec
import trio

from ..service.engine.dispatch.burst import BATCH
from ..store.catalogue import TopicDraft
from . import databases, promote
from .arrivals import Arrivals, percentiles
from .lean_http import LeanHTTP
from .report import Figures, chosen, column, ratios, spread, spreads, summarize
from .subject import add_topic, fill, opened, served

_FILLED_A_SECOND, _DRAINED_A_SECOND = 6_000, 8_000
"""The least messages a second that a usable machine schedules, and drains. They give the time that scheduling needs
before the first due time, and how long B's messages go on after the crowd's second."""
_READY = 8.0
"""Seconds until the server serves and has loaded all messages into its wheel."""
_SECOND = 1_000
_CASES = ("alone", "beside")
_TOLD = ("p50_ms", "p90_ms", "p99_ms")


def main() -> None:
    parser = databases.options("crowd", __doc__, "sqlite", runs=3)
    parser.add_argument("--crowd", type=databases.count, default=100_000, help="messages of A, due in one second")
    parser.add_argument("--rate", type=databases.count, default=20, help="messages of B a second")
    parser.add_argument("--seconds", type=databases.seconds, default=15, help="of B alone")
    arguments = parser.parse_args()
    how = (arguments.crowd, arguments.rate, arguments.seconds)
    contestants: dict[str, Callable[[str], Figures]] = {
        "promote": lambda empty: trio.run(promote.measure, empty, arguments.crowd, BATCH),
        "crowd": lambda empty: measure(empty, *how),
    }
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        runs = databases.alternate(dsn, "crowd", arguments.runs, contestants)
    found = [run["crowd"] for run in runs]
    late = [{case: run[case] for case in _CASES} for run in found]
    rates = [{"promote": run["promote"]["per_s"], "drained": run["crowd"]["drained_per_s"]} for run in runs]
    summarize(
        "crowd",
        **chosen(arguments, "crowd", "rate", "seconds", "runs"),
        **settings,
        drained_after_ms=spread([run["drained_after_ms"] for run in found]),
        **{case: spreads([{name: run[case][name] for name in _TOLD} for run in late], 1) for case in _CASES},
        per_s=spreads(rates),
        ratio={
            "drained": ratios(rates, "drained", "promote"),
            **{name.removesuffix("_ms"): ratios(column(late, name), "beside", "alone") for name in _TOLD},
        },
    )


def measure(dsn: str, crowd: int, rate: int, seconds: float) -> Figures:
    """Measures one run against its own server."""
    total = round(rate * (seconds + 1 + crowd / _DRAINED_A_SECOND))
    at = trio.run(schedule, dsn, crowd, rate, seconds, total)
    with served(dsn, log_level="warning") as server:
        arrivals = Arrivals(server.port, total, topic="b")
        trio.run(consume, server.port, arrivals, crowd)
    count, last = databases.streamed(dsn, "a")
    if count != crowd:
        raise AssertionError(f"of {crowd} messages {count} came")
    times = list(arrivals.times())
    alone = [late for due, late in times if due < at]
    beside = [late for due, late in times if at <= due <= last]
    drained = max(1, last - at)
    return {
        "drained_per_s": round(crowd * _SECOND / drained),
        "drained_after_ms": drained,
        "alone": percentiles(alone),
        "beside": percentiles(beside),
        "counted": [len(alone), len(beside)],
    }


async def schedule(dsn: str, crowd: int, rate: int, before: float, total: int) -> int:
    """Schedules both topics, B from `before` seconds ahead of the crowd on; returns when the crowd's second begins."""
    async with opened(dsn) as store:
        a, b = await add_topic(store, TopicDraft("a")), await add_topic(store, TopicDraft("b"))
        lead = crowd / _FILLED_A_SECOND + _READY + before
        at = (await store.now() + round(_SECOND * lead)) // _SECOND * _SECOND
        first = at - round(_SECOND * before)
        await fill(store, b, total, lambda number: first + number * _SECOND // rate)
        await fill(store, a, crowd, lambda number: at + number * _SECOND // crowd)
        if await store.now() > first - _SECOND * _READY / 2:
            raise RuntimeError("scheduling took longer than the time that was left for it")
    return at


async def consume(port: int, arrivals: Arrivals, crowd: int) -> None:
    """Consumes all of B, then waits until the whole crowd is in its stream."""
    await arrivals.consume("bench")
    async with LeanHTTP(port) as http:
        while msgspec.json.decode(await http.ask("GET", "/v1/topics/a"))["streamed"] < crowd:
            await trio.sleep(0.2)


if __name__ == "__main__":
    main()
