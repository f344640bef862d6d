"""Where the messages of groups are posted to: one row for each group, which goes with it."""

import pytest
from attrs import evolve

from support.stores import SECOND, START, Stage
from tarry.store.cleaning import removal
from tarry.store.errors import GroupGone, TopicGone
from tarry.store.groups import push
from tarry.store.groups.push import PushRow
from tarry.store.ports import Transaction
from tarry.store.records import Group
from tarry.store.rows import encode

URL, SECRETS = "https://hooks.example.com/in", "whsec_a whsec_b"


async def put(stage: Stage, group: Group, now: int = START, url: str = URL) -> PushRow:
    return (await stage.store.write(push.put, group, url, SECRETS, 10_000, 7, now))[0]


async def group_of(stage: Stage, name: str = "billing") -> Group:
    return await stage.group(await stage.topic(), name)


async def test_it_comes_back_as_it_was(stage: Stage) -> None:
    one, other = await group_of(stage), await group_of(stage, "letters")
    assert await stage.store.read(push.all_pushes) == []
    assert await stage.store.read(push.find, one.id) is None
    row, made = await stage.store.write(push.put, one, URL, SECRETS, 10_000, 7, START)
    assert (row, made) == (PushRow(one.id, URL, SECRETS, 10_000, 7, START), True)
    second = await put(stage, other)
    assert await stage.store.read(push.find, one.id) == row
    assert await stage.store.read(push.all_pushes) == sorted([row, second], key=lambda row: row.group_id)
    assert "whsec" not in repr(row), "it may get into a log"


async def test_when_it_was_set_rises(stage: Stage) -> None:
    group = await group_of(stage)
    for at, seen in ((START, START), (START, START + 1), (START - SECOND, START + 2), (START + SECOND, START + SECOND)):
        row, made = await stage.store.write(push.put, group, URL, SECRETS, 10_000, 7, at)
        assert (row.changed_at, made) == (seen, seen == START)


async def test_gone(stage: Stage) -> None:
    row = await put(stage, await group_of(stage))
    assert await stage.store.write(push.broke, row, "away", START)
    assert await stage.store.write(push.switch_off, row, "the endpoint answered 410", START + 5)
    assert not await stage.store.write(push.switch_off, row, "again", START + 6)
    assert not await stage.store.write(push.broke, row, "away", START + 7)
    assert not await stage.store.write(push.mended, row)
    gone = await stage.store.read(push.find, row.group_id)
    assert gone == evolve(row, off_at=START + 5, because="the endpoint answered 410")


async def test_broken_and_mended(stage: Stage) -> None:
    row = await put(stage, await group_of(stage))
    assert not await stage.store.write(push.mended, row)
    assert await stage.store.write(push.broke, row, "\u00e4" * 200, START + 5)
    assert not await stage.store.write(push.broke, row, "again", START + 6)
    broken = await stage.store.read(push.find, row.group_id)
    assert broken == evolve(row, broken_at=START + 5, because="\u00e4" * 127)
    assert await stage.store.write(push.mended, row)
    assert await stage.store.read(push.find, row.group_id) == row


async def test_what_befell_the_endpoint_of_before_is_not_said_of_this_one(stage: Stage) -> None:
    group = await group_of(stage)
    before = await put(stage, group)
    assert await stage.store.write(push.broke, before, "away", START)
    row = await put(stage, group)
    assert await stage.store.read(push.find, group.id) == row, "it is on again"
    assert not await stage.store.write(push.switch_off, before, "gone", START)
    assert not await stage.store.write(push.broke, before, "away", START)
    assert await stage.store.write(push.broke, row, "away", START)
    assert not await stage.store.write(push.mended, before)


async def test_removed(stage: Stage) -> None:
    group = await group_of(stage)
    await put(stage, group)
    assert await stage.store.write(push.remove, group)
    assert not await stage.store.write(push.remove, group)
    assert stage.count("push") == 0


async def test_it_goes_with_its_group(stage: Stage) -> None:
    one, other = await group_of(stage), await group_of(stage, "letters")
    await put(stage, one)
    kept = await put(stage, other)
    assert await stage.store.write(removal.remove_group, one, START)
    assert await stage.store.read(push.all_pushes) == [kept]
    with pytest.raises(GroupGone):
        await put(stage, one)
    assert await stage.store.write(removal.remove_topic, other.topic, START, force=True)
    assert stage.count("push") == 0
    with pytest.raises(TopicGone):
        await put(stage, other)


async def test_a_group_inherits_nothing(stage: Stage) -> None:
    """Its number may have been another's, where a failover has lost that one."""
    one = await group_of(stage)
    await put(stage, one)
    left = evolve(one, id=one.id + 1)

    async def leave(tx: Transaction) -> None:
        values = (left.id, encode(URL), encode(SECRETS), 10_000, 7, START, None, None, None)
        await tx.execute_many("push.put", [values])

    await stage.store.write(leave)
    made = await group_of(stage, "letters")
    assert made.id == left.id, "else this shows nothing"
    assert await stage.store.read(push.find, made.id) is None
    assert await group_of(stage) == one, "asked for again"
    assert await stage.store.read(push.find, one.id) is not None
