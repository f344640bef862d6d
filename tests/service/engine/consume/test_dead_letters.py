"""A call's way through dead letters: what it has worked on, and where the next call begins."""

from collections import Counter

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.engine.consume.dead_letters import Walk
from tarry.store.operating.redriving import Fitting, Letters, Redriven

EVER = Letters().until


@define
class Shelf:
    """Dead letters in the order of their deaths: (dead_at, id) with key `a` or `b`, and those that stay."""

    letters: dict[tuple[int, int], str]
    stay: set[int]
    looked: int = 0
    worked: Counter[int] = field(factory=Counter[int])

    def _ahead(self, some: Letters) -> list[tuple[int, int]]:
        places = [place for place in sorted(self.letters) if some.since <= place[0] < some.until]
        if some.ids is not None:
            return [place for place in places if place[1] in some.ids]
        return [place for place in places if place > (some.since, some.after)]

    async def look(self, some: Letters, limit: int) -> Fitting:
        limit = min(limit, 3)
        if some.ids is None:
            rows = self._ahead(some)[:limit]
            ahead = some.behind(rows[-1]) if len(rows) == limit else None
        else:
            rows = self._ahead(Letters(ids=some.ids[:limit], since=some.since, until=some.until))
            left = some.ids[limit:]
            ahead = Letters(some.since, some.until, left, key=some.key) if left else None
        self.looked += len(rows)
        return Fitting(tuple(place for place in rows if self.letters[place] == some.key), ahead)

    async def work(self, some: Letters, limit: int) -> Redriven:
        rows = self._ahead(some)[:limit]
        gone = [place for place in rows if place[1] not in self.stay]
        for place in gone:
            del self.letters[place]
        self.worked.update(id_ for _, id_ in rows)
        return Redriven(len(gone), (), len(rows) - len(gone), 0, rows[-1] if rows else None)


LETTERS = st.dictionaries(st.integers(0, 30), st.tuples(st.integers(0, 12), st.sampled_from("ab")), max_size=20)


@pytest.mark.slow
@given(
    letters=LETTERS,
    stay=st.sets(st.integers(0, 30)),
    limit=st.integers(3, 5),
    steps=st.integers(1, 6),
    key=st.sampled_from([None, "a"]),
    named=st.none() | st.lists(st.integers(0, 30), unique=True).map(tuple),
    since=st.integers(0, 3),
)
async def test_all_are_worked_on_once_however_often_the_call_is_cut(
    letters: dict[int, tuple[int, str]],
    stay: set[int],
    limit: int,
    steps: int,
    key: str | None,
    named: tuple[int, ...] | None,
    since: int,
) -> None:
    """A call is a few steps; the next one begins where the one before it said. (Two die in one millisecond at most: a
    call that gets no further than that would be met again, which takes it more letters than there can be.)"""
    counts = Counter[int]()
    there: dict[tuple[int, int], str] = {}
    for id_, (at, of) in letters.items():
        counts[at] += 1
        if counts[at] <= 2:
            there[at, id_] = of
    shelf = Shelf(dict(there), stay)
    meant = {
        place
        for place, of in there.items()
        if place[0] >= since and (key is None or of == key) and (named is None or place[1] in named)
    }
    begin, count, expired, done = since, 0, 0, False
    for _ in range(100):
        walk = Walk(Letters(begin, EVER, named, key=key), shelf.look, shelf.work)
        done = False
        for _ in range(steps if named is None else 100):
            if not done:
                some, done = await walk.step(limit)
                count += some
        assert begin <= walk.since or done
        begin, expired = walk.since, walk.expired
        if done:
            break
    assert done
    assert count == len([place for place in meant if place[1] not in stay])
    assert expired <= len(meant)
    assert {place for place in meant if place in shelf.letters} == {place for place in meant if place[1] in stay}
    assert all(place in shelf.letters for place in there if place not in meant)


async def test_a_walk_that_finds_nothing_gets_on() -> None:
    """Else a call that is cut, and its next one, would look through the same letters for ever."""
    shelf = Shelf({(at, at): "b" for at in range(30)}, set())
    walk = Walk(Letters(key="a"), shelf.look, shelf.work)
    assert await walk.step(200) == (0, False)
    assert walk.since == 2
