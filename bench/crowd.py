"""What does a crowd of one topic, all due in one second, cost the messages of a neighbour?

    python -m tarry.bench.crowd --dsn mysql://root@127.0.0.1:3306/any [--crowd 100000] [--rate 20] [--runs 3]
    python -m tarry.bench.crowd --dsn sqlite --crowd 1000000 --runs 1

A real server on a store in which all is scheduled already. Topic B has so many messages a second: for some seconds
alone, and then on beside the crowd: messages of topic A, spread over the milliseconds of one second. A consumer of B
claims over HTTP with a long poll; nobody claims of A. In turn with it `promote` (bench/promote.py) moves as many in
batches of that size.

    alone, beside     B's lateness at its consumer, by when it was due: until the crowd; and from the crowd's second on
                      until it was drained
    drained_per_s     messages of A a second, from the crowd's first millisecond until the last was in the stream
    ratio             beside to alone, and drained to what `promote` does in the same run
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
"""At the least, on a machine that this is worth running on: all is scheduled so long ahead, and so long after the
crowd's second B's messages go on."""
_READY = 8.0
"""Seconds until the server serves, with all of it in its wheel."""
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
    """One run against a server of its own."""
    total = round(rate * (seconds + 1 + crowd / _DRAINED_A_SECOND))
    at = trio.run(schedule, dsn, crowd, rate, seconds, total)
    with served(dsn, log_level="warning") as server:
        arrivals = Arrivals(server.port, total, topic="b")
        trio.run(consume, server.port, arrivals, crowd)
    ((count, last),) = databases.ask(
        dsn,
        "SELECT COUNT(*), MAX(m.streamed_at) FROM message m JOIN queue q ON q.id = m.queue_id"
        " JOIN topic t ON t.id = q.topic_id WHERE t.name = x'61'",
    )
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
    """All of it, B's from so many seconds before the crowd on; when the second of the crowd begins."""
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
    """All of B, and waits for the rest of the crowd."""
    await arrivals.consume("bench")
    async with LeanHTTP(port) as http:
        while msgspec.json.decode(await http.ask("GET", "/v1/topics/a"))["streamed"] < crowd:
            await trio.sleep(0.2)


if __name__ == "__main__":
    main()
