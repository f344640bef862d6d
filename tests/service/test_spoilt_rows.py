"""Rows that somebody has spoilt by SQL: each is set aside by itself and named, and its neighbours go, of its own topic
and of others. On every store; the server is real, and its clock is moved by hand.
"""

import json
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest
import trio
from structlog.testing import capture_logs

from support.hand_time import HandTime
from support.in_one import in_one
from support.nodes import name_of
from support.running import running
from support.store_homes import KINDS, dsn, homes, stage
from support.stores import Kind, Stage
from support.waiting import until
from tarry.service.cli import doctor
from tarry.service.cli.doctor import Finding
from tarry.service.engine.dispatch.spoilt import FACT as SPOILT
from tarry.service.errors import UnknownClaim, UnknownGroup
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.settings import Settings
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import StoreError
from tarry.store.looking import group_counts, tracing
from tarry.store.nodes import NodeRow
from tarry.store.records import Claim, ClaimRequest, Draft, Group, Publication, Topic
from tarry.store.timers import spoilt
from tarry.store.timers.timers import LOST

__all__ = ["dsn", "homes", "stage"]

NOW = 1_795_255_200_000
SOON = 60_000
"""Milliseconds: what is published falls due then, and has been spoilt by then."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


class World(HandTime):
    """A server, and the tables behind its back."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(NOW)
        self.stage = stage
        self.lifecycle = begin(stage.store.backend, Settings(ladder=(1000, 1000)), Metrics(), clock=self.clock)
        self.numbers = count()
        """Of topics, where several cases are tried in one world."""

    @property
    def node(self) -> Node:
        return self.lifecycle.node

    def pass_by(self, ms: int) -> None:
        self.ms += ms
        self.node.pending.wake.set()

    def sql(self, statement: str) -> None:
        self.stage.tables.rows(statement)

    async def topic(self, name: str = "orders") -> Topic:
        return (await self.node.catalogue.put_topic(TopicDraft(name)))[0]

    async def publish(self, topic: Topic, *bodies: bytes, delay: int | None = SOON, **more: object) -> list[int]:
        at = None if delay is None else self.ms + delay
        drafts = tuple(Draft(topic=topic, queue=topic.queues[0], body=body, deliver_at=at, **more) for body in bodies)  # type: ignore[arg-type]
        receipts = await self.node.intake.publish(Publication(drafts))
        assert isinstance(receipts, list)
        return [receipt.id for receipt in receipts]

    async def claim(self, group: Group, size: int = 100) -> Claim:
        claim = await self.node.groups.claim(group, ClaimRequest("c", size, 60_000), 0)
        assert claim is not None
        return claim

    async def bodies(self, topic: Topic, many: int) -> list[bytes]:
        """What comes, until so many have."""
        group = await self.node.directory.group(topic, "g")
        return sorted(await self.take(group, lambda found: len(found) >= many, size=many))

    async def take(
        self, group: Group, enough: Callable[[list[bytes]], bool], how: str | None = None, size: int = 100
    ) -> list[bytes]:
        """The bodies that come until it is enough; each claim is settled as said."""
        found: list[bytes] = []
        with trio.fail_after(20):
            while not enough(found):
                claim = await self.node.groups.claim(group, ClaimRequest("c", size, 60_000), 5000)
                if claim is None:
                    continue
                found += [message.body for one in claim.ranges for message in one.messages]
                if how == "ack":
                    await self.node.groups.settle(name_of(claim), "ack")
                elif how == "fail":
                    await self.node.groups.settle(name_of(claim), "fail", reason="no", retry_after=0)
        return found

    async def wrong(self) -> str:
        """What /readyz says of rows."""
        return dict(await self.lifecycle.readiness())["rows"] or ""

    async def sweep_far(self) -> None:
        """As three minutes do."""
        for _ in range(3):
            await self.node.sweeps.far()
            await until(lambda: not self.node.pending.under_way and self.node.pending.wheel.next_due() is None)


@pytest.fixture
async def world(stage: Stage) -> AsyncIterator[World]:
    world = World(stage)
    async with running(world.lifecycle, closes=False):
        yield world


