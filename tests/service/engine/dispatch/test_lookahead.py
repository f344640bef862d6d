"""The lookahead: what it tells of a crowded second, and what it leaves to a look in its turn."""

from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from support.hand_time import HandTime
from tarry.service.engine.dispatch.due_topics import DueTopics
from tarry.service.engine.dispatch.lookahead import Lookahead
from tarry.service.engine.state.known_seconds import FEW, KnownSeconds
from tarry.service.engine.state.pending import Pending
from tarry.store.errors import Unavailable
from tarry.store.ids import first_id
from tarry.wheel.columns import Columns

EPOCH = 1_795_000_000_000
SECOND = EPOCH // 1_000 + 5
DUE = SECOND * 1_000 + 300
A, B, C = 1, 2, 3


class Asked:
    """A look into the store."""

    def __init__(self, topics: "Topics") -> None:
        self.topics_of, self.others_in = topics.ask, topics.others_in


class Topics(HandTime):
    """Who knows the topics: those of some entries, of the others A."""

    def __init__(self) -> None:
        super().__init__(EPOCH)
        self.of: dict[int, int] = {}
        self.asked: list[int] = []
        self.looked_at: list[int] = []
        self.away = False
        self.crowd = A
        self.comes: list[tuple[int, int]] = []
        self.loads = {SECOND: 1_000_000}
        self.seconds = KnownSeconds()
        self.wheel = self
        self.lookahead = Lookahead(cast(Pending, self), cast(DueTopics, Asked(self)), self.clock)

    def load(self, second: int) -> int | None:
        return self.loads.get(second)

    async def ask(self, timers: Columns, crowd: int) -> Mapping[int, int]:
        self.asked += [entry for _, entry in timers]
        return {entry: topic for _, entry in timers if (topic := self.of.get(entry, A)) != crowd}

    async def others_in(self, second: int) -> tuple[int, Mapping[int, int]] | None:
        if self.away:
            raise Unavailable("away")
        self.looked_at.append(second)
        others = {entry: topic for entry, topic in self.of.items() if topic != self.crowd}
        for timer in self.comes:
            self.seconds.note(*timer)
        return (self.crowd, others) if self.crowd else None

    async def look(self, now: int = EPOCH) -> None:
        self.ms = now
        await self.clock.take()
        await self.lookahead.look_ahead()

    async def topics_of(self, entries: Sequence[int], crowd: int = 0, due: int = DUE) -> Mapping[int, int]:
        return await self.lookahead.topics_of(Columns.of((due, entry) for entry in entries), crowd)


def entries(many: int) -> list[int]:
    return [first_id(DUE) + number for number in range(many)]


@pytest.fixture
def topics() -> Topics:
    return Topics()


async def test_of_a_crowded_second_nothing_is_asked_any_more(topics: Topics) -> None:
    some = entries(100)
    topics.of = {some[7]: B, some[40]: C}
    await topics.look()
    assert await topics.topics_of(some) == {entry: topics.of.get(entry, A) for entry in some}
    assert await topics.topics_of(some, crowd=A) == {some[7]: B, some[40]: C}
    assert (topics.asked, topics.looked_at) == ([], [SECOND])


async def test_when_the_next_other_falls_due(topics: Topics) -> None:
    other, last = first_id(DUE + 3), first_id(DUE + 7)
    topics.of = {other: B, last: C}
    assert topics.seconds.next_other(DUE) is None, "nothing is known yet"
    await topics.look()
    nexts = [topics.seconds.next_other(now) for now in (DUE, DUE + 3, DUE + 4, DUE + 8)]
    assert nexts == [DUE + 3, DUE + 3, DUE + 7, None]


