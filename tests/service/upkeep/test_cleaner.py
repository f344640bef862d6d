"""The cleaner goes round in batches, counts, gives way, and stops between two batches."""

from functools import partial
from typing import Any, cast

import pytest

from support.hand_time import HandTime
from tarry.service.engine.state.cleaning_notes import CleaningNotes
from tarry.service.engine.state.directory import Directory
from tarry.service.engine.state.pending import Pending
from tarry.service.metrics import Metrics
from tarry.service.settings import Settings
from tarry.service.upkeep import cleaner as module
from tarry.service.upkeep.cleaner import Cleaner
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import StoreError, Unavailable
from tarry.store.records import ClaimRequest, Conflict, Draft, Publication, Settlement
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.store import Store
from tarry.store.stream import stretches

DAY = 24 * 3_600_000


class Watched(Store):
    """A store that counts batches, and can be away."""

    batches = 0
    away = False

    async def write(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        if self.away:
            raise Unavailable("away")
        self.batches += isinstance(function, partial)
        return await super().write(function, *args, **kwargs)


class Node(HandTime):
    def __init__(self, store: Watched) -> None:
        super().__init__()
        self.store = store
        self.is_late = False
        self.notes = CleaningNotes()
        self.metrics = Metrics()
        self.directory = Directory(store, self.clock, auto_create=True)
        self.cleaner = Cleaner(
            store, self.directory, self.clock, self.metrics, Settings(), cast(Pending, self), self.notes
        )

    async def fill(self, count: int, acked: int) -> None:
        """So many messages, of which a group has settled the first."""
        topic = await self.directory.topic("orders", create=True)
        group = await self.directory.group(topic, "billing", create=True)
        if not count:
            return
        draft = Draft(topic=topic, queue=topic.queues[0], body=b"1")
        await self.store.publish([Publication((draft,) * count)], self.ms)
        if acked:
            turn = await self.store.turn(group, [], [ClaimRequest("me", acked, 1000)], self.ms)
            assert turn.claims[0] is not None
            await self.store.turn(group, [Settlement(turn.claims[0].key, "ack")], [], self.ms)

    async def left(self) -> int:
        topic = await self.directory.topic("orders", create=False)
        return len(await self.store.read(stretches.pull, topic.queues[0], 0, 1000))

    async def keep_nothing(self, topic: str) -> None:
        draft = TopicDraft(topic, retention=0)
        await self.store.write(catalogue.put_topic, draft, {"retention"}, lambda _, __: None, self.ms)
        await self.directory.refresh()

    def counted(self, line: str) -> float:
        found = [text for text in self.metrics.text().decode().splitlines() if text.startswith(line)]
        return float(found[0].split()[-1]) if found else 0


@pytest.fixture
async def node(embedded_backend: SQLiteBackend, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(module, "BATCH", 10)
    monkeypatch.setattr(module, "REST", 0)
    return await Node(Watched(embedded_backend)).begun()


async def test_a_round(node: Node) -> None:
    await node.fill(35, 25)
    node.ms += 7 * DAY
    await node.cleaner.clean()
    assert await node.left() == 10
    assert node.counted('tarry_cleaned_rows_total{what="messages"}') == 25
    assert node.counted('tarry_cleaned_rows_total{what="deliveries"}') == 0
    node.ms += 21 * DAY
    await node.cleaner.clean()
    assert await node.left() == 0
    assert node.counted('tarry_cleaned_rows_total{what="deliveries"}') == 1
    assert node.counted('tarry_messages_expired_total{group="billing",topic="orders"}') == 10


async def test_what_is_kept_for_less_than_a_minute_goes_between_the_rounds(node: Node) -> None:
    """With a retention of 0 what is settled; what a topic keeps for longer has its round."""
    await node.fill(35, 25)
    await node.cleaner.clean_short()
    assert (node.store.batches, await node.left()) == (0, 35)
    await node.keep_nothing("orders")
    await node.cleaner.clean_short()
    assert await node.left() == 10
    unread = await node.directory.topic("mails", create=True)
    await node.store.publish([Publication((Draft(topic=unread, queue=unread.queues[0], body=b"1"),))], node.ms)
    await node.keep_nothing("mails")
    node.store.batches = 0
    await node.cleaner.clean_short()
    assert len(await node.store.read(stretches.pull, unread.queues[0], 0, 1000)) == 1, "for who comes first"
    assert node.store.batches == 1, "of the other topic, which still has some"


async def test_a_group_that_is_asked_for_is_seen(node: Node) -> None:
    """Otherwise it would hold nothing back after the hard limit, however young the messages."""
    await node.fill(0, 0)
    node.ms += 22 * DAY
    await node.fill(5, 0)
    topic = await node.directory.topic("orders", create=False)
    group = await node.directory.group(topic, "billing", create=False)
    node.notes.see(group.id)
    await node.cleaner.clean()
    node.ms += 7 * DAY
    await node.cleaner.clean()
    assert await node.left() == 5
    node.ms += 21 * DAY
    await node.cleaner.clean()
    assert await node.left() == 0


async def test_it_gives_way_to_what_is_due(node: Node) -> None:
    await node.fill(25, 25)
    node.ms += 7 * DAY
    node.is_late = True
    await node.cleaner.clean()
    assert (node.store.batches, await node.left()) == (0, 25)
    node.is_late = False
    await node.cleaner.clean()
    assert await node.left() == 0


async def test_it_stops_between_two_batches(node: Node) -> None:
    await node.fill(25, 25)
    node.ms += 7 * DAY
    take = node.store.write

    async def stop(function: Any, *args: Any) -> Any:
        if isinstance(function, partial):
            node.cleaner.stop()
        return await take(function, *args)

    node.store.write = stop  # type: ignore[method-assign]
    await node.cleaner.clean()
    assert (node.store.batches, await node.left()) == (1, 15)


async def test_a_store_that_is_away_is_for_the_next_round(node: Node) -> None:
    await node.fill(25, 25)
    node.ms += 7 * DAY
    node.store.away = True
    with pytest.raises(StoreError):
        await node.cleaner.clean()
    node.store.away = False
    await node.cleaner.clean()
    assert await node.left() == 0


async def test_what_is_empty_is_not_opened(node: Node) -> None:
    """A transaction for each of very many idle topics is what an idle server costs."""
    for number in range(30):
        topic = await node.directory.topic(f"idle-{number}", create=True)
        await node.directory.group(topic, "billing", create=True)
    await node.cleaner.clean()
    assert node.store.batches == 0
    await node.fill(1, 1)
    await node.cleaner.clean()
    assert node.store.batches == len(["messages", "deliveries", "seeks"])
    topic = await node.directory.topic("orders", create=True)
    later = Draft(topic=topic, queue=topic.queues[0], body=b"1", deliver_at=node.ms + DAY)
    (receipts,) = await node.store.publish([Publication((later,))], node.ms)
    assert not isinstance(receipts, Conflict)
    await node.store.cancel([receipts[0].id], node.ms)
    node.store.batches = 0
    await node.cleaner.clean()
    assert node.store.batches == len(["messages", "deliveries", "seeks", "cancelled"])
