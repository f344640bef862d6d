"""How many timers by key are set again a second, and what stays behind of those that were replaced?

    python -m tarry.bench.timers --dsn mysql://root@127.0.0.1:3306/any [--keys 100000] [--callers 200] [--seconds 5]

So many callers with one call under way each, over real sockets to a real server:

    publish   a message for tomorrow: the baseline of the same run
    again     the timer of a random one of so many keys, all of which are set before

and the same with the store alone, under the service's group commit (`store_publish`, `store_again`). All alternate, run
after run, each on an empty database. At the end of `again` as many messages wait as there are keys, and `entries` is
what the wheel of a server that did it all would hold of them: what was replaced is in it until it is swept out, which
happens when it is as much as what waits.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

import trio

from ..service.engine.batching.combiner import Combiner
from ..service.upkeep.collector import tame_collector
from ..store.records import Draft, Publication, Topic
from ..store.store import Store
from ..store.timers.keyed import Answer, Wish
from ..wheel.timing_wheel import TimingWheel
from . import databases
from .closed_loop import in_tasks
from .lean_http import LeanHTTP
from .report import Figures, column, ratios, spreads, summarize
from .subject import BODY, add_topic, group_commit, now, opened, served

_DAY = 24 * 3600 * 1000
_FILL = 1000
"""Timers to a transaction, to begin with."""


def main() -> None:
    parser = databases.options("timers", __doc__, runs=5)
    parser.add_argument("--keys", type=databases.count, default=100_000, help="that have a timer")
    parser.add_argument("--callers", type=databases.count, default=200, help="callers at a time")
    parser.add_argument("--seconds", type=databases.seconds, default=5, help="of each measurement")
    arguments = parser.parse_args()
    tame_collector()
    how = (arguments.keys, arguments.callers, arguments.seconds)
    with databases.server(arguments.dsn) as dsn:
        contestants: dict[str, Callable[[str], Figures]] = {
            "publish": lambda empty: over_http(empty, *how, again=False),
            "again": lambda empty: over_http(empty, *how, again=True),
            "store_publish": lambda empty: trio.run(partial(in_store, again=False), empty, *how),
            "store_again": lambda empty: trio.run(partial(in_store, again=True), empty, *how),
        }
        figures = databases.alternate(dsn, "timers", arguments.runs, contestants, callers=arguments.callers)
        rates = column(figures, "per_s")
        summarize(
            "timers",
            keys=arguments.keys,
            callers=arguments.callers,
            seconds=arguments.seconds,
            runs=arguments.runs,
            **databases.durability(dsn),
            per_s=spreads(rates),
            times_publish={
                "again": ratios(rates, "again", "publish"),
                "store_again": ratios(rates, "store_again", "store_publish"),
            },
        )


def over_http(dsn: str, keys: int, callers: int, seconds: float, *, again: bool) -> Figures:
    """To a server of its own."""

    async def fill() -> None:
        async with opened(dsn) as store:
            await _fill(store, await add_topic(store), keys if again else 0)

    async def measure(port: int) -> Figures:
        async with AsyncExitStack() as stack:
            lines = [await stack.enter_async_context(LeanHTTP(port)) for _ in range(callers)]
            return await in_tasks([partial(act, line) for line in lines], seconds)

    async def act(line: LeanHTTP) -> None:
        if again:
            path = f"/v1/topics/bench/timers/key-{random.randrange(keys)}"  # it spreads keys
            await line.ask("PUT", path, b'{"delay":"24h","body":%b}' % BODY)
        else:
            await line.post("/v1/topics/bench/messages", b'{"delay":"24h","body":%b}' % BODY)

    trio.run(fill)
    with served(dsn) as server:
        figures = trio.run(measure, int(server.url.rpartition(":")[2]))
    databases.expect_rows(dsn, "delay", keys if again else figures["answered"])
    return figures


async def in_store(dsn: str, keys: int, callers: int, seconds: float, *, again: bool) -> Figures:
    """The store's port under the service's group commit, and a wheel beside it."""
    async with opened(dsn) as store:
        topic = await add_topic(store)
        await _fill(store, topic, keys if again else 0)
        wheel = TimingWheel(now())

        async def write(wishes: Sequence[Wish]) -> list[Answer]:
            answers = await store.set_timers(wishes, now())
            for answer in answers:
                if answer.replaced is not None and answer.due_before is not None:
                    wheel.cancel(answer.due_before, answer.replaced)
                wheel.add(answer.due, answer.id)
            return answers

        setting, publishing = Combiner(write, waiting=callers + 1, halves=True), group_commit(store)
        act: Callable[[], Awaitable[None]]

        async def set_again() -> None:
            await setting.ask(_wish(topic, random.randrange(keys)))  # it spreads keys

        async def publish() -> None:
            draft = Draft(topic=topic, queue=topic.queues[0], body=BODY, deliver_at=now() + _DAY)
            await publishing.ask(Publication((draft,)))

        act = set_again if again else publish
        async with trio.open_nursery() as nursery:
            nursery.start_soon((setting if again else publishing).run)
            figures = await in_tasks([act] * callers, seconds)
            nursery.cancel_scope.cancel()
        databases.expect_rows(dsn, "delay", keys if again else figures["answered"])
        return {**figures, "entries": len(wheel)} if again else figures


async def _fill(store: Store, topic: Topic, keys: int) -> None:
    for begin in range(0, keys, _FILL):
        await store.set_timers([_wish(topic, number) for number in range(begin, min(keys, begin + _FILL))], now())


def _wish(topic: Topic, number: int) -> Wish:
    return Wish(topic, f"key-{number}", Draft(topic=topic, queue=topic.queues[0], body=BODY, deliver_at=now() + _DAY))


if __name__ == "__main__":
    main()
