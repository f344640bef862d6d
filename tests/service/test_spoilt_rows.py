"""Rows that somebody has spoilt by SQL: each is set aside by itself and named, and its neighbours go, of its own topic
and of others. On every store; the server is real, and its clock is moved by hand.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable

import attrs
import pytest
import trio
from structlog.testing import capture_logs

from support.store_homes import KINDS, dsn, homes, migrated_file, stage
from support.stores import Kind, Stage
from tarry.service.clock import Clock
from tarry.service.lifecycle import Lifecycle
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.serve import begin
from tarry.service.settings import Settings
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Claim, ClaimRequest, Draft, Group, Publication, Settlement, Topic
from tarry.store.store import Store
from tarry.wheel.ladder import Ladder

__all__ = ["dsn", "homes", "migrated_file", "stage"]

NOW = 1_795_255_200_000
SOON = 60_000
"""Milliseconds: what is published falls due then, and has been spoilt by then."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@attrs.define(eq=False)
class World:
    """A server, and the tables behind its back."""

    stage: Stage
    lifecycle: Lifecycle = attrs.field(init=False)
    ms: int = NOW

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        clock = Clock(self.sample, monotonic=lambda: self.ms * 1_000_000)
        store = Store(self.stage.store.backend, ladder=Ladder((1000, 1000)))
        self.lifecycle = begin(store, Settings(), Metrics(), clock=clock)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.lifecycle.run)
            await self.lifecycle.ready.wait()
            await self.node.loader.recovered.wait()
            task_status.started()

    async def sample(self) -> int:
        return self.ms

    @property
    def node(self) -> Node:
        return self.lifecycle.node

    def pass_by(self, ms: int) -> None:
        self.ms += ms
        self.node.hand._wake.set()

    def sql(self, statement: str) -> None:
        self.stage.tables.rows(statement)

    async def topic(self, name: str = "orders") -> Topic:
        return (await self.node.catalogue.put_topic(TopicDraft(name)))[0]

    async def publish(self, topic: Topic, *bodies: bytes, delay: int | None = SOON, **more: object) -> list[int]:
        at = None if delay is None else self.ms + delay
        drafts = tuple(Draft(topic, topic.queues[0], body, deliver_at=at, **more) for body in bodies)  # type: ignore[arg-type]
        receipts = await self.node.intake.publish(Publication(drafts))
        assert isinstance(receipts, list)
        return [receipt.id for receipt in receipts]

    async def claim(self, group: Group, size: int = 100) -> Claim | None:
        return await self.node.groups.claim(group, ClaimRequest("c", size, 60_000), 0)

    async def bodies(self, topic: Topic, many: int) -> list[bytes]:
        """What comes, until so many have."""
        group, found = await self.node.directory.group(topic, "g"), list[bytes]()
        with trio.fail_after(20):
            while len(found) < many:
                claim = await self.node.groups.claim(group, ClaimRequest("c", many, 60_000), 5000)
                found += [] if claim is None else [message.body for one in claim.ranges for message in one.messages]
        return sorted(found)

    async def until(self, there: Callable[[], object]) -> None:
        with trio.fail_after(20):
            while not there():
                await trio.sleep(0.005)

    async def wrong(self) -> str:
        """What /readyz says of rows."""
        return dict(await self.lifecycle.readiness())["rows"] or ""

    async def sweep_far(self) -> None:
        """As three minutes do."""
        for _ in range(3):
            await self.node.sweeps.far()
            await self.until(lambda: not self.node.hand._firing and self.node.hand.wheel.next_due() is None)


@pytest.fixture
async def world(stage: Stage) -> AsyncIterator[World]:
    world = World(stage)
    async with trio.open_nursery() as nursery:
        await nursery.start(world.run)
        yield world
        nursery.cancel_scope.cancel()