async def test_between_very_many_strangers_there_is_no_next(topics: Topics) -> None:
    topics.of = {first_id(DUE + one // 2) + one % 2: B for one in range(FEW + 1)}
    await topics.look()
    assert topics.seconds.next_other(DUE) is None


async def test_it_looks_once_and_at_crowded_seconds_that_come_soon(topics: Topics) -> None:
    topics.loads = {SECOND - 1: 50_000, SECOND: 50_001, SECOND + 30: 1_000_000, EPOCH // 1_000: 1_000_000}
    await topics.look()
    await topics.look()
    assert topics.looked_at == [SECOND]
    await topics.look(EPOCH + 15_000)
    assert topics.looked_at == [SECOND, SECOND + 30]


async def test_what_comes_later_is_asked_for(topics: Topics) -> None:
    known, during, later, retry = *entries(3), ~first_id(DUE)
    topics.comes = [(DUE, during)]
    await topics.look()
    topics.of = {during: B, later: C, retry: B}
    topics.seconds.note(DUE, later)
    assert await topics.topics_of([known, during, later, retry], crowd=A) == {during: B, later: C, retry: B}
    assert topics.asked == [during, later, retry]


async def test_what_was_moved_into_the_second_is_asked_for(topics: Topics) -> None:
    moved = first_id(DUE + 3_600_000)
    topics.of = {moved: B}
    await topics.look()
    assert await topics.topics_of([moved]) == {moved: B}
    assert topics.asked == [moved]


@pytest.mark.parametrize("place", ["first", "last"])
async def test_one_that_was_moved_among_many_of_its_millisecond_is_asked_for(topics: Topics, place: str) -> None:
    """It is looked at the ends of each millisecond only: there it is, since they are in order."""
    some = entries(1_000)
    later = [first_id(DUE + 1) + number for number in range(1_000)]
    moved = first_id(DUE + (3_600_000 if place == "last" else -3_600_000))
    topics.of = {moved: B, some[500]: C, later[0]: B, later[999]: C}
    await topics.look()
    timers = [(DUE, entry) for entry in sorted([*some, moved])] + [(DUE + 1, entry) for entry in later]
    told = await topics.lookahead.topics_of(Columns.of(timers), A)
    assert (told, topics.asked) == (topics.of, [moved])
    topics.asked.clear()
    told = await topics.lookahead.topics_of(Columns.of(timers[10:990] + timers[1_001:]), A)
    assert (told, topics.asked) == ({some[500]: C, later[0]: B, later[999]: C}, [])


async def test_when_much_comes_it_looks_anew(topics: Topics) -> None:
    some = entries(3)
    await topics.look()
    topics.seconds.note_many([DUE - 10_000, DUE - 9_000])
    await topics.topics_of(some)
    assert topics.asked == []
    topics.seconds.note_many([DUE + 3_000, DUE - 3_000])
    await topics.topics_of(some)
    assert topics.asked == some
    await topics.look()
    assert topics.looked_at == [SECOND, SECOND]
    for entry in entries(20_001):
        topics.seconds.note(DUE, entry)
    await topics.look()
    assert topics.looked_at == [SECOND] * 3


async def test_where_no_topic_has_nearly_all_each_is_asked_for(topics: Topics) -> None:
    topics.crowd = 0
    await topics.look()
    await topics.look()
    await topics.topics_of(entries(3))
    assert (topics.asked, topics.looked_at) == (entries(3), [SECOND])


async def test_a_store_that_is_away_leaves_nothing_half_known(topics: Topics) -> None:
    topics.away = True
    with pytest.raises(Unavailable):
        await topics.look()
    await topics.topics_of(entries(3))
    assert topics.asked == entries(3)
    topics.away = False
    await topics.look()
    assert topics.looked_at == [SECOND]


async def test_a_second_that_is_long_over_is_forgotten(topics: Topics) -> None:
    await topics.look()
    topics.loads = {}
    await topics.look(DUE + 19_000)
    await topics.topics_of(entries(2))
    assert topics.asked == []
    await topics.look(DUE + 22_000)
    await topics.topics_of(entries(2))
    assert topics.asked == entries(2)