TAKEN = (
    "INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at) "
    "SELECT 999, -7, id, 0, body, 0, 0, 0 FROM delay WHERE id = {id}"
)
STAYS = {
    "its id is in the stream": (TAKEN, "a message with its id is in the stream already"),
    "no such queue": ("UPDATE delay SET queue_id = 999 WHERE id = {id}", "there is no queue 999"),
    "another topic's queue": (
        "UPDATE delay SET queue_id = (SELECT MAX(id) FROM queue WHERE group_id = 0) WHERE id = {id}",
        "it is of topic ",
    ),
    "topic of nobody": ("UPDATE delay SET topic_id = 999 WHERE id = {id}", "it is of topic 999, and queue "),
    "topic of nobody, uncounted": (
        "UPDATE delay SET topic_id = 999, uncounted = 1 WHERE id = {id}",
        "it is of topic 999, and queue ",
    ),
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
    "a pointer that leads nowhere": "INSERT INTO moved (shard, due, id) VALUES (3, 5, 7)",
    "a pointer too many": "INSERT INTO moved (shard, due, id) SELECT shard, due, id FROM delay WHERE id = {id}",
}


async def spoilt_in_the_middle(world: World, statement: str) -> tuple[Topic, Topic, list[int]]:
    """Three messages of a topic and one of another fall due together; the second of the three is spoilt."""
    number = next(world.numbers)
    orders, others = await world.topic(f"orders-{number}"), await world.topic(f"others-{number}")
    ids = await world.publish(orders, b"1", b"2", b"3", key="k", headers=b'{"a":"b"}', tag="t")
    await world.publish(others, b"4")
    world.sql(statement.format(id=ids[1]))
    return orders, others, ids


@pytest.mark.slow
@in_one("name", STAYS)
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
        await until(lambda: ids[1] in world.node.spoilt.rows)
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
    await until(lambda: not world.node.spoilt.rows)  # the node itself may be trying it at this moment
    assert await world.wrong() == ""


_TRIGGER = "CREATE TRIGGER no BEFORE INSERT ON message FOR EACH ROW "


@pytest.mark.parametrize(
    ("breaks", "mends"),
    [
        (_TRIGGER + "SIGNAL SQLSTATE '45000'", "DROP TRIGGER no"),
        ("RENAME TABLE message TO elsewhere", "RENAME TABLE elsewhere TO message"),
        ("ALTER TABLE message ADD COLUMN z VARCHAR(3) NOT NULL", "ALTER TABLE message DROP COLUMN z"),
    ],
)
async def test_what_the_store_takes_of_nobody_is_no_row_s_fault(world: World, breaks: str, mends: str) -> None:
    if not world.stage.store.backend.shared:
        pytest.skip("an embedded store has no such refusals")
    orders = await world.topic()
    await world.publish(orders, *(b"%d" % number for number in range(4)))
    world.sql(breaks)
    with capture_logs() as lines:
        try:
            world.pass_by(SOON)
            await until(lambda: [line for line in lines if line["event"] == "promotion_failed"])
            assert not world.node.spoilt.rows
            assert not [line for line in lines if line["event"] == "rows_set_aside"]
        finally:
            world.sql(mends)
        world.pass_by(SOON)
        assert await world.bodies(orders, 4) == [b"0", b"1", b"2", b"3"]
    assert await world.wrong() == ""


async def test_what_the_database_refuses_of_one_is_that_one_s(world: World) -> None:
    if not world.stage.store.backend.shared:
        pytest.skip("an embedded store has no such refusals")
    orders = await world.topic()
    ids = await world.publish(orders, b"1", b"2", b"3")
    world.sql(_TRIGGER + "IF NEW.body = '2' THEN SIGNAL SQLSTATE '45000'; END IF")
    try:
        world.pass_by(SOON)
        assert await world.bodies(orders, 2) == [b"1", b"3"]
        await until(lambda: ids[1] in world.node.spoilt.rows)
    finally:
        world.sql("DROP TRIGGER no")


@in_one("name", GOES)
async def test_a_row_that_can_be_promoted_goes_with_its_neighbours(world: World, name: str) -> None:
    orders, others, _ = await spoilt_in_the_middle(world, GOES[name])
    with capture_logs() as lines:
        world.pass_by(SOON)
        assert await world.bodies(orders, 3) == [b"1", b"2", b"3"]
        assert await world.bodies(others, 1) == [b"4"]
    assert world.stage.count("delay") == 0
    assert await world.wrong() == ""
    assert not [line for line in lines if line["log_level"] in ("warning", "error")]


