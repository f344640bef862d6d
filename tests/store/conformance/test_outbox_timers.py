"""Timers by key in a user's own transaction: they are true with its commit, undone with it, and hold up nobody else."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.drivers import DRIVERS, close
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, Stage, nobody_waits
from tarry.client import BadRequest, NotFound, TooLate
from tarry.client.outbox import Outbox
from tarry.store.records import Topic
from tarry.store.timers import keyed
from tarry.store.timers.keyed import Wish

pytestmark = on_servers

outbox = Outbox()


@pytest.fixture(params=["READ COMMITTED", "REPEATABLE READ"])
def user(request: pytest.FixtureRequest, dsn: str) -> Iterator[Any]:
    """A connection of the user's."""
    connection: Any = DRIVERS["pymysql"](dsn)
    connection.cursor().execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {request.param}")
    connection.commit()
    yield connection
    close(connection)


@pytest.fixture
async def topic(stage: Stage) -> Topic:
    """The stage's clock is the database's: that is what an outbox goes by."""
    stage.now = await stage.store.backend.now()
    return await stage.topic()


async def counts(stage: Stage, topic: Topic) -> tuple[int, int, int, int]:
    """Accepted, replaced, cancelled, pending."""
    while await stage.store.count_outbox(100):
        pass
    state = await stage.state(topic)
    return state.accepted, state.replaced, state.cancelled, state.pending


async def test_set_with_the_commit(stage: Stage, topic: Topic, user: Any) -> None:
    cursor = user.cursor()
    outbox.set_timer(cursor, "orders", "order-7", 1, delay="1h")
    user.rollback()
    assert stage.count("timer") == stage.count("delay") == stage.count("label") == 0
    timer = outbox.set_timer(cursor, "orders", "order-7", 1, delay="1h")
    assert timer.replaced is None
    user.commit()
    standing = await stage.store.read(keyed.find_timer, topic, "order-7")
    assert standing is not None
    assert (str(standing.id), standing.revision, standing.state) == (timer.id, timer.revision, "scheduled")
    assert stage.column("SELECT `key` FROM delay") == [b"order-7"]


async def test_one_takes_the_place_of_another(stage: Stage, topic: Topic, user: Any) -> None:
    """Set by the one and by the other, in turn: each replaces what there is, and all is counted once."""
    cursor = user.cursor()
    answer = None
    for number in range(3):
        before = outbox.set_timer(cursor, "orders", "order-7", number, delay="1h")
        user.commit()
        stage.now = max(stage.now, await stage.store.backend.now())
        wish = Wish(topic, "order-7", stage.draft(topic, b"9", HOUR))
        (answer,) = await stage.store.set_timers([wish], stage.now)
        assert str(answer.replaced) == before.id
        assert answer.revision > before.revision
    last = outbox.set_timer(cursor, "orders", "order-7", 9, delay="1h")
    assert answer is not None
    assert last.replaced == str(answer.id)
    user.commit()
    assert list(await stage.waiting()) == [int(last.id)]
    assert stage.column("SELECT id FROM label") == [int(last.id)]
    accepted, replaced, cancelled, pending = await counts(stage, topic)
    assert (replaced, cancelled) == (6, 0)
    assert accepted - replaced == pending
    await stage.store.cancel([int(last.id)], stage.now)
    assert await counts(stage, topic) == (7, 6, 1, 0)


async def test_keep_and_debounce(stage: Stage, topic: Topic, user: Any) -> None:
    cursor = user.cursor()
    first = outbox.set_timer(cursor, "orders", "order-7", 1, delay="10m")
    kept = outbox.set_timer(cursor, "orders", "order-7", 2, delay="1h", mode="keep")
    assert (kept.id, kept.revision, kept.deliver_at) == (first.id, first.revision, first.deliver_at)
    put_off = outbox.set_timer(cursor, "orders", "order-7", 3, delay="1h", mode="debounce", max_wait="20m")
    user.commit()
    assert (put_off.deliver_at - first.deliver_at).total_seconds() == pytest.approx(600, abs=5)
    assert stage.column("SELECT body FROM delay") == [b"3"]


async def test_cancel(stage: Stage, topic: Topic, user: Any) -> None:
    cursor = user.cursor()
    with pytest.raises(NotFound):
        outbox.cancel_timer(cursor, "orders", "order-7")
    user.commit()
    assert stage.count("timer") == 0
    timer = outbox.set_timer(cursor, "orders", "order-7", 1, delay="1h")
    user.commit()
    assert outbox.cancel_timer(cursor, "orders", "order-7") == "cancelled"
    user.rollback()
    assert await stage.waiting() != {}
    assert outbox.cancel_timer(cursor, "orders", "order-7") == "cancelled"
    user.commit()
    assert await stage.waiting() == {}
    assert await counts(stage, topic) == (1, 0, 1, 0)
    again = outbox.set_timer(cursor, "orders", "order-7", 1, delay="0s")
    assert again.revision > timer.revision
    user.commit()
    stage.now = max(stage.now, await stage.store.backend.now()) + MINUTE
    await stage.fall_due()
    with pytest.raises(TooLate):
        outbox.cancel_timer(cursor, "orders", "order-7")


async def test_who_holds_one_holds_up_no_other(stage: Stage, topic: Topic, user: Any) -> None:
    cursor = user.cursor()
    outbox.set_timer(cursor, "orders", "held", 1, delay="1h")
    user.commit()
    outbox.set_timer(cursor, "orders", "held", 2, delay="1h")
    wishes = [Wish(topic, key, stage.draft(topic, b"9", HOUR)) for key in ("a", "held", "z")]
    answers = await stage.store.set_timers(wishes, stage.now)
    assert [answer.result for answer in answers] == ["made", "locked", "made"]
    user.commit()
    (answer,) = await stage.store.set_timers(wishes[1:2], stage.now)
    assert answer.result == "replaced"


async def test_one_that_was_just_made_holds_up_no_other(stage: Stage, topic: Topic, user: Any) -> None:
    """No plain look sees it before its commit, and to make it too would wait for that."""
    outbox.set_timer(user.cursor(), "orders", "new", 1, delay="1h")
    wishes = [Wish(topic, key, stage.draft(topic, b"9", HOUR)) for key in ("a", "b", "new", "new", "z", "zz")]
    with nobody_waits(stage.tables):
        answers = await stage.store.set_timers(wishes, stage.now)
    assert [answer.result for answer in answers] == ["made", "made", "locked", "locked", "made", "made"]
    user.commit()
    (answer,) = await stage.store.set_timers(wishes[2:3], stage.now)
    assert answer.result == "replaced"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"max_wait": "1h", "delay": "1h"}, "max_wait"), ({}, "delay"), ({"delay": "1h", "ordering_key": ""}, "ordering")],
)
async def test_what_is_wrong_is_named(topic: Topic, user: Any, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        outbox.set_timer(user.cursor(), "orders", "order-7", 1, **wrong)
