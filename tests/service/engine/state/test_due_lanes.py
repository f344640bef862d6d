"""DueLanes: whatever comes, nothing is lost or doubled, a lane's order is that of time, and turns are fair."""

from collections import Counter, defaultdict

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.effort import examples, full
from tarry.service.engine.state.due_lanes import Batch, DueLanes
from tarry.wheel.columns import Columns

timers = st.tuples(st.integers(0, 50), st.integers(-40, 40))
limits = st.integers(1, 12)
rooms = st.dictionaries(st.integers(1, 5), st.integers(-1, 5), max_size=5)


def shard_of(entry: int) -> int:
    return (entry if entry >= 0 else ~entry) % 16


class LanesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lanes = DueLanes()
        self.waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.flying: list[Batch] = []
        self.passed_over: Counter[int] = Counter()

    @rule(some=st.dictionaries(st.integers(1, 5), st.lists(timers, min_size=1, max_size=30), max_size=5))
    def put(self, some: dict[int, list[tuple[int, int]]]) -> None:
        for topic, of in some.items():
            mine = sorted((due, one * 8 + topic) for due, one in of)
            self.lanes.put({topic: Columns.of(mine)})
            self.waiting[topic] += mine

    def wanted(self, rooms: dict[int, int]) -> dict[int, int]:
        """How many may go of each topic of which some may."""
        busy = {topic for batch in self.flying for topic in batch.topics}
        return {
            topic: min(len(some), rooms.get(topic, 99))
            for topic, some in self.waiting.items()
            if some and topic not in busy and rooms.get(topic, 1) > 0
        }

    @rule(limit=limits, rooms=rooms)
    def take(self, limit: int, rooms: dict[int, int]) -> None:
        wanted = self.wanted(rooms)
        free = set(wanted)
        batch = self.lanes.take(limit, lambda topic: rooms.get(topic, 99))
        if batch is None:
            assert not free
            return
        assert set(batch.topics) <= free
        share = limit // min(limit, len(free))
        if len(batch.topics) < min(limit, len(free)):  # the few go by themselves, or the many
            assert sum(wanted.values()) > limit
            assert len({wanted[topic] > share for topic in batch.topics}) == 1
        assert len(batch.entries) == min(limit, sum(wanted[topic] for topic in batch.topics))
        if batch.more:
            assert all(wanted[topic] > share for topic in batch.topics)
        else:
            assert sum(wanted[topic] for topic in batch.topics) == len(batch.entries)
        self.passed_over.update(free - set(batch.topics))
        for topic in batch.topics:
            self.passed_over[topic] = 0
        assert max(self.passed_over.values(), default=0) <= 5, "everybody has a turn"
        self.fly(batch, wanted)

    @rule(limit=limits, rooms=rooms)
    def take_few(self, limit: int, rooms: dict[int, int]) -> None:
        wanted = self.wanted(rooms)
        batch = self.lanes.take_few(limit, lambda topic: rooms.get(topic, 99))
        if batch is None:
            assert len(wanted) > limit or all(many > limit for many in wanted.values())
            return
        assert not batch.more
        assert len(batch.entries) == sum(wanted[topic] for topic in batch.topics) <= limit, "all that may go of them"
        others = [many for topic, many in wanted.items() if topic not in batch.topics]
        if others and len(wanted) <= limit:
            assert min(others) >= max(wanted[topic] for topic in batch.topics), "the shortest"
            assert len(batch.entries) + min(others) > limit, "as many as there is room for"
        self.fly(batch, wanted)

    def fly(self, batch: Batch, wanted: dict[int, int]) -> None:
        self.flying.append(batch)
        had = Counter(entry % 8 for entry in batch.entries)
        assert set(had) == set(batch.topics)
        for topic in batch.topics:
            lane = sorted(self.waiting[topic])
            assert [one for one in batch.entries if one % 8 == topic] == [one for _, one in lane[: had[topic]]]
            self.waiting[topic] = lane[had[topic] :]
            assert had[topic] <= wanted[topic]
            if had[topic] < wanted[topic]:
                assert had[topic] >= max(had.values()) - 1, "who could have had more had as much as the others"

    @precondition(lambda self: self.flying)
    @rule(first=st.booleans())
    def over(self, first: bool) -> None:
        self.lanes.over(self.flying.pop(0 if first else -1))

    @rule(shards=st.sets(st.integers(0, 15)), until=st.integers(0, 60))
    def forget(self, shards: set[int], until: int) -> None:
        for _ in self.lanes.forget(shards, until):
            pass
        for topic, some in self.waiting.items():
            self.waiting[topic] = [(due, one) for due, one in some if due >= until or shard_of(one) not in shards]

    @invariant()
    def all_is_there(self) -> None:
        waiting = [timer for some in self.waiting.values() for timer in some]
        assert len(self.lanes) == len(waiting)
        assert bool(self.lanes) == bool(waiting or self.flying)
        busy = {topic for batch in self.flying for topic in batch.topics}
        assert self.lanes.free == any(some for topic, some in self.waiting.items() if topic not in busy)
        assert self.lanes.oldest() == min((due for due, _ in waiting), default=None)
        there = {entry for _, entry in waiting} | {entry for batch in self.flying for entry in batch.entries}
        timers = [*waiting, *((0, entry) for entry in range(-400, 400))]
        assert self.lanes.among(timers) == there
        assert self.lanes.among(waiting[:1]) == {entry for _, entry in waiting[:1]}

    def teardown(self) -> None:
        while self.flying:
            self.over(first=True)
        while self.lanes:
            self.take(7, {})
            self.over(first=True)
        assert not any(self.waiting.values())