async def test_of_many_at_once_each_is_set_aside_and_some_are_named(world: World) -> None:
    orders = await world.topic()
    ids = await world.publish(orders, *(b"%d" % number for number in range(900)))
    world.sql(TAKEN.replace("-7", "-id").format(id="-1 OR id % 32 >= 16"))  # every other
    taken = world.stage.count("message")
    assert 200 < taken < 700
    with capture_logs() as lines:
        world.pass_by(SOON)
        assert len(await world.bodies(orders, 900 - taken)) == 900 - taken
        await until(lambda: len(world.node.spoilt.rows) == taken)
    told = [line for line in lines if line["event"] == "rows_set_aside"]
    assert len(told) < 20, "a line a batch"
    assert f"and {taken - 10} more" in await world.wrong()
    world.sql("DELETE FROM message WHERE queue_id = 999")  # a restore that went wrong, put right
    with trio.fail_after(30):
        while world.node.spoilt.rows:
            world.pass_by(60_000)
            await world.node.promotion.try_again()
    assert await world.wrong() == ""
    assert len(await world.bodies(orders, taken)) == taken
    assert world.stage.count("delay") == 0
    assert sorted(world.stage.column("SELECT id FROM message")) == sorted(ids)


async def test_a_queue_whose_next_offset_is_taken_goes_on_behind_it(world: World) -> None:
    orders, others, _ = await spoilt_in_the_middle(world, "UPDATE topic SET name = name")
    world.sql(
        "INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at)"
        f" VALUES ({orders.queues[0].id}, 0, 7, 0, X'30', 0, 0, 0)"
    )
    world.pass_by(SOON)
    assert await world.bodies(others, 1) == [b"4"]
    assert await world.bodies(orders, 4) == [b"0", b"1", b"2", b"3"]
    assert await world.wrong() == ""


RETRIES = {
    "its id is another shard's": (
        "UPDATE retry SET shard = (shard + 1) % 16 WHERE message_id = {id}",
        "it lies in shard",
    ),
    "no such retry queue": ("UPDATE retry SET return_queue_id = 999 WHERE message_id = {id}", "there is no queue 999"),
    "no such message": ("UPDATE retry SET message_id = 5, message_offset = 999 WHERE message_id = {id}", LOST),
    "no such queue": ("UPDATE retry SET message_queue_id = 999 WHERE message_id = {id}", LOST),
    "negative offset": ("UPDATE retry SET message_offset = -1 WHERE message_id = {id}", LOST),
    "another's message": ("UPDATE retry SET message_id = 5 WHERE message_id = {id}", LOST),
    "no such group": ("UPDATE retry SET group_id = 999 WHERE message_id = {id}", "it is of group 999, and queue "),
    "another's retry queue": (
        "UPDATE retry SET return_queue_id = (SELECT MAX(id) FROM queue WHERE group_id > 0) WHERE message_id = {id}",
        "it is of group ",
    ),
    "the topic's own queue": (
        "UPDATE retry SET return_queue_id = message_queue_id WHERE message_id = {id}",
        "it is of group ",
    ),
    "a history that is none": ("UPDATE retry SET history = X'FF' WHERE message_id = {id}", None),
    "an attempt that is none": ("UPDATE retry SET attempt = 4000000000 WHERE message_id = {id}", None),
    "attempt 0": ("UPDATE retry SET attempt = 0 WHERE message_id = {id}", None),
    "failed never": ("UPDATE retry SET failed_at = -1 WHERE message_id = {id}", None),
}


@pytest.mark.parametrize("name", RETRIES)
@pytest.mark.cases(8)
async def test_a_retry_that_is_spoilt_keeps_nobody_from_coming_back(world: World, name: str) -> None:
    statement, why = RETRIES[name]
    orders, others = await world.topic(), await world.topic("others")
    ids = await world.publish(orders, b"1", b"2", b"3", delay=None)
    await world.publish(others, b"4", delay=None)
    for topic in (orders, others):
        group = await world.node.directory.group(topic, "g")
        claim = await world.claim(group)
        failed = await world.node.groups.settle(name_of(claim), "fail", retry_after=SOON)
        assert failed.retried == (3 if topic is orders else 1)
    world.sql(statement.format(id=ids[1]))
    world.pass_by(SOON)
    # Two come back at least; who claims and fails what there is does so for all of it.
    group = await world.node.directory.group(orders, "g")
    await world.take(group, {b"1", b"3"}.issubset, "fail")
    assert await world.bodies(others, 1) == [b"4"]
    if why is not None:
        world.pass_by(180_000)
        await world.sweep_far()
        assert why in await world.wrong()
        assert "retry " in await world.wrong()


