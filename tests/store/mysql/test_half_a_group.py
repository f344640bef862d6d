"""Groups that another server makes while they are read."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from attrs import define

from support.stores import START, bodies
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.ports import Transaction
from tarry.store.records import ClaimRequest, Draft, Group, Publication
from tarry.store.store import Store
from tarry.wheel.ladder import DEFAULT_RUNGS, Ladder


@define
class Interrupted:
    """Queries of a transaction; something is done behind the first of them."""

    tx: Transaction
    meanwhile: Callable[[], Awaitable[object]] | None

    async def fetch(self, query: str, row: type[Any], *values: Any) -> list[Any]:
        rows = await self.tx.fetch(query, row, *values)
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            await meanwhile()
        return rows


async def test_half_of_a_group_is_none(mysql_dsn: str) -> None:
    """Without its retry queues a group would take the topic's own queue for one of them, find nothing there, and count
    all that lies in it as expired."""
    backend = MySQLBackend(mysql_dsn)
    await backend.migrate()
    store = Store(backend)
    topic = await store.write(catalogue.add_topic, TopicDraft("orders"), START)
    await store.publish([Publication((Draft(topic=topic, queue=topic.queues[0], body=b"a"),))], START)

    async def look(tx: Transaction) -> list[Group]:
        interrupted = Interrupted(tx, lambda: store.add_group(topic, "billing", START))
        return await catalogue.find_groups(cast(Transaction, interrupted), [topic], Ladder(DEFAULT_RUNGS))

    seen = await store.read(look)
    made = await store.groups([topic])
    assert seen in ([], made)
    turn = await store.turn(made[0], [], [ClaimRequest("ann", 1, 60_000)], START)
    (claim,) = turn.claims
    assert claim is not None
    assert bodies(claim) == [b"a"]
    await backend.aclose()
