"""How many messages a second can a consumer group claim and acknowledge?

    python -m tarry.bench.claim --dsn mysql://root@127.0.0.1:3306/any [--rows 300000] [--ahead]

Eight consumers of one group read a stream of 200-byte messages. Each claims ten, reads the bodies and acknowledges;
every ack is awaited and fenced. With --ahead each asks for its next claim while its ack is on the way, as the client's
`consume` does:

    turn            Tarry's store under the service's coordinator: waiting calls of a group share one transaction
    lock_and_log    the published way: a lock, and a log row per message; MySQL only
    skip_locked     a row per message, owned with SKIP LOCKED; MySQL only

The last two are in bench/rival_claims.py. All alternate, run after run; ratios are within each run. HTTP is not
involved; for that see bench/lateness.py.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, cast

import trio
from attrs import frozen

from ..service.clock import Clock
from ..service.engine.consume.coordinator import Coordinator
from ..service.engine.consume.turns import Turns
from ..service.engine.state.directory import Directory
from ..service.engine.state.doorbells import Doorbell
from ..store.records import Claim, ClaimRequest, Gather, Group, Settlement, Turn
from ..store.store import Store
from . import databases, rival_claims
from .closed_loop import cycle, in_tasks
from .report import Figures, chosen, column, ratios, say, spreads, summarize
from .rival_claims import CONSUMERS, SIZE
from .subject import add_topic, fill, opened

_LEASE = 60_000


def main() -> None:
    parser = databases.options("claim", __doc__, runs=5)
    parser.add_argument("--ahead", action="store_true", help="each asks for the next claim while its ack is on the way")
    parser.add_argument("--rows", type=databases.count, default=300_000, help="messages in the stream")
    parser.add_argument("--seconds", type=databases.seconds, default=5, help="of each measurement")
    arguments = parser.parse_args()
    with databases.server(arguments.dsn) as dsn:
        settings = databases.durability(dsn)
        subjects = ["turn"] if dsn.startswith(databases.SQLITE) else ["turn", "lock_and_log", "skip_locked"]
        contestants = {
            subject: partial(measure, subject, arguments.rows, arguments.seconds, arguments.ahead)
            for subject in subjects
        }
        rates = column(databases.alternate(dsn, "claim", arguments.runs, contestants), "messages_per_s")
    summarize(
        "claim",
        **chosen(arguments, "ahead", "seconds", "runs"),
        **settings,
        messages_per_s=spreads(rates),
        times={subject: ratios(rates, "turn", subject) for subject in subjects if subject != "turn"},
    )


def measure(subject: str, rows: int, seconds: float, ahead: bool, dsn: str) -> Figures:
    """Measures one contestant on its own stream."""
    return trio.run(_measure, dsn, subject, rows, seconds, ahead)


async def _measure(dsn: str, subject: str, rows: int, seconds: float, ahead: bool) -> Figures:
    async with opened(dsn) as store:
        topic = await add_topic(store)
        await fill(store, topic, rows)
        group = await store.add_group(topic, "bench", await store.now())
        say(f"measuring {subject}")
        if subject == "turn":
            figures = await measure_desk(store, group, seconds, ahead=ahead)
        else:
            figures = await rival_claims.measure(dsn, subject, topic.queues[0].id, seconds, ahead=ahead)
        if figures["messages"] != SIZE * figures["answered"]:
            raise AssertionError(f"{figures['messages']} messages in {figures['answered']} claims: the stream ran dry")
        return {**figures, "messages_per_s": figures["per_s"] * SIZE}


@frozen
class _StoresTurns:
    """Takes turns straight from the store, without the bookkeeping that a node does after each turn."""

    store: Store

    async def take(self, group: Group, gather: Gather, _present: Collection[str]) -> Turn:
        return await self.store.turn(group, *gather())

    def tell(self, group: Group, settlements: Sequence[Settlement], turn: Turn) -> None:
        """Does nothing: the bench has no node to inform."""


async def measure_desk(store: Store, group: Group, seconds: float, *, ahead: bool) -> Figures:
    """Measures the service's coordinator over the store's turns, wired together as in a node."""
    clock = Clock(store.now)
    await clock.take()

    bell = Doorbell[Any]()
    directory = Directory(store, clock, auto_create=False)
    coordinator = Coordinator(group, directory, clock, cast(Turns, _StoresTurns(store)), bell)
    acked = 0

    async def take() -> Claim:
        claim = await coordinator.claim(ClaimRequest("bench", SIZE, _LEASE), 0)
        if claim is None:
            raise AssertionError("the stream ran dry: more --rows, or fewer --seconds")
        return claim

    async def ack(claim: Claim) -> None:
        nonlocal acked
        settled = await coordinator.settle(Settlement(claim.key, "ack"))
        if settled is None or settled.acked != len(claim.messages):
            raise AssertionError(f"{len(claim.messages)} claimed, and then {settled}")
        acked += settled.acked

    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        figures = await in_tasks([cycle(take, ack, ahead=ahead) for _ in range(CONSUMERS)], seconds)
        nursery.cancel_scope.cancel()
    return {**figures, "messages": acked}


if __name__ == "__main__":
    main()