CLAIMS = {
    "nothing is known": "UPDATE claim SET outcome = X'', settled_at = X''",
    "too little is known": "UPDATE claim SET outcome = X'00'",
    "too much is known": "UPDATE claim SET outcome = X'0000000000000000'",
    "what nobody knows": "UPDATE claim SET outcome = X'FFFEFD'",
    "no times": "UPDATE claim SET settled_at = X'01'",
    "of nothing": "UPDATE claim SET size = 0",
    "of everything": "UPDATE claim SET size = 4000000000",
    "before the first": "UPDATE claim SET `first` = -5",
    "behind the last": "UPDATE claim SET `first` = 4611686018427387904",
    "a client that is none": "UPDATE claim SET client = X'FF'",
    "a lease that never began": "UPDATE claim SET lease_until = -1",
    "a lease for ever": "UPDATE claim SET lease_until = 4611686018427387904",
    "claimed never": "UPDATE claim SET claimed_at = -4611686018427387904",
    "another token": "UPDATE claim SET token = 5",
    "another number": "UPDATE claim SET number = 77",
    "of nobody's queue": "UPDATE claim SET queue_id = 999",
    "of nobody's group": "UPDATE claim SET group_id = 999",
}


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.cases(10)
async def test_a_claim_that_is_spoilt_stands_in_nobodys_way(world: World, name: str) -> None:
    orders, others = await world.topic(), await world.topic("others")
    group = await world.node.directory.group(orders, "g")
    ids = await world.publish(orders, b"1", b"2", b"3", delay=None)
    claim = await world.claim(group, 3)
    world.sql(f"{CLAIMS[name]} WHERE number = {claim.key.number} AND group_id = {group.id}")
    await world.publish(orders, b"4", b"5", delay=None)
    await world.publish(others, b"6", delay=None)
    second = await world.claim(group, 1)
    third = await world.claim(group, 1)
    results: dict[str, object] = {}

    async def settle(what: str, claim: Claim) -> None:
        try:
            results[what] = (await world.node.groups.settle(name_of(claim), "ack")).acked
        except (StoreError, UnknownClaim):
            results[what] = None

    async with trio.open_nursery() as nursery:  # in one turn
        nursery.start_soon(settle, "spoilt", claim)
        nursery.start_soon(settle, "second", second)
        nursery.start_soon(settle, "third", third)
    assert (results["second"], results["third"]) == (1, 1)
    assert await world.bodies(others, 1) == [b"6"]
    # The lease is over, and the group goes on; so do looks at its messages.
    world.pass_by(120_000)
    await world.node.sweeps.leases()
    await world.publish(orders, b"7", delay=None)
    await world.take(group, lambda found: b"7" in found)
    for id_ in ids:
        assert await world.node.store.read(tracing.find_message, id_) is not None
    await world.node.store.read(group_counts.of_groups, [group])


CURSORS = {
    "before the first": "UPDATE `cursor` SET position = -7",
    "behind the last": "UPDATE `cursor` SET position = 4611686018427387904",
    "claims before the first": "UPDATE `cursor` SET next_claim = -9",
    "counters": "UPDATE `cursor` SET acked = -5, dead = -5, expired = -5",
    "none": "DELETE FROM `cursor`",
}


@pytest.mark.parametrize("name", CURSORS)
async def test_a_cursor_that_is_spoilt_stands_in_no_other_groups_way(world: World, name: str) -> None:
    orders = await world.topic()
    group, other = [await world.node.directory.group(orders, one) for one in ("spoilt", "g")]
    await world.publish(orders, b"1", b"2", delay=None)
    world.sql(f"{CURSORS[name]} WHERE group_id = {group.id}")
    try:
        await world.node.groups.claim(group, ClaimRequest("c", 100, 60_000), 0)
    except (StoreError, UnknownGroup):
        assert name == "none"
    assert other.id != group.id
    assert await world.bodies(orders, 2) == [b"1", b"2"]


