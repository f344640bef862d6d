"""What does a locked row of one topic cost the callers of another?

    python -m tarry.bench.neighbours --dsn mysql://root@127.0.0.1:3306/any [--rate 10] [--seconds 15] [--runs 5]

Topic B of a real server gets --rate publishes a second and as many claims with their acks, each kind over its own
connection: first alone, then while another database session locks the row of topic A's queue and twenty
publishers keep publishing to A, each retrying when it is told that A is busy. The rate is a small part of what the
server can do, so the times show waits and not load. A call is timed from when it was due, so one long wait also shows
in the calls that it held up.

    case         alone; met: from the moment of the lock on; known: after that, with the same lock still held
    publish_p99_ms, claim_p99_ms     of publishes on B, and of claims with their acks
    told         publishes to A that were answered with 503
    ratio        met, and known, to alone, within each run
"""

import time
from collections.abc import Awaitable, Callable

import msgspec
import trio

from . import databases
from .lean_http import LeanHTTP, RefusedError
from .report import Figures, chosen, column, percentile, ratios, say, show, spreads, summarize
from .subject import served

_PUBLISHERS = 20
"""On A, while it is locked."""
_WARM_UP = 2.0
"""Seconds of publishes and claims before the first measurement."""
_BODY = msgspec.json.encode({"body": "x" * 198})
_CLAIM = msgspec.json.encode({"client": "bench", "max": 100})
_LOCK = "SELECT id FROM queue WHERE group_id = 0 AND topic_id = (SELECT id FROM topic WHERE name = 'a') FOR UPDATE"


def main() -> None:
    parser = databases.options("neighbours", __doc__, runs=5)
    parser.add_argument("--rate", type=databases.count, default=10, help="publishes, and claims, a second on B")
    parser.add_argument("--seconds", type=databases.seconds, default=15, help="of each measurement")
    arguments = parser.parse_args()
    if arguments.rate * arguments.seconds < 1:
        parser.error("no time for one call")
    if arguments.dsn.startswith("sqlite"):
        parser.error("nobody else can lock a row of SQLite's: the question is one of MySQL and MariaDB")
    found: list[dict[str, Figures]] = []
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        for run in range(1, arguments.runs + 1):
            with databases.scratch(dsn) as fresh:
                say(f"run {run} of {arguments.runs}")
                found.append(measure(fresh, arguments.rate, arguments.seconds))
            for case, figures in found[-1].items():
                show({"bench": "neighbours", "run": run, "case": case, **figures})
    names = [name for name in found[0]["alone"] if name.endswith("_ms")]
    cases = {case: spreads([{name: run[case][name] for name in names} for run in found], 1) for case in found[0]}
    times = {
        case: {name.removesuffix("_ms"): ratios(column(found, name), case, "alone") for name in names}
        for case in ("met", "known")
    }
    summarize(
        "neighbours",
        **chosen(arguments, "rate", "seconds", "runs"),
        **settings,
        **cases,
        ratio=times,
    )


def measure(dsn: str, rate: int, seconds: float) -> dict[str, Figures]:
    """Measures one run against its own server and returns the figures of each case."""
    with served(dsn, log_level="error") as server:
        return trio.run(_measure, server.port, dsn, rate, seconds)


async def _measure(port: int, dsn: str, rate: int, seconds: float) -> dict[str, Figures]:
    async with LeanHTTP(port) as http:
        await http.post("/v1/topics/a/messages", _BODY)
        await http.post("/v1/topics/b/messages", _BODY)
        await http.post("/v1/topics/b/groups/g/claim", _CLAIM)
    await _call_b(port, rate, _WARM_UP)
    alone = await _call_b(port, rate, seconds)
    told = [0]
    with databases.log_in(dsn) as other, other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(_LOCK)
        async with trio.open_nursery() as nursery:
            for _ in range(_PUBLISHERS):
                nursery.start_soon(_insist, port, told)
            met = await _call_b(port, rate, seconds)
            known = await _call_b(port, rate, seconds)
            nursery.cancel_scope.cancel()
        cursor.execute("ROLLBACK")
    return {"alone": alone, "met": met, "known": {**known, "told": told[0]}}


async def _insist(port: int, told: list[int]) -> None:
    async with LeanHTTP(port) as http:
        while True:
            try:
                await http.post("/v1/topics/a/messages", _BODY)
            except RefusedError:
                told[0] += 1
            else:
                raise AssertionError("a publish went through a locked row")


async def _call_b(port: int, rate: int, seconds: float) -> Figures:
    """Publishes and claims on B for `seconds`; returns the figures of how long the calls took."""
    published: list[float] = []
    claimed: list[float] = []
    async with LeanHTTP(port) as producer, LeanHTTP(port) as consumer:

        async def publish() -> None:
            await producer.post("/v1/topics/b/messages", _BODY)

        async def claim() -> None:
            answer = msgspec.json.decode(await consumer.post("/v1/topics/b/groups/g/claim", _CLAIM))
            if answer["claim"] is not None:
                await consumer.post(f"/v1/claims/{answer['claim']}/ack", b"{}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(_at_a_rate, publish, rate, seconds, published)
            nursery.start_soon(_at_a_rate, claim, rate, seconds, claimed)
    return {
        f"{kind}_p99_ms": round(percentile(sorted(took), 0.99) * 1000, 2)
        for kind, took in (("publish", published), ("claim", claimed))
    }


async def _at_a_rate(call: Callable[[], Awaitable[None]], rate: int, seconds: float, took: list[float]) -> None:
    """Makes calls that are due at fixed times; each is timed from then, even if an earlier call delayed it."""
    began = time.perf_counter()
    for number in range(round(rate * seconds)):
        due = began + number / rate
        await trio.sleep(max(0.0, due - time.perf_counter()))
        await call()
        took.append(time.perf_counter() - due)


if __name__ == "__main__":
    main()
