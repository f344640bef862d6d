"""What is parted, until the one that cannot be promoted is by itself, and when the store is to blame."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from support.hand_time import HandTime
from tarry.service.engine.dispatch.spoilt import TOLD, Spoilt
from tarry.store.errors import DuplicateKey, Locked, Refused, StoreError, Unavailable, Unfit
from tarry.store.ids import IdMaker
from tarry.store.store import Store
from tarry.store.timers import spoilt as rows


class Promoting(HandTime):
    """Promotes what is not spoilt, all or nothing."""

    def __init__(self, *spoilt: int) -> None:
        super().__init__()
        self.spoilt = set(spoilt)
        self.tried: list[list[int]] = []
        self.away_at: int | None = None
        self.error: Exception = Refused("out of range")
        self.there: dict[int, str] = {}
        self.ids = IdMaker()

    async def read(self, function: Any, *args: Any) -> Any:
        if function is rows.taken:
            return [entry for entry in args[0] if entry in self.spoilt]
        assert function is rows.passed_over
        return {entry: why for entry, why in self.there.items() if entry in args[0]}

    async def write(self, function: Any, *args: Any) -> None:
        """A rehearsal, which nothing is in the way of."""

    async def promote(self, entries: Sequence[int]) -> list[int]:
        self.tried.append(list(entries))
        if self.away_at in entries:
            raise Unavailable("away")
        if self.spoilt.intersection(entries):
            raise self.error
        return list(entries)

    async def over(self) -> Spoilt:
        await self.clock.take()
        return Spoilt(cast(Store, self), self.clock)


@pytest.mark.parametrize("spoilt", [[0], [499], [250], [7, 8], list(range(0, 500, 50)), list(range(100, 140))])
async def test_all_others_go_in_order_and_in_few_tries(spoilt: list[int]) -> None:
    promoting = Promoting(*spoilt)
    aside = await promoting.over()
    parts = await aside.wholly(range(500), promoting.promote)
    assert [one for part in parts for one in part] == [one for one in range(500) if one not in spoilt]
    assert [one for one in range(500) if one in aside.rows] == spoilt
    assert len(promoting.tried) <= 1 + 20 * len(spoilt)


async def test_those_whose_ids_are_taken_are_found_in_one_look() -> None:
    promoting = Promoting(*range(0, 500, 2))
    promoting.error = DuplicateKey("taken")
    aside = await promoting.over()
    (part,) = await aside.wholly(range(500), promoting.promote)
    assert part == list(range(1, 500, 2))
    assert (len(promoting.tried), len(aside.rows)) == (2, 250)


async def test_nothing_but_failures_may_be_the_stores() -> None:
    promoting = Promoting(*range(500))
    aside = await promoting.over()
    with pytest.raises(StoreError, match="nothing of a batch goes: out of range"):
        await aside.wholly(range(500), promoting.promote)
    assert len(aside.rows) == 8
    promoting.spoilt.clear()  # it was
    (part,) = await aside.wholly(range(500), promoting.promote)
    assert part == list(range(8, 500))


@pytest.mark.parametrize("error", [Unavailable("away"), Locked("held")])
async def test_a_store_that_is_away_makes_nobody_spoilt(error: Exception) -> None:
    promoting = Promoting(3)
    promoting.error = error
    aside = await promoting.over()
    with pytest.raises(type(error)):
        await aside.wholly(range(10), promoting.promote)
    assert (len(promoting.tried), len(aside.rows)) == (1, 0)


async def test_what_is_put_right_before_the_rehearsal_makes_nobody_spoilt() -> None:
    """Somebody has dropped his trigger just then."""
    promoting = Promoting()
    aside = await promoting.over()
    assert await aside.part([1, 2], promoting.promote, Unfit("1644")) == ([[1, 2]], [])
    promoting.error, promoting.spoilt = Unfit("1644"), {2}
    assert await aside.part([1, 2], promoting.promote, Unfit("1644")) == ([[1]], [])
    assert aside.rows.named() == ["message 2: 1644"]


async def test_a_store_that_goes_away_in_between_leaves_the_rest_to_do() -> None:
    promoting = Promoting(3)
    promoting.away_at = 8
    aside = await promoting.over()
    parts, left = await aside.part(range(10), promoting.promote, Refused("of one"))
    assert [one for part in parts for one in part] + list(left) == [one for one in range(10) if one != 3]
    assert left[-1] == 9


async def test_what_is_put_right_goes_and_is_told_once() -> None:
    promoting = Promoting(5, -6)
    aside = await promoting.over()
    with capture_logs() as lines:
        await aside.wholly([4, 5, -6], promoting.promote)
        assert aside.rows.named() == ["message 5: out of range", "retry 5: out of range"]
        assert aside.rows.wrong(()) == "due, and cannot be promoted: message 5: out of range; retry 5: out of range"

        async def again(entries: Sequence[int]) -> None:
            await aside.wholly(entries, promoting.promote)

        for rest in (1, 2, 4, 8, 16, 32, 60, 60):
            promoting.ms += 1000 * rest - 1
            tried = len(promoting.tried)
            await aside.try_again(again)
            assert len(promoting.tried) == tried, "too soon"
            promoting.ms += 1
            await aside.try_again(again)
            assert len(promoting.tried) > tried
        promoting.spoilt = {-6}
        promoting.there = {-6: "there is no queue 9"}
        promoting.ms += 60_000
        await aside.try_again(again)
    assert aside.rows.named() == ["retry 5: out of range"]
    assert [line["event"] for line in lines] == ["rows_set_aside", "rows_well_again"]
    assert lines[1]["rows"] == ["message 5"]


async def test_what_is_there_still_without_a_failure_stays_aside() -> None:
    promoting = Promoting()
    aside = await promoting.over()
    promoting.there = {7: "there is no queue 9"}
    with capture_logs() as lines:
        await aside.pass_over([7, 8])

        async def again(entries: Sequence[int]) -> None:
            await aside.wholly(entries, promoting.promote)

        for _ in range(3):
            promoting.ms += 60_000
            await aside.try_again(again)
        assert aside.rows.named() == ["message 7: there is no queue 9"]
        promoting.there.clear()
        promoting.ms += 60_000
        await aside.try_again(again)
    assert (len(aside.rows), aside.rows.wrong(())) == (0, None)
    assert len(lines) == 2


async def test_what_other_nodes_are_told_is_short() -> None:
    promoting = Promoting(*range(0, 100, 2))
    promoting.error = Refused("x" * 5000)
    aside = await promoting.over()
    await aside.wholly(range(100), promoting.promote)
    told = aside.rows.named(TOLD)
    assert len(told) == 4
    assert told[3] == "and 47 more"
    assert sum(map(len, told)) < 1000, "it has a part of a column of 4096 bytes"
