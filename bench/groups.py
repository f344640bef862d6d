"""Does a topic with 50 groups take in messages as fast as one with a single group?

    python -m tarry.bench.groups --dsn mysql://root@127.0.0.1:3306/any [--groups 50] [--callers 20] [--seconds 5]

The node as it is served, without HTTP: so many callers with one message of 200 bytes under way each. Each group has a
coordinator, since somebody has claimed for it before, and nobody waits there: what is measured is what groups cost a
publish, not what their consumers cost the machine. One group and many alternate, run after run, each on an empty
database.
"""

from collections.abc import Callable

import trio

from ..service.making import begin
from ..service.metrics import Metrics
from ..service.settings import Settings
from ..service.upkeep.collector import tame_collector
from ..service.upkeep.logs import set_up_logs
from ..store.records import ClaimRequest, Draft, Publication
from . import databases
from .closed_loop import in_tasks
from .report import Figures, chosen, column, ratios, spreads, summarize
from .subject import BODY, opened


def main() -> None:
    parser = databases.options("groups", __doc__, runs=5)
    parser.add_argument("--groups", type=databases.count, default=50, help="groups of the topic")
    parser.add_argument("--callers", type=databases.count, default=20, help="callers at a time")
    parser.add_argument("--seconds", type=databases.seconds, default=5, help="of each measurement")
    arguments = parser.parse_args()
    tame_collector()
    set_up_logs("error")
    how = (arguments.callers, arguments.seconds)
    contestants: dict[str, Callable[[str], Figures]] = {
        "one": lambda empty: trio.run(measure, empty, 1, *how),
        "many": lambda empty: trio.run(measure, empty, arguments.groups, *how),
    }
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        rates = column(databases.alternate(dsn, "groups", arguments.runs, contestants), "per_s")
    summarize(
        "groups",
        **chosen(arguments, "groups", "callers", "seconds", "runs"),
        **settings,
        per_s=spreads(rates),
        many_to_one=ratios(rates, "many", "one"),
    )


async def measure(dsn: str, groups: int, callers: int, seconds: float) -> Figures:
    """A node of its own, its groups claimed for once."""
    async with opened(dsn) as store:
        server = begin(store.backend, Settings(dsn=dsn), Metrics())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.run)
            await server.ready.wait()
            node = server.node
            topic = await node.directory.topic("bench")
            for number in range(groups):
                group = await node.directory.group(topic, f"group-{number}")
                await node.groups.claim(group, ClaimRequest("bench", 1, 1000), 0)

            async def publish() -> None:
                await node.intake.publish(Publication((Draft(topic=topic, queue=topic.queues[0], body=BODY),)))

            figures = await in_tasks([publish] * callers, seconds)
            nursery.cancel_scope.cancel()
        return {"groups": groups, **figures}


if __name__ == "__main__":
    main()
