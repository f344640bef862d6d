"""What does a crowd of one topic, all due in one second, cost the messages of a neighbour?

    python -m tarry.bench.crowd --dsn mysql://root@127.0.0.1:3306/any [--crowd 100000] [--rate 20] [--runs 3]
    python -m tarry.bench.crowd --dsn sqlite --crowd 1000000 --runs 1

A real server on a store in which all is scheduled already. Topic B has so many messages a second: for some seconds
while other programs keep processors busy (`--busy`), for as many alone, and then on beside the crowd: messages of topic
A, spread over the milliseconds of one second. A consumer of B claims over HTTP with a long poll. Nobody claims of A, or
so many consumers do, a thousand at a time, as fast as it goes (`--consumers`). In turn with it `promote`
(bench/promote.py) moves as many in batches of that size.

    busy, alone,      B's lateness, by when it was due: while processors are busy with what shares nothing else with
    beside            it (a crowd takes about one with SQLite and one and a half with MySQL); until the crowd; and from
                      the crowd's second on until it was drained
    stream_ms         from `deliver_at` until it was in the stream; consumer_ms until the answer to the claim was whole
    drained_per_s     messages of A a second, from the crowd's first millisecond until the last was in the stream
    consumed_per_s    the same until its consumers had acked the last
    ratio             beside to alone and to busy, and drained to what `promote` does in the same run
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec
import trio

from ..service.demo.server_process import ServerProcess
from ..service.engine.dispatch.burst import BATCH
from ..store.catalogue import TopicDraft
from . import databases, promote
from .lean_http import LeanHTTP
from .processors import keep_busy
from .report import Figures, chosen, percentile, ratios, say, spread, spreads, summarize
from .subject import add_topic, fill, opened, served

_FILLED_A_SECOND, _DRAINED_A_SECOND = 6_000, 8_000
"""At the least, on a machine that this is worth running on: all is scheduled so long ahead, and so long after the
crowd's second B's messages go on."""
_READY = 8.0
"""Seconds until the server serves, with all of it in its wheel."""
_SECOND = 1_000


class _Message(msgspec.Struct):
    offset: int


class _Claim(msgspec.Struct):
    claim: str | None
    messages: list[_Message]


def main() -> None:
    parser = databases.options("crowd", __doc__, "sqlite", runs=3)
    parser.add_argument("--crowd", type=databases.count, default=100_000, help="messages of A, due in one second")
    parser.add_argument("--rate", type=databases.count, default=20, help="messages of B a second")
    parser.add_argument("--seconds", type=databases.seconds, default=15, help="of B alone, and as many beside --busy")
    parser.add_argument("--busy", type=databases.seconds, default=1, help="processors")
    parser.add_argument("--consumers", type=int, default=0, help="of A; none unless said")
    arguments = parser.parse_args()
    crowd, rate, seconds, consumers = arguments.crowd, arguments.rate, arguments.seconds, arguments.consumers
    busy = arguments.busy
    contestants: dict[str, Callable[[str], Figures]] = {
        "promote": lambda empty: trio.run(promote.measure, empty, crowd, BATCH),
        "crowd": lambda empty: measure(empty, crowd, rate, seconds, consumers, busy),
    }
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        runs = databases.alternate(dsn, "crowd", arguments.runs, contestants)
    found = [run["crowd"] for run in runs]
    names = [name for name in found[0] if name.endswith("_ms")]
    rates = [{"promote": run["promote"]["per_s"], "drained": run["crowd"]["drained_per_s"]} for run in runs]
    summarize(
        "crowd",
        **chosen(arguments, "crowd", "rate", "seconds", "consumers", "busy", "runs"),
        **settings,
        **{name: spread([figures[name] for figures in found], 1) for name in names},
        per_s=spreads(rates),
        ratio={
            "drained": ratios(rates, "drained", "promote"),
            **{
                f"{name}_to_{other}": ratios(
                    [{case: run[f"{case}_{name}_ms"] for case in ("beside", other)} for run in found],
                    *("beside", other),
                )
                for other in ("alone", "busy")
                for name in ("consumer_p50", "consumer_p90", "consumer_p99")
            },
        },
    )


def measure(dsn: str, crowd: int, rate: int, seconds: float, consumers: int, busy: float) -> Figures:
    """One run against a server of its own."""
    after = 1 + crowd / _DRAINED_A_SECOND
    before = 2 * seconds  # busy, then alone
    b_total = round(rate * (before + after))
    at = trio.run(_schedule, dsn, crowd, rate, before, b_total)
    alone_from = at - round(_SECOND * seconds)
    disturb = partial(keep_busy, busy, at / _SECOND - before, alone_from / _SECOND)
    with served(dsn, log_level="warning") as server:
        arrived, consumed = trio.run(_run, server, b_total, crowd, consumers, disturb)
    rows = databases.ask(
        dsn,
        "SELECT m.`offset`, m.deliver_at, m.streamed_at FROM message m JOIN queue q ON q.id = m.queue_id"
        " JOIN topic t ON t.id = q.topic_id WHERE t.name = x'62' ORDER BY m.`offset`",
    )
    ((count, last),) = databases.ask(
        dsn,
        "SELECT COUNT(*), MAX(m.streamed_at) FROM message m JOIN queue q ON q.id = m.queue_id"
        " JOIN topic t ON t.id = q.topic_id WHERE t.name = x'61'",
    )
    if count != crowd or len(rows) != b_total or len(arrived) != b_total:
        raise AssertionError(
            f"of {crowd} and {b_total} messages {count} and {len(rows)} came, {len(arrived)} to consumers"
        )
    disturbed = [row for row in rows if row[1] < alone_from]
    alone = [row for row in rows if alone_from <= row[1] < at]
    beside = [row for row in rows if at <= row[1] <= last]
    drained = max(1, last - at)
    return {
        "drained_per_s": round(crowd * _SECOND / drained),
        "drained_after_ms": drained,
        **_figures("busy", disturbed, arrived),
        **_figures("alone", alone, arrived),
        **_figures("beside", beside, arrived),
        **({"consumed_per_s": round(crowd * _SECOND / max(1, consumed - at))} if consumers else {}),
        "counted": [len(disturbed), len(alone), len(beside)],
    }


def _figures(case: str, rows: Sequence[tuple[int, int, int]], arrived: dict[int, float]) -> Figures:
    streamed = sorted(streamed_at - due for _, due, streamed_at in rows)
    consumed = sorted(arrived[offset] - due for offset, due, _ in rows)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {
        f"{case}_{kind}_{name}_ms": round(percentile(values, share), 1)
        for kind, values in (("stream", streamed), ("consumer", consumed))
        for name, share in shares.items()
    }


async def _schedule(dsn: str, crowd: int, rate: int, before: float, b_total: int) -> int:
    """All of it, B's from so many seconds before the crowd on; when the second of the crowd begins."""
    async with opened(dsn) as store:
        a, b = await add_topic(store, TopicDraft("a")), await add_topic(store, TopicDraft("b"))
        lead = crowd / _FILLED_A_SECOND + _READY + before
        at = (await store.now() + round(_SECOND * lead)) // _SECOND * _SECOND
        first = at - round(_SECOND * before)
        await fill(store, b, b_total, lambda number: first + number * _SECOND // rate)
        await fill(store, a, crowd, lambda number: at + number * _SECOND // crowd)
        if await store.now() > first - _SECOND * _READY / 2:
            raise RuntimeError("scheduling took longer than the time that was left for it")
    return at


async def _run(
    server: ServerProcess, total: int, crowd: int, consumers: int, disturb: Callable[[], Awaitable[None]]
) -> tuple[dict[int, float], float]:
    """What `_consume` tells; and when the last of A was acked, Unix milliseconds. `disturb` runs beside it."""
    left = crowd

    async def consume() -> None:
        nonlocal left
        async with LeanHTTP(server.port) as http:
            while left > 0:
                answer = decode(await http.post("/v1/topics/a/groups/bench/claim", claim))
                if answer.claim is not None:
                    await http.post(f"/v1/claims/{answer.claim}/ack", b"{}")
                    left -= len(answer.messages)

    claim = msgspec.json.encode({"client": "crowd", "max": 1000, "wait": "2s"})
    decode = msgspec.json.Decoder(_Claim).decode
    arrived: dict[int, float] = {}
    consumed = 0.0

    async def neighbour() -> None:
        arrived.update(await _consume(server, total, crowd))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        nursery.start_soon(disturb)
        async with trio.open_nursery() as its:
            for _ in range(consumers):
                its.start_soon(consume)
        consumed = time.time() * _SECOND
    return arrived, consumed


async def _consume(server: ServerProcess, total: int, crowd: int) -> dict[int, float]:
    """When each message of B came, by its offset, Unix milliseconds; and waits for the rest of the crowd."""
    arrived: dict[int, float] = {}
    claim = msgspec.json.encode({"client": "bench", "max": 100, "wait": "2s"})
    decode = msgspec.json.Decoder(_Claim).decode
    async with LeanHTTP(server.port) as http:
        while len(arrived) < total:
            say(f"{len(arrived)} of {total} messages of the neighbour have come")
            answer = decode(await http.post("/v1/topics/b/groups/bench/claim", claim))
            if answer.claim is not None:
                arrived |= {message.offset: http.arrived / 1_000_000 for message in answer.messages}
                await http.post(f"/v1/claims/{answer.claim}/ack", b"{}")
        while msgspec.json.decode(await http.ask("GET", "/v1/topics/a"))["streamed"] < crowd:
            await trio.sleep(0.2)
    return arrived


if __name__ == "__main__":
    main()