async def test_the_doctor_names_what_is_spoilt(world: World) -> None:
    orders = await world.topic()
    ids = await world.publish(orders, *b"1 2 3 4 5 6".split())
    await world.node.intake.reschedule(ids[4], world.ms + SOON + 7)
    world.sql(TAKEN.format(id=ids[0]))
    world.sql(f"UPDATE delay SET queue_id = 999 WHERE id = {ids[1]}")
    world.sql(f"UPDATE delay SET shard = (shard + 1) % 16 WHERE id = {ids[2]}")
    world.sql(f"UPDATE delay SET special = 9 WHERE id = {ids[3]}")
    world.sql("DELETE FROM moved")
    world.node.pending.wheel.cancel(world.ms + SOON + 7, ids[4])  # as after a restart
    world.pass_by(SOON + 7)
    assert await world.bodies(orders, 1) == [b"6"]
    world.pass_by(120_000)
    finding = await doctor._rows(world.stage.store.backend, world.ms)
    assert finding.state == "wrong"
    for id_, why in zip(
        ids, ("a message with its id", "no queue 999", "it lies in", "special", "was resch"), strict=False
    ):
        assert f"message {id_}: " in finding.detail
        assert why in finding.detail
    told = [NodeRow("b", "n", 0, 0, 0, 0, json.dumps({SPOILT: [f"message {ids[0]}: x", "retry 7: y"]}).encode())]
    assert "retry 7: y" in (await doctor._rows(world.stage.store.backend, world.ms, told)).detail
    for id_ in ids[:5]:
        world.sql(f"DELETE FROM delay WHERE id = {id_}")
    assert await doctor._rows(world.stage.store.backend, world.ms) == Finding(
        "rows", "ok", "none that is due is spoilt"
    )


async def test_the_doctor_says_nothing_of_what_is_only_late(world: World) -> None:
    """As after a stop, or behind a release rate."""
    orders = await world.topic()
    await world.publish(orders, b"1", delay=None)
    group = await world.node.directory.group(orders, "g")
    claim = await world.claim(group)
    assert (await world.node.groups.settle(name_of(claim), "fail", retry_after=SOON)).retried == 1
    (second,) = await world.publish(orders, b"2")
    later = world.ms + 180_000  # and nobody brings them
    finding = await doctor._rows(world.stage.store.backend, later)
    assert finding == Finding("rows", "ok", "none that is due is spoilt")
    whys = await world.stage.store.read(spoilt.passed_over, [second], later)
    assert "another transaction holds it" in whys[second]


