"""A schedule whose row or tally another program holds: its turn is later, and it is neither sent nor dropped."""

from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest

from support.hearing import HearingStore
from support.stores import MINUTE, START, uncommitted
from tarry.service.schedules.courses import course_of
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Held
from tarry.store.ids import SHARDS
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.ports import Transaction
from tarry.store.records import Topic
from tarry.store.schedules import schedules
from tarry.store.schedules.firing import Firing
from tarry.store.schedules.schedules import Wish
from tarry.store.timers import timers


@pytest.fixture
async def store(mysql_dsn: str) -> AsyncIterator[HearingStore]:
    backend = MySQLBackend(mysql_dsn)
    await backend.migrate()
    yield HearingStore(backend)
    await backend.aclose()


@pytest.fixture
async def topic(store: HearingStore) -> Topic:
    return await store.write(catalogue.add_topic, TopicDraft("orders"), START)


@pytest.fixture
async def waiting(store: HearingStore, topic: Topic) -> list[int]:
    """The messages of two schedules, due a minute after the start."""
    store.courses = course_of
    text = msgspec.json.encode({"topic": "orders", "every": MINUTE, "body": 1})
    for name in ("a", "b"):
        wish = Wish(name, topic, topic.queues[0], text, None)
        await store.change(partial(_put, wish), START)
    return [one.id for one in store.armed]


async def _put(wish: Wish, tx: Transaction, firing: Firing) -> None:
    await schedules.put(tx, firing, wish)


@pytest.mark.parametrize("change", ["put", "pause", "remove"])
async def test_a_message_that_somebody_holds(
    store: HearingStore, topic: Topic, waiting: list[int], mysql_dsn: str, change: str
) -> None:
    """Of a fire time that has come: who changes its schedule has to ask again, and nothing is done before."""
    text = msgspec.json.encode({"topic": "orders", "every": MINUTE, "body": 2})
    wish = Wish("a", topic, topic.queues[0], text, None)

    async def work(tx: Transaction, firing: Firing) -> None:
        if change == "put":
            await schedules.put(tx, firing, wish)
        elif change == "pause":
            await schedules.pause(tx, firing, "a", paused=True)
        else:
            await schedules.remove(tx, firing, "a", None)

    async def ask() -> None:
        await store.change(work, START + MINUTE)

    before = await store.read(schedules.find_schedule, "a")
    assert before is not None
    with uncommitted(mysql_dsn, "SELECT * FROM delay FOR UPDATE"):
        with pytest.raises(Held):
            await ask()
        assert await store.read(schedules.find_schedule, "a") == before
    await ask()
    after = await store.read(schedules.find_schedule, "a")
    assert (after is None) == (change == "remove")
    if after is not None:
        (fire,) = await store.read(schedules.fires, after.id, 1 << 62, 9)
        assert (fire.what, fire.message_id) == ("fired" if change == "put" else "cancelled", waiting[0])


@pytest.mark.parametrize(
    ("held", "sent"),
    [("SELECT * FROM schedule WHERE name = 'a' FOR UPDATE", ["b"]), ("SELECT * FROM tally FOR UPDATE", [])],
    ids=["the schedule", "the tally"],
)
async def test_what_somebody_holds(
    store: HearingStore, topic: Topic, waiting: list[int], mysql_dsn: str, held: str, sent: list[str]
) -> None:
    now = START + MINUTE
    with uncommitted(mysql_dsn, held):
        promoted = await store.promote(waiting, now)
        assert [one.entry for one in promoted] == [waiting["ab".index(name)] for name in sent]
    left = {id_ for shard in range(SHARDS) for id_, _ in await store.read(timers.due_messages, shard, 0, now + 1, 9)}
    assert left == set(waiting) - {one.entry for one in promoted}, "nothing of it is lost"
    promoted += await store.promote(waiting, now)
    assert sorted(one.entry for one in promoted) == sorted(waiting)
    for name in ("a", "b"):
        row = await store.read(schedules.find_schedule, name)
        assert row is not None
        fires = await store.read(schedules.fires, row.id, 1 << 62, 9)
        assert [(one.fire_at, one.what) for one in fires] == [(now, "fired")]
        assert row.next_at == now + MINUTE
