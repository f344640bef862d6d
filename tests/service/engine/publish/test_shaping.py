"""Shaping: where a message of a window comes to lie, and how full and how late a second is said to be."""

from collections import Counter
from typing import Any

import pytest
import trio

from support.hand_time import HandTime
from tarry.service.engine.publish.shaping import Shaping
from tarry.service.engine.state.pace import Pace
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.records import Draft, Publication
from tarry.store.store import Store
from tarry.wheel.spread import Spread
from tarry.wheel.timing_wheel import TimingWheel

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOW = 1_795_000_020_000 // HOUR * HOUR


class Town(HandTime):
    """Shaping over a real store and a real wheel, while time stands still."""

    def __init__(self, store: Store) -> None:
        super().__init__(NOW)
        self.store = store
        self.wheel, self.pace = TimingWheel(NOW), Pace()
        self.shaping = Shaping(store, self.clock, self.wheel, self.pace)


@pytest.fixture
async def town(store: Store) -> Town:
    return await Town(store).begun()


async def test_it_goes_round_what_others_have_there(town: Town) -> None:
    topic = await town.store.write(catalogue.add_topic, TopicDraft("theirs"), 1)
    at = NOW + 10 * HOUR
    drafts = tuple(Draft(topic=topic, queue=topic.queues[0], body=b"1", deliver_at=at + i) for i in range(1000))
    await town.store.publish([Publication(drafts)], NOW)
    window = (at, at + 2 * MINUTE)
    await town.shaping.learn([window])
    assert {town.shaping.place(window, f"k{i}") // MINUTE for i in range(500)} == {at // MINUTE + 1}


async def test_it_goes_round_a_second_that_the_wheel_knows(town: Town) -> None:
    topic = await town.store.write(catalogue.add_topic, TopicDraft("theirs"), 1)
    at = NOW + 5 * MINUTE
    drafts = tuple(Draft(topic=topic, queue=topic.queues[0], body=b"1", deliver_at=at + 3 * SECOND) for _ in range(100))
    (receipts,) = await town.store.publish([Publication(drafts)], NOW)
    assert isinstance(receipts, list)
    for one in receipts:
        town.wheel.add(one.due, one.id)
    window = (at, at + MINUTE)
    await town.shaping.learn([window])
    found = Counter(town.shaping.place(window, None) // SECOND for _ in range(590))
    assert at // SECOND + 3 not in found
    assert set(found.values()) == {10}


async def test_a_window_that_has_begun_begins_now(town: Town) -> None:
    window = (NOW - HOUR, NOW + 2 * SECOND)
    assert {town.shaping.place(window, None) // SECOND for _ in range(10)} == {NOW // SECOND, NOW // SECOND + 1}
    assert town.shaping.place((NOW - HOUR, NOW), "k") == NOW, "it is over, and due at once"


async def test_others_have_their_turn_while_many_hours_are_learned(
    town: Town, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch may have windows in eighty thousand of them."""
    turns, seen, learn = 0, set[int](), Spread.learn

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    def spied(*asked: Any) -> None:
        seen.add(turns)
        learn(*asked)

    monkeypatch.setattr(Spread, "learn", spied)
    nursery.start_soon(other)
    await town.shaping.learn([(NOW, NOW + 2_000 * HOUR)])
    assert len(seen) >= 5


async def test_load_and_lateness(town: Town) -> None:
    at = NOW + MINUTE
    assert (town.shaping.load(at), town.shaping.late_by(at)) == (0, None)
    for i in range(5_000):
        town.wheel.add(at + i % 1000, i)
    assert town.shaping.load(at + 999) == 5_000
    assert town.shaping.late_by(at) is None, "nothing has been promoted yet"
    town.pace.note(99, 1.0)
    assert town.shaping.late_by(at) is None, "so few tell nothing"
    town.pace.note(1_000, 1.0)
    assert town.shaping.late_by(at) == 4_000
    assert town.shaping.late_by(at + 2 * SECOND) == 2_000, "what is left of the seconds before"
    assert town.shaping.late_by(at + 10 * SECOND) is None
    assert town.shaping.late_by(at - SECOND) is None
    assert town.shaping.load(NOW + 10 * HOUR) is None


async def test_the_pace_follows(town: Town) -> None:
    town.pace.note(1_000, 1.0)
    for _ in range(50):
        town.pace.note(1_000, 0.1)
    assert town.pace.per_s == pytest.approx(10_000, rel=0.01)
