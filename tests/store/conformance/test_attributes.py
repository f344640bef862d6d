"""Whatever a message has beside its body goes with it on every way, to the letter: made of the declaration alone.

A new attribute is tried by this without a line more; who forgets it in one place loses it there, and sees it here.
"""

from typing import Any

import msgspec
import pytest

from support.attributes import attributes, each, one_of
from support.cleaning import clean
from support.drivers import DRIVERS, close
from support.letters import dead_letters_of
from support.store_homes import on_servers
from support.stores import HOUR, START, Stage
from tarry.client.coroutines import drive
from tarry.client.outbox.cursors import CursorTransaction
from tarry.service.schedules.courses import course_of
from tarry.store.cleaning.retention import Limits
from tarry.store.content import ATTRIBUTES, LABELS, NUMBERS, Attributes, Content
from tarry.store.ids import IdMaker
from tarry.store.looking import tracing
from tarry.store.operating.redriving import Letters
from tarry.store.records import Claim, Delivered, Draft, Found, Group, Topic
from tarry.store.schedules import schedules
from tarry.store.stream import outbox
from tarry.store.stream.stretches import pull
from tarry.store.timers.keyed import Wish
from tarry.wheel.ladder import Ladder

LIMIT = 100


ALL = each(START + 9 * HOUR)


@pytest.fixture
async def topic(stage: Stage) -> Topic:
    return await stage.topic()


@pytest.fixture
async def group(stage: Stage, topic: Topic) -> Group:
    return await stage.group(topic, ladder=Ladder((1000,)))


async def publish(stage: Stage, topic: Topic, delay: int | None = None) -> dict[int, dict[str, Any]]:
    """A message of each, a transaction of each; what they have, by their ids."""
    sent: dict[int, dict[str, Any]] = {}
    for said in ALL:
        (receipt,) = await stage.publish(stage.draft(topic, b"{}", delay, **said))
        sent[receipt.id] = said
    return sent


def given(claim: Claim) -> dict[int, dict[str, Any]]:
    return {one.id: attributes(one) for range_ in claim.ranges for one in range_.messages}


async def found(stage: Stage, sent: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {id_: attributes(one) for id_, one in (await stage.store.read(tracing.find_messages, list(sent))).items()}


@pytest.mark.parametrize("record", [Content, Draft, Delivered, Found, outbox.Entry])
def test_what_is_taken_and_given_has_them_all(record: type[Attributes]) -> None:
    assert record.__struct_fields__[: len(ATTRIBUTES)] == ATTRIBUTES


async def test_at_once(stage: Stage, topic: Topic, group: Group) -> None:
    sent = await publish(stage, topic)
    assert await found(stage, sent) == sent
    assert {one.id: attributes(one) for one in await stage.store.read(pull, topic.queues[0], 0, LIMIT)} == sent
    assert given(await stage.claim(group, LIMIT)) == sent


async def test_together(stage: Stage, topic: Topic, group: Group) -> None:
    for delay in (None, HOUR):
        receipts = await stage.publish(*(stage.draft(topic, b"{}", delay, **said) for said in ALL))
        await stage.fall_due(after=delay or 0)
        assert given(await stage.claim(group, LIMIT)) == {one.id: said for one, said in zip(receipts, ALL, strict=True)}


async def test_after_a_time(stage: Stage, topic: Topic, group: Group) -> None:
    sent = await publish(stage, topic, HOUR)
    assert await found(stage, sent) == sent
    await stage.fall_due(after=HOUR)
    assert given(await stage.claim(group, LIMIT)) == await found(stage, sent) == sent


async def test_with_a_guard(stage: Stage, topic: Topic) -> None:
    """Of a statement of its own."""
    for said in ALL:
        (receipt,) = await stage.publish(stage.draft(topic, b"{}", HOUR, guard="unpaid", **said))
        (one,) = (await stage.store.read(tracing.find_messages, [receipt.id])).values()
        assert (attributes(one), one.guard) == (said, "unpaid")


async def test_once_more_among_the_dead_and_redriven(stage: Stage, topic: Topic, group: Group) -> None:
    sent = await publish(stage, topic)
    await stage.fail(group, await stage.claim(group, LIMIT))
    await stage.fall_due(after=1000)
    claim = await stage.claim(group, LIMIT)
    assert given(claim) == sent
    await stage.fail(group, claim)
    letters = await stage.store.read(dead_letters_of, group, 0, LIMIT)
    assert {one.message.id: attributes(one.message) for one in letters} == sent
    assert (await stage.store.redrive(group, Letters(), LIMIT, stage.now)).count == len(sent)
    await stage.fall_due()
    assert given(await stage.claim(group, LIMIT)) == sent


async def test_redriven_when_retention_has_taken_it(stage: Stage, topic: Topic) -> None:
    group = await stage.group(topic, ladder=Ladder(()))
    sent = await publish(stage, topic)
    await stage.fail(group, await stage.claim(group, LIMIT))
    stage.now += 8 * HOUR
    await clean(stage, topic, limits=Limits(retention=HOUR, hard=9 * HOUR, history=9 * HOUR, dead=99 * HOUR))
    assert stage.count("message") == 0, "the letters are all that is left"
    assert (await stage.store.redrive(group, Letters(), LIMIT, stage.now)).count == len(sent)
    await stage.fall_due()
    assert given(await stage.claim(group, LIMIT)) == sent


async def test_of_a_timer(stage: Stage, topic: Topic) -> None:
    for said in ALL:
        wish = Wish(topic, "order-7", stage.draft(topic, b"{}", HOUR, **said))
        (answer,) = await stage.store.set_timers([wish], stage.now)
        (one,) = (await stage.store.read(tracing.find_messages, [answer.id])).values()
        assert attributes(one) == said | {"key": "order-7"}


async def test_of_a_schedule(stage: Stage, topic: Topic) -> None:
    """All but what is of one time only."""
    labels = {name: one_of(name, 0) for name in LABELS}
    said = {"topic": topic.name, "every": 60_000, "body_base64": b"\x00", "content_type": "x/y"} | labels
    wish = schedules.Wish("daily", topic, topic.queues[0], msgspec.json.encode(said), None)
    stage.store.courses = course_of
    await stage.store.change(lambda tx, firing: schedules.put(tx, firing, wish), stage.now)
    (id_,) = stage.column("SELECT id FROM delay")
    (one,) = (await stage.store.read(tracing.find_messages, [id_])).values()
    assert {*ATTRIBUTES} - {*attributes(one)} == {"expires_at"}
    assert {name: getattr(one, name) for name in LABELS} == labels


@on_servers
async def test_of_an_outbox(stage: Stage, dsn: str, topic: Topic) -> None:
    stage.now = await stage.store.backend.now()
    connection = DRIVERS["pymysql"](dsn)
    ids = IdMaker(outbox=True)
    for said in ALL:
        far = {name: value + stage.now if name in NUMBERS else value for name, value in said.items()}
        tx = CursorTransaction(connection.cursor(), None)
        (one,) = drive(outbox.publish(tx, ids, topic.name, [outbox.Entry(body=b"{}", delay=HOUR, **far)], 2 * HOUR))
        connection.commit()
        (there,) = (await stage.store.read(tracing.find_messages, [one.id])).values()
        assert attributes(there) == far
    close(connection)
