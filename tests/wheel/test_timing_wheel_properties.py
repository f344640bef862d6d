"""The wheel against a naive model, a sorted list: whatever the order of the calls, the same ids come out."""

from __future__ import annotations

from array import array
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.effort import examples, full
from support.inside_wheel import tombstones
from tarry.wheel import entries, slots
from tarry.wheel.timing_wheel import TimingWheel

HOUR = 3_600_000
LOWEST, HIGHEST = -(2**63), 2**63 - 1
# Full hours, days from the epoch in both directions, and as far as int64 goes.
STARTS = (0, -HOUR, 1_763_694_000_000, -1_763_694_000_000, LOWEST, HIGHEST - 50 * HOUR, HIGHEST - 1)

# A moment is (from the full hour of the hand, or from the hand itself; milliseconds).
Moment = tuple[bool, int]

# A millisecond, a second, and their neighbours.
a_little = st.sampled_from((-1_001, -1_000, -999, -1, 0, 1, 999, 1_000, 1_001))
hours = st.integers(0, 4).map(lambda count: count * HOUR)
multiples = st.tuples(st.booleans(), st.builds(int.__add__, hours, a_little))
next_hour = st.tuples(st.just(True), st.integers(HOUR, HOUR + 5_000))
moments = st.one_of(
    st.tuples(st.just(False), st.integers(-5, 5)),
    st.tuples(st.just(False), st.integers(-3_000, 3_000)),
    st.tuples(st.just(False), st.integers(-3 * HOUR, 3 * HOUR)),
    multiples,
    next_hour,
    st.tuples(st.just(False), st.integers(0, 10 * 365 * 24 * HOUR)),
    st.tuples(st.just(False), st.sampled_from((-(2**64), 2**64))),  # clamped to the edges of int64
)
steps = st.one_of(
    st.tuples(st.just(False), st.sampled_from((0, 1, 2, 999, 1_000, 1_001))),
    st.tuples(st.just(False), st.integers(0, 5_000)),
    multiples,
    st.tuples(st.just(False), st.integers(0, 6 * HOUR)),
    st.tuples(st.just(False), st.integers(0, 11 * 365 * 24 * HOUR)),
    st.tuples(st.just(False), st.just(2**64)),
)
# Few ids, so that pairs are met again; and the edges.
ids = st.one_of(st.integers(0, 5), st.sampled_from((LOWEST, -1, HIGHEST)))
limits = st.one_of(st.none(), st.integers(0, 4))


class Model:
    """A multiset of (due, id), sorted when asked."""

    def __init__(self, now: int) -> None:
        self.hand = now
        self.pending: list[tuple[int, int]] = []

    def advance(self, now: int, limit: int | None) -> list[int]:
        return [entry_id for _, entry_id in self.advance_pairs(now, limit)]

    def advance_pairs(self, now: int, limit: int | None) -> list[tuple[int, int]]:
        self.hand = max(self.hand, now)
        self.pending.sort()
        due = [pair for pair in self.pending if pair[0] <= self.hand][:limit]
        del self.pending[: len(due)]
        return due

    def cancel(self, pair: tuple[int, int]) -> None:
        self.pending = [other for other in self.pending if other != pair]