TAKEN = (
    "INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at) "
    "SELECT 999, -7, id, 0, body, 0, 0, 0 FROM delay WHERE id = {id}"
)
STAYS = {
    "its id is in the stream": (TAKEN, "a message with its id is in the stream already"),
    "no such queue": ("UPDATE delay SET queue_id = 999 WHERE id = {id}", "there is no queue 999"),
    "another's shard": ("UPDATE delay SET shard = (shard + 1) % 16 WHERE id = {id}", "it lies in shard "),
    "an unknown bit": ("UPDATE delay SET special = 4 WHERE id = {id}", "its column `special` is 4"),
    "two bits": ("UPDATE delay SET special = 3 WHERE id = {id}", "its column `special` is 3"),
}
GOES = {
    "negative due": "UPDATE delay SET due = -5 WHERE id = {id}",
    "due long ago": "UPDATE delay SET due = 1 WHERE id = {id}",
    "due a little sooner": "UPDATE delay SET due = due - 7 WHERE id = {id}",
    "apart, and not moved": "UPDATE delay SET shard = shard + 16 WHERE id = {id}",
    "key": "UPDATE delay SET `key` = X'FF' WHERE id = {id}",
    "ordering key": "UPDATE delay SET ordering_key = X'FF' WHERE id = {id}",
    "tag": "UPDATE delay SET tag = X'C3' WHERE id = {id}",
    "headers": "UPDATE delay SET headers = X'FF7B' WHERE id = {id}",
    "content type": "UPDATE delay SET content_type = X'FF' WHERE id = {id}",
    "accepted ages ago": "UPDATE delay SET accepted_at = -4611686018427387904 WHERE id = {id}",
    "to be delivered never": "UPDATE delay SET deliver_at = 4611686018427387904 WHERE id = {id}",
    "nonce": "UPDATE delay SET nonce = -9223372036854775808 WHERE id = {id}",
    "counted by nobody": "UPDATE delay SET uncounted = 1 WHERE id = {id}",
    "topic of nobody": "UPDATE delay SET topic_id = 999 WHERE id = {id}",
    "topic of nobody, uncounted": "UPDATE delay SET topic_id = 999, uncounted = 1 WHERE id = {id}",
    "a pointer that leads nowhere": "INSERT INTO moved (shard, due, id) VALUES (3, 5, 7)",
    "a pointer too many": "INSERT INTO moved (shard, due, id) SELECT shard, due, id FROM delay WHERE id = {id}",
}


async def spoilt_in_the_middle(world: World, statement: str) -> tuple[Topic, Topic, list[int]]:
    """Three messages of a topic and one of another fall due together; the second of the three is spoilt."""
    orders, others = await world.topic(), await world.topic("others")
    ids = await world.publish(orders, b"1", b"2", b"3", key="k", headers=b'{"a":"b"}', tag="t")
    await world.publish(others, b"4")
    world.sql(statement.format(id=ids[1]))
    return orders, others, ids


@pytest.mark.parametrize("name", STAYS)
async def test_a_row_that_cannot_be_promoted_is_set_aside_and_its_neighbours_go(world: World, name: str) -> None:
    statement, why = STAYS[name]
    orders, others, ids = await spoilt_in_the_middle(world, statement)
    with capture_logs() as lines:
        world.pass_by(SOON)
        assert await world.bodies(orders, 2) == [b"1", b"3"]
        assert await world.bodies(others, 1) == [b"4"]
        if statement != TAKEN:  # such a one promotion does not even see: sweeps find out that it stays
            world.pass_by(180_000)
            await world.sweep_far()
        await world.until(lambda: ids[1] in world.node.promotion.spoilt)
        for _ in range(3):
            world.pass_by(60_000)
            await world.sweep_far()
            await world.node.promotion.try_again()
    (line,) = [line for line in lines if line["event"] == "rows_set_aside"]
    assert f"message {ids[1]}: {why}" in line["rows"][0]
    assert f"message {ids[1]}: {why}" in await world.wrong()
    assert not [line for line in lines if line["event"] == "promotion_failed"]
    # It is there still: who cancels it is told so, and it is named no more.
    assert world.stage.count("delay", f"id = {ids[1]}") == 1
    if "shard" not in statement:
        assert (await world.node.intake.cancel(ids[1])).result == "cancelled"
    else:
        world.sql(f"DELETE FROM delay WHERE id = {ids[1]}")
    world.pass_by(60_000)
    await world.node.promotion.try_again()
    assert await world.wrong() == ""


@pytest.mark.parametrize("name", GOES)
async def test_a_row_that_can_be_promoted_goes_with_its_neighbours(world: World, name: str) -> None:
    orders, others, _ = await spoilt_in_the_middle(world, GOES[name])
    with capture_logs() as lines:
        world.pass_by(SOON)
        assert await world.bodies(orders, 3) == [b"1", b"2", b"3"]
        assert await world.bodies(others, 1) == [b"4"]
    assert world.stage.count("delay") == 0
    assert await world.wrong() == ""
    assert not [line for line in lines if line["log_level"] in ("warning", "error")]
