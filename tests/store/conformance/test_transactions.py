"""What a transaction gives beside single queries: several in one flight, and statements that nobody waits for."""

from typing import Any

import pytest
from attrs import evolve

from support.hearing import HearingStore
from support.stores import Stage, ids_of
from tarry.store.errors import StoreError
from tarry.store.ports import Asked, Transaction
from tarry.store.records import Group, Topic


def named(id_: int) -> Any:
    """For `label.remove`, which wants two rows at the least."""
    return [(1, b"k", id_)] * 2


async def test_what_is_run_later_is_run_in_its_place(stage: Stage) -> None:
    async def work(tx: Transaction) -> list[list[int]]:
        await tx.later_many("label.add", [(1, b"k", 11), (1, b"k", 12)])
        await tx.later("label.remove", named(11))
        seen = [Asked("label.find", int, 1, key, 0, 9) for key in (b"k", b"other")]
        await tx.fetch_all(seen)
        await tx.later_many("label.add", [(1, b"k", 13)])
        assert await tx.execute("label.remove", named(13)) == 1
        await tx.later_many("label.add", [(1, b"k", 14)])
        return [asked.rows for asked in seen]

    assert await stage.store.backend.write(work) == [[12], []]
    assert await stage.store.backend.read(lambda tx: tx.fetch("label.find", int, 1, b"k", 0, 9)) == [12, 14]


async def test_what_fails_later_is_undone_with_all_the_rest(stage: Stage) -> None:
    async def work(tx: Transaction) -> None:
        await tx.execute_many("label.add", [(1, b"before", 1)])
        await tx.later_many("label.add", [(1, b"k", 1)])
        await tx.later_many("label.add", [(1, b"k", 1)])
        await tx.later_many("label.add", [(1, b"after", 1)])

    with pytest.raises(StoreError):
        await stage.store.backend.write(work)
    assert stage.count("label") == 0


async def _schedules(stage: Stage, many: int) -> list[int]:
    """So many rows of `schedule`, by id."""

    async def add(tx: Transaction) -> None:
        await tx.execute_many("schedule.add", [(b"%d" % i, 1, 1, b"{}", 0, 0, 0, 0) for i in range(many)])

    await stage.store.backend.write(add)
    return [
        id_ for id_, _ in await stage.store.backend.read(lambda tx: tx.fetch("schedule.ids", tuple[int, int], 0, many))
    ]


@pytest.mark.parametrize("many", [1, 2, 2300])
async def test_many_rows_are_changed_each_in_its_way(stage: Stage, many: int) -> None:
    ids = await _schedules(stage, many + 1)
    rows = [(i, None if i % 3 else i, None if i % 2 else 5 * i, 7 * i, id_) for i, id_ in enumerate(ids[:-1])]

    async def work(tx: Transaction) -> None:
        await tx.later_each("schedule.advance", rows)
        await tx.execute("schedule.advance", 1, 2, 3, -4, ids[-1])  # it is run behind them

    await stage.store.backend.write(work)
    found = stage.tables.rows("SELECT last_at, last_id, next_at, next_id, id FROM schedule ORDER BY id")
    assert found == [*rows, (1, 2, 3, -4, ids[-1])]


async def test_of_many_rows_that_are_changed_one_is_not_there(stage: Stage) -> None:
    ids = await _schedules(stage, 3)

    async def work(tx: Transaction) -> None:
        await tx.later_each("schedule.advance", [(9, 9, 9, id_, id_) for id_ in [*ids, ids[-1] + 1]])

    with pytest.raises(StoreError):
        await stage.store.backend.write(work)
    assert {one for (one,) in stage.tables.rows("SELECT last_at FROM schedule")} == {0}


async def test_a_guess_of_where_the_group_is_may_be_wrong(stage: Stage, topic: Topic, group: Group) -> None:
    """Another node has claimed meanwhile, or an operator has sought."""
    receipts = await stage.publish(*(stage.draft(topic) for _ in range(9)))
    elsewhere = evolve(stage, store=HearingStore(stage.store.backend))
    claims = [await some.claim(group, 2) for some in (stage, elsewhere, stage, elsewhere)]
    assert [message.id for claim in claims for message in claim.messages] == ids_of(receipts[:8])