class WheelMachine(RuleBasedStateMachine):
    wheel: TimingWheel
    model: Model

    @initialize(start=st.sampled_from(STARTS), near=st.sampled_from((0, 1, 999, HOUR - 1, 1_234_567)))
    def begin(self, start: int, near: int) -> None:
        now = min(start + near, HIGHEST)
        self.wheel = TimingWheel(now)
        self.model = Model(now)
        # Pairs cancelled or moved away from: to be met again.
        self.gone: list[tuple[int, int]] = []

    def due(self, moment: Moment) -> int:
        from_the_hour, milliseconds = moment
        hand = self.model.hand
        return max(LOWEST, min(HIGHEST, (hand // HOUR * HOUR if from_the_hour else hand) + milliseconds))

    def pick(self, data: st.DataObject) -> tuple[int, int]:
        return data.draw(st.sampled_from(sorted(set(self.model.pending))))

    @rule(moment=moments, entry_id=ids)
    def add(self, moment: Moment, entry_id: int) -> None:
        self.wheel.add(self.due(moment), entry_id)
        self.model.pending.append((self.due(moment), entry_id))

    @rule(
        rows=st.one_of([st.lists(st.tuples(each, ids), max_size=12) for each in (moments, multiples, next_hour)]),
        order=st.sampled_from(("as they come", "by due", "by due and id")),
        as_lists=st.booleans(),
    )
    def add_many(self, rows: list[tuple[Moment, int]], order: str, as_lists: bool) -> None:
        pairs = [(self.due(moment), entry_id) for moment, entry_id in rows]
        if order == "by due":
            pairs.sort(key=lambda pair: pair[0])
        elif order == "by due and id":
            pairs.sort()
        dues, pair_ids = [due for due, _ in pairs], [entry_id for _, entry_id in pairs]
        if as_lists:
            self.wheel.add_many(dues, pair_ids)
        else:
            self.wheel.add_many(array("q", dues), array("q", pair_ids))
        self.model.pending += pairs

    @rule(second=moments, rows=st.lists(st.tuples(st.integers(0, 999), ids), min_size=5, max_size=20))
    def crowd_a_second(self, second: Moment, rows: list[tuple[int, int]]) -> None:
        from_the_hour, milliseconds = second
        for offset, entry_id in rows:
            self.add((from_the_hour, milliseconds // 1_000 * 1_000 + offset), entry_id)

    @precondition(lambda self: self.model.pending)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        self.wheel.cancel(*pair)
        self.model.cancel(pair)
        self.gone.append(pair)

    @rule(moment=moments, entry_id=ids)
    def cancel_what_may_be_unknown(self, moment: Moment, entry_id: int) -> None:
        pair = (self.due(moment), entry_id)
        self.wheel.cancel(*pair)
        self.model.cancel(pair)
        self.gone.append(pair)

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def add_again(self, data: st.DataObject) -> None:
        pair = data.draw(st.sampled_from(self.gone))
        self.wheel.add(*pair)
        self.model.pending.append(pair)

    @precondition(lambda self: self.model.pending)
    @rule(share=st.integers(1, 3))
    def cancel_many(self, share: int) -> None:
        for pair in sorted(set(self.model.pending))[::share]:
            self.wheel.cancel(*pair)
            self.model.cancel(pair)

    @precondition(lambda self: self.model.pending)
    @rule(data=st.data(), by=st.integers(-2_000, 2_000), cancel_first=st.booleans())
    def move(self, data: st.DataObject, by: int, cancel_first: bool) -> None:
        """Reschedule, mostly within the cycle; in either order, and even by 0."""
        due, entry_id = self.pick(data)
        moved = (max(LOWEST, min(HIGHEST, due + by)), entry_id)
        if cancel_first or moved == (due, entry_id):
            self.wheel.cancel(due, entry_id)
            self.wheel.add(*moved)
        else:
            self.wheel.add(*moved)
            self.wheel.cancel(due, entry_id)
        self.model.cancel((due, entry_id))
        self.model.pending.append(moved)
        self.gone.append((due, entry_id))

    @rule(step=steps, limit=limits)
    def advance(self, step: Moment, limit: int | None) -> None:
        now = self.due(step)
        assert self.wheel.advance(now, limit) == self.model.advance(now, limit)
        if limit is None:
            next_due = self.wheel.next_due()
            assert next_due is None or next_due > self.model.hand

    @rule(step=steps, limit=st.integers(0, 8))
    def advance_pairs(self, step: Moment, limit: int) -> None:
        now = self.due(step)
        assert list(self.wheel.advance_columns(now, limit)) == self.model.advance_pairs(now, limit)

    @rule(back=st.integers(1, 2 * HOUR), limit=limits)
    def advance_to_the_past(self, back: int, limit: int | None) -> None:
        now = self.model.hand - back
        assert self.wheel.advance(now, limit) == self.model.advance(now, limit)

    @precondition(lambda self: self.model.pending)
    @rule(data=st.data(), near=st.sampled_from((-1, 0, 1)), limit=limits)
    def advance_to_an_entry(self, data: st.DataObject, near: int, limit: int | None) -> None:
        now = min(HIGHEST, self.pick(data)[0] + near)
        assert self.wheel.advance(now, limit) == self.model.advance(now, limit)

    @rule(limit=st.integers(-1, 8))
    def deal(self, limit: int) -> None:
        before = len(self.wheel)
        remain = self.wheel.deal(limit)
        assert 0 <= remain <= len(self.wheel) <= before

    @rule(limit=st.integers(0, 8))
    def prepare(self, limit: int) -> None:
        before = len(self.wheel)
        assert self.wheel.prepare(limit) >= 0
        assert len(self.wheel) == before

    @rule(shards=st.sets(st.sampled_from((0, 1, 2, 3, 15)), max_size=4), moment=moments)
    def forget(self, shards: set[int], moment: Moment) -> None:
        since = self.due(moment)
        for _ in self.wheel.forget(shards, since):
            pass
        stays = (max(since, self.model.hand) // 1_000 + 1) * 1_000
        self.model.pending = [
            (due, entry_id)
            for due, entry_id in self.model.pending
            if due < stays or (entry_id if entry_id >= 0 else -1 - entry_id) % 16 not in shards
        ]

    @rule(rows=st.lists(st.tuples(moments, ids), max_size=8), data=st.data())
    def missing(self, rows: list[tuple[Moment, int]], data: st.DataObject) -> None:
        pairs = [(self.due(moment), entry_id) for moment, entry_id in rows]
        for known in (self.model.pending, self.gone):
            if known:
                pairs += data.draw(st.lists(st.sampled_from(known), max_size=6))
        expected = [pair for pair in pairs if pair not in self.model.pending]
        assert self.wheel.missing([due for due, _ in pairs], [entry_id for _, entry_id in pairs]) == expected

    @rule(moments=st.lists(moments, max_size=3), data=st.data())
    def load(self, moments: list[Moment], data: st.DataObject) -> None:
        dues = [self.due(moment) for moment in moments]
        if self.model.pending:
            dues.append(self.pick(data)[0])
        for second in {due // 1_000 for due in dues}:
            load, there = self.wheel.load(second), sum(due // 1_000 == second for due, _ in self.model.pending)
            assert load is None or load == there or (load > there and tombstones(self.wheel))

    @invariant()
    def next_due_is_a_bound(self) -> None:
        next_due = self.wheel.next_due()
        if self.model.pending:
            assert next_due is not None
            assert next_due <= min(self.model.pending)[0]
        elif not len(self.wheel):
            assert next_due is None

    @invariant()
    def counts(self) -> None:
        if tombstones(self.wheel):
            assert len(self.wheel) >= len(self.model.pending)
        else:
            assert len(self.wheel) == len(self.model.pending)

    def teardown(self) -> None:
        """Whatever is left comes out in the end, each once, and the wheel is empty."""
        if not hasattr(self, "wheel"):
            return
        rest = self.wheel.advance(HIGHEST)
        assert Counter(rest) == Counter(entry_id for _, entry_id in self.model.pending)
        assert rest == self.model.advance(HIGHEST, None)
        assert len(self.wheel) == 0
        assert self.wheel.next_due() is None
        assert tombstones(self.wheel) == 0


SETTINGS = settings(
    max_examples=examples(60, 250),
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@full
class TestWheel(WheelMachine.TestCase):  # type: ignore[misc,valid-type]  # hypothesis makes it when asked
    settings = SETTINGS


@full
class TestWheelWithSmallLimits(WheelMachine.TestCase):  # type: ignore[misc,valid-type]  # hypothesis makes it when asked
    """The same with slots that count as large from two entries on, and swept after two cancels."""

    settings = SETTINGS

    @pytest.fixture(autouse=True)
    def _small_limits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(slots, "_LOOK_UP_AT_MOST", 2)
        monkeypatch.setattr(slots, "_LARGE", 2)
        monkeypatch.setattr(entries, "_SWEEP_AT_LEAST", 2)