@full
class TestLanes(LanesMachine.TestCase):  # type: ignore[misc,valid-type]  # hypothesis makes it when asked
    settings = settings(
        max_examples=examples(40, 200),
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


def lane(first: int, many: int) -> Columns:
    return Columns.of((first + one, first + one) for one in range(many))


def some(batch: Batch | None) -> Batch:
    assert batch is not None
    return batch


def test_a_crowd_s_share_keeps_none_of_the_few_waiting() -> None:
    lanes = DueLanes()
    lanes.put({1: lane(0, 20_000), 2: lane(20_000, 60), 3: lane(30_000, 30), 4: lane(40_000, 20)})
    batch = some(lanes.take_few(100))
    assert sorted(batch.topics) == [3, 4]
    lanes.over(batch)
    assert some(lanes.take_few(100)).topics == [2]


def test_one_between_few_and_many_has_its_turn_however_often_few_go() -> None:
    lanes = DueLanes()
    lanes.put({1: lane(0, 20_000), 2: lane(20_000, 200)})
    gone: set[int] = set()
    for number in range(3):
        lanes.put({3: lane(30_000 + number, 1)})
        for batch in (some(lanes.take_few(100)), some(lanes.take(500))):
            gone.update(batch.topics)
            lanes.over(batch)
    assert gone == {1, 2, 3}


def test_a_lane_that_is_always_appended_to_does_not_grow() -> None:
    """What was taken is let go of, though the lane is never empty."""
    lanes = DueLanes()
    for number in range(2_000):
        lanes.put({1: Columns.of((number * 100 + one, number * 100 + one) for one in range(100))})
        if number >= 10:
            batch = some(lanes.take(100))
            assert batch.entries[0] == (number - 10) * 100
            lanes.over(batch)
    assert len(lanes) == 1_000
    ((run,),) = [lane._runs for lane in lanes._lanes.values()]
    assert len(run.ids) < 3_000


def test_a_few_do_not_ride_with_the_many() -> None:
    """They are through before the many are; and neither waits for more than one batch of the others."""
    lanes = DueLanes()
    lanes.put({1: Columns.of((0, one) for one in range(5_000))})
    due = 0
    for _ in range(4):
        due += 1
        lanes.put({2: Columns.of([(due, 10_000 + due)])})
        batches = [some(lanes.take(1_000)), some(lanes.take(1_000))]
        assert sorted((batch.topics, len(batch.entries)) for batch in batches) == [([1], 1_000), ([2], 1)]
        for batch in batches:
            lanes.over(batch)
    taken: list[int] = []
    while lanes:
        due += 1
        if len(taken) < 6:
            lanes.put({2: Columns.of([(due, 10_000 + due)])})
        following = some(lanes.take(300))
        taken += following.topics
        lanes.over(following)
    assert taken[:6] in ([2, 1] * 3, [1, 2] * 3)


def test_many_lanes_take_turns() -> None:
    lanes = DueLanes()
    lanes.put({topic: Columns.of((1, topic * 10 + one) for one in range(3)) for topic in range(2_500)})
    turns = []
    for _ in range(8):
        batch = some(lanes.take(1_000))
        turns.append(set(batch.topics))
        lanes.over(batch)
    assert turns[0] | turns[1] | turns[2] == set(range(2_500))
    assert lanes.take(1_000) is None