OTHERS = {
    "a ladder of a topic": "UPDATE topic SET ladder = X'FF' WHERE name = X'7370696C6C'",
    "rungs that are none": "UPDATE topic SET ladder = X'2D35' WHERE name = X'7370696C6C'",
    "a name of a topic": "UPDATE topic SET name = X'FF' WHERE name = X'7370696C6C'",
    "a kind of topic": "UPDATE topic SET kind = 9 WHERE name = X'7370696C6C'",
    "who draws offsets": "UPDATE topic SET sequencer = 9 WHERE name = X'7370696C6C'",
    "retention": "UPDATE topic SET retention = -5 WHERE name = X'7370696C6C'",
    "a rate": "UPDATE topic SET max_rate = -1, release_rate = -1, max_pending = -1 WHERE name = X'7370696C6C'",
    "made never": "UPDATE topic SET created_at = -4611686018427387904 WHERE name = X'7370696C6C'",
    "no queues": "DELETE FROM queue WHERE topic_id = {topic}",
    "a queue's number": "UPDATE queue SET number = 4000000 WHERE topic_id = {topic} AND group_id = 0",
    "a queue's end": "UPDATE queue SET next_offset = -9 WHERE topic_id = {topic}",
    "a ladder of a group": "UPDATE consumer_group SET ladder = X'FF' WHERE topic_id = {topic}",
    "a name of a group": "UPDATE consumer_group SET name = X'FF' WHERE topic_id = {topic}",
    "what follows exhaustion": "UPDATE consumer_group SET on_exhausted = 9 WHERE topic_id = {topic}",
    "a group of nobody's": "UPDATE consumer_group SET topic_id = 999 WHERE topic_id = {topic}",
    "a key's scopes": "INSERT INTO access_key (name, digest, scopes, created_at) VALUES (X'6B', X'00', X'FF', 0)",
    "a client": "INSERT INTO client (name, registered_at, renewed_at) VALUES (X'FF', -1, -1)",
    "a push": "INSERT INTO push (group_id, url, secrets, timeout, max_in_flight, changed_at) "
    "VALUES ({group}, X'FF', X'FF', 0, 0, 0)",
    "a schedule": "INSERT INTO schedule (name, topic_id, queue_id, spec, revision, paused, made_at, last_at, next_at) "
    "VALUES (X'FF', {topic}, 1, X'FF', 1, 0, 0, 0, 5)",
    "a forecast": "INSERT INTO forecast (topic_id, hour, counts) VALUES ({topic}, 498683, X'00')",
    "a change of the forecast": "INSERT INTO forecast_change (id, topic_id, changes) VALUES (7, {topic}, X'000000')",
    "a guard": "INSERT INTO guard (name) VALUES (X'FF')",
    "a timer": "INSERT INTO timer (topic_id, `key`, id, revision, first_at) VALUES ({topic}, X'FF', -7, -1, -1)",
    "a label": "INSERT INTO label (topic_id, `key`, id) VALUES ({topic}, X'FF', -7)",
    "an idempotency key": "INSERT INTO idempotency (topic_id, `key`, fingerprint, receipts, expires_at) "
    "VALUES ({topic}, X'FF', X'00', X'FF', 0)",
    "a reader": "INSERT INTO reader (group_id, client, queue_id, position, asked_at) VALUES ({group}, X'FF', 1, -5, 0)",
    "a floor": "UPDATE cleaned SET floor = -5",
    "a tally": "INSERT INTO tally (topic_id, tally_shard, scheduled, cancelled) VALUES ({topic}, 999, -5, -5)",
    "a lease": "INSERT INTO lease (name, holder, epoch, lease_until) VALUES (X'FF', X'FF', -1, -1)",
    "an owner": "INSERT INTO queue_owner (group_id, queue_id, client, epoch, owned_at) "
    "VALUES ({group}, 1, X'FF', -1, -1)",
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.cases(16)
async def test_what_is_spoilt_elsewhere_stands_in_no_other_topics_way(world: World, name: str) -> None:
    spilt, others = await world.topic("spill"), await world.topic("others")
    group = await world.node.directory.group(spilt, "g")
    await world.publish(spilt, b"0", delay=None)
    world.sql(OTHERS[name].format(topic=spilt.id, group=group.id))
    node = world.node
    for step in (
        node.directory.read_anew,
        node.keyring.refresh,
        node.liveness.look,
        node.forecast.add_up,
        node.forecast.look,
        node.forecast.forget,
        node.pushers.look,
        node.schedules.mend,
        node.schedules.forget,
        node.timers.forget,
        node.sweeps.idempotency_keys,
        node.cleaner.clean,
        node.measures.take,
        node.sweeps.look,
        node.guards.look_for_undeclared,
        node.pauses.look,
        node.remover.clear,
        node.client_owners.forget_unused,
    ):
        try:
            await step()
        except Exception as error:
            raise AssertionError(f"{step.__qualname__}: {error!r}") from error
    await world.publish(others, b"1")
    await world.publish(others, b"2", delay=None)
    world.pass_by(SOON)
    assert await world.bodies(others, 2) == [b"1", b"2"]


ORDERED = {
    "an ordering key": "UPDATE message SET ordering_key = X'FF' WHERE id = {id}",
    "who is away": "UPDATE chain SET away = X'FF'",
    "nobody is away": "UPDATE chain SET away = X''",
    "a chain of nobody's": "UPDATE chain SET ordering_key = X'FF'",
    "no chain": "DELETE FROM chain",
    "a parked history": "UPDATE parked SET history = X'FF'",
    "a parked attempt": "UPDATE parked SET attempt = 4000000000",
    "a parked message of nobody's": "UPDATE parked SET message_id = 5",
    "parked nowhere": "UPDATE parked SET message_offset = message_offset + 900",
    "parked for nobody": "UPDATE parked SET ordering_key = X'FF'",
}


@pytest.mark.parametrize("name", ORDERED)
async def test_what_is_spoilt_of_one_key_stands_in_no_other_keys_way(world: World, name: str) -> None:
    topic = (await world.node.catalogue.put_topic(TopicDraft("orders", ordered=True)))[0]
    group = await world.node.directory.group(topic, "g")
    ids = await world.publish(topic, b"1", b"2", b"3", delay=None, ordering_key="spoilt")
    claim = await world.claim(group)
    assert (await world.node.groups.settle(name_of(claim), "fail", ids=[ids[0]], retry_after=SOON)).retried == 1
    world.sql(ORDERED[name].format(id=ids[1]))
    world.pass_by(SOON)
    await world.publish(topic, b"4", b"5", delay=None, ordering_key="well")
    seen = await world.take(group, lambda found: b"5" in found, "ack")
    assert [body for body in seen if body in (b"4", b"5")] == [b"4", b"5"]
