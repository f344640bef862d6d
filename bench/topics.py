"""What do very many topics cost a publish to one of them, and an idle server?

    python -m tarry.bench.topics --dsn mysql://root@127.0.0.1:3306/any [--topics 100000] [--few 100] [--seconds 20]

Two servers run one after the other, each on its own store: the first, the baseline, with --few topics, the second with
--topics; each topic has a group. --seconds should be more than ten, to include the server's rounds of ten seconds.

    p50_ms, p99_ms   of a publish, one after another, to twenty of the topics
    idle_percent     of a core, without any requests
    start_s          from the start of the process until it is ready
    *_ratio          the figure with many topics divided by that with few
"""

import time
from collections.abc import Sequence

import msgspec
import trio

from ..store import catalogue
from ..store.ports import Transaction
from ..wheel.ladder import Ladder
from . import databases
from .closed_loop import in_tasks
from .lean_http import LeanHTTP
from .report import Figures, say, show
from .subject import opened, served
from .usage import cpu_of

_AT_ONCE = 5000
_ASKED = 20


def main() -> None:
    parser = databases.options("topics", __doc__, "sqlite")
    parser.add_argument("--topics", type=databases.count, default=100_000, help="of the second server")
    parser.add_argument("--few", type=databases.count, default=100, help="topics of the baseline")
    parser.add_argument("--seconds", type=databases.seconds, default=20.0, help="of publishing, and of rest")
    arguments = parser.parse_args()
    if not _ASKED <= arguments.few <= arguments.topics:
        parser.error(f"at least {_ASKED} topics")
    found: list[Figures] = []
    with databases.server(arguments.dsn) as dsn:
        for many in (arguments.few, arguments.topics):
            with databases.scratch(dsn) as scratch:
                settings = databases.durability(dsn)
                say(f"{many} topics")
                trio.run(fill, scratch, many)
                found.append(measure(scratch, many, arguments.seconds))
                show({"bench": "topics", "topics": many, "seconds": arguments.seconds, **settings, **found[-1]})
    few, all_ = found
    ratios = {f"{name}_ratio": round(float(all_[name]) / max(float(few[name]), 1e-3), 2) for name in few}
    show({"bench": "topics", "summary": "many topics by few", "topics": arguments.topics, **ratios})


async def fill(dsn: str, many: int) -> None:
    """Writes topics with a queue and a group each straight into the tables."""

    async def add(tx: Transaction) -> None:
        for begin in range(0, many, _AT_ONCE):
            names = [b"topic-%06d" % number for number in range(begin, min(many, begin + _AT_ONCE))]
            await tx.execute_many("topic.add", [(name, 0, 0, None, None, 0, 1, None, None, None) for name in names])
        after = 0
        while topics := (await catalogue.topic_page(tx, after, _AT_ONCE, Ladder()))[0]:
            ids: Sequence[int] = [topic.id for topic in topics]
            await tx.execute_many("queue.add", [(id_, 0, 0, 0, 0, 0) for id_ in ids])
            await tx.execute_many("consumer_group.add", [(id_, b"g", None, 0, None, 1) for id_ in ids])
            after = ids[-1]

    async with opened(dsn) as store:
        await store.write(add)


def measure(dsn: str, many: int, seconds: float) -> Figures:
    """Measures one server with these topics."""
    began = time.perf_counter()
    with served(dsn) as server:
        started = time.perf_counter() - began
        figures = trio.run(ask, server.port, many, seconds)
        before = cpu_of(server.pid)
        time.sleep(seconds)
        idle = 100 * (cpu_of(server.pid) - before) / seconds
    return {**figures, "idle_percent": round(idle, 1), "start_s": round(started, 2)}


async def ask(port: int, many: int, seconds: float) -> Figures:
    """Measures publishes, one after another."""
    body = msgspec.json.encode({"body": "x" * 200})
    async with LeanHTTP(port) as http:
        turn = 0

        async def publish() -> None:
            nonlocal turn
            turn += 1
            await http.post(f"/v1/topics/topic-{(turn % _ASKED) * (many // _ASKED):06}/messages", body)

        figures = await in_tasks([publish], seconds)
    return {name: figures[name] for name in ("per_s", "p50_ms", "p99_ms")}


if __name__ == "__main__":
    main()
