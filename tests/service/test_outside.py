"""What users do in their own transactions is in the metrics once the service hears of it, once."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import attrs
import pytest

from support import nodes
from support.embedded import embedded
from support.hand_time import HandTime
from support.running import running
from support.stores import SQLiteTables
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.settings import Settings
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.ports import Bound, Transaction, Value
from tarry.store.records import Claim, Draft, Group, Outcome, Publication
from tarry.store.rows import R
from tarry.store.stream import outbox
from tarry.store.stream.outbox import Entry
from tarry.store.stream.positions import Position
from tarry.store.timers import timers

HOUR = 3_600_000


@attrs.frozen
class UserTransaction:
    """A user's transaction on the embedded store, which stands for the MySQL of outboxes here."""

    tx: Transaction
    ms: int

    async def now(self) -> int:
        return self.ms

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        return await self.tx.fetch(query, row, *values)

    async def execute(self, query: str, *values: Bound) -> int:
        return await self.tx.execute(query, *values)

    async def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        return await self.tx.execute_many(query, rows)


class Shop(HandTime):
    """A node, and a user beside it."""

    group: Group

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.metrics = Metrics()
        self.server = begin(embedded(path), Settings(), self.metrics, clock=self.clock)
        self.tables = SQLiteTables(path)

    @property
    def node(self) -> Node:
        return self.server.node

    async def publish_outside(self, *entries: Entry) -> list[int]:
        async def work(tx: Transaction) -> list[int]:
            user = UserTransaction(tx, self.ms)
            return [
                one.id for one in await outbox.publish(user, self.server.node.store.ids, "orders", entries, 10 * HOUR)
            ]

        return await self.server.node.store.backend.write(work)

    def ack_outside(self, claim: Claim, *places: int) -> None:
        """As `outbox.ack` leaves it."""
        ((outcome,),) = self.tables.rows(f"SELECT outcome FROM claim WHERE number = {claim.key.number}")
        outcomes = bytearray(outcome)
        for place in places:
            outcomes[place] = Outcome.ACKED_OUTSIDE
        self.tables.rows(f"UPDATE claim SET outcome = x'{outcomes.hex()}' WHERE number = {claim.key.number}")

    async def pass_time(self, ms: int) -> None:
        self.ms += ms
        pending = self.node.pending
        pending.add_missing(await self.server.node.store.read(timers.near, 0, self.ms + HOUR, 1000))
        for _ in range(2):
            pending.wake.set()
            await self.node.dispatcher.turned()

    def counted(self) -> dict[str, float]:
        """By verb."""
        found: dict[str, float] = {}
        for line in self.metrics.text().decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("tarry_messages_") and "_total{" in name and "orders" in name:
                found[name.removeprefix("tarry_messages_").partition("_total")[0]] = float(value)
        return found


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    shop = Shop(tmp_path / "tarry.db")
    async with running(shop.server):
        topic, _ = await shop.node.catalogue.put_topic(TopicDraft("orders"))
        shop.group = await shop.node.directory.group(topic, "billing")
        yield shop
    shop.tables.close()


async def publish(shop: Shop, count: int) -> None:
    topic = shop.group.topic
    drafts = tuple(Draft(topic=topic, queue=topic.queues[0], body=b"1") for _ in range(count))
    await shop.node.intake.publish(Publication(drafts))


async def test_publishes_of_an_outbox_are_counted_when_they_are_promoted(shop: Shop) -> None:
    await publish(shop, 2)
    await shop.publish_outside(Entry(body=b"1"), Entry(body=b"2", delay=HOUR))
    assert shop.counted() == {"published": 2}
    await shop.pass_time(1)
    assert shop.counted() == {"published": 3}
    await shop.pass_time(HOUR)
    assert shop.counted() == {"published": 4}
    assert shop.node.ranking._rates.of(shop.group.topic.id).published > 0
    states = await shop.node.store.read(catalogue.topic_states, [shop.group.topic])
    assert states[shop.group.topic.id].accepted == 4


async def test_cancels_bring_the_publish_with_them(shop: Shop) -> None:
    here, there = await shop.publish_outside(Entry(body=b"1", delay=HOUR), Entry(body=b"2", delay=HOUR))
    await shop.node.intake.cancel(here)
    await shop.node.intake.cancel(here)
    assert shop.counted() == {"published": 1, "cancelled": 1}
    # As an outbox leaves a cancel of its own.
    shop.tables.rows(f"DELETE FROM delay WHERE id = {there}")
    row = (there & 15, there, shop.group.topic.id, 1)
    shop.tables.rows(f"INSERT INTO outbox_cancel (shard, id, topic_id, scheduled) VALUES {row}")
    await shop.node.intake.count_outbox()
    await shop.node.intake.count_outbox()
    assert shop.counted() == {"published": 2, "cancelled": 2}


async def test_acks_are_counted_by_the_next_turn_once(shop: Shop) -> None:
    await publish(shop, 6)
    claim = await nodes.claim(shop.node, shop.group, "c", 4, 0, HOUR)
    assert claim is not None
    name = nodes.name_of(claim)
    shop.ack_outside(claim, 0, 2)
    assert "acked" not in shop.counted()
    await shop.node.groups.settle(name, "ack", ids=[claim.messages[1].id])
    assert shop.counted()["acked"] == 3
    settled = await shop.node.groups.settle(name, "ack")
    assert settled.acked == 4
    assert shop.counted()["acked"] == 4
    await shop.node.groups.settle(name, "ack")  # the answer was lost
    assert shop.counted()["acked"] == 4
    other = await nodes.claim(shop.node, shop.group, "c", 4, 0, HOUR)
    assert other is not None
    shop.ack_outside(other, 1)
    await shop.node.operations.seek(shop.group, shop.group.topic.queues, Position("latest"), dry_run=False)
    assert shop.counted()["acked"] == 5
    assert (await shop.node.store.read(catalogue.group_state, shop.group)).acked == 5
