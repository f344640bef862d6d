"""What is due for a queue that is locked waits by itself, in order, and keeps nothing for other queues waiting."""

from collections.abc import Mapping, Sequence
from typing import cast

import pytest
import structlog
import trio
import trio.testing

from support.effort import full, tries
from support.simulated import on_simulated_time
from tarry.service.clock import Clock
from tarry.service.engine.dispatch import held as held_module
from tarry.service.engine.dispatch.held import Held
from tarry.service.engine.dispatch.promotion import Promotion
from tarry.service.engine.dispatch.unblocking import Unblocking
from tarry.service.engine.signals import Signals
from tarry.store.errors import Locked, Unavailable
from tarry.store.records import Promoted

pytestmark = on_simulated_time

LOCK_WAIT = 1.0


def topic_of(queue_id: int) -> int:
    return queue_id // 100


class Stream:
    """Queues, some of which are locked; an entry is queue * 1000 and a number."""

    def __init__(self) -> None:
        self.locked: set[int] = set()
        self.gaps: set[int] = set()
        """Where nothing can be inserted. Nobody can look whether that is so: it is waited for."""
        self.slow: set[int] = set()
        self.doubted = False
        self.away = False
        self.passed_over: set[int] = set()
        """Somebody has them locked, and a promotion leaves them alone."""
        self.went: list[int] = []
        self.told: list[int] = []
        self.waits = 0
        self.in_line = self.most_in_line = 0
        self.held = Held()
        self.unblocking = Unblocking(self.held, cast(Promotion, self), cast(Signals, self), cast(Clock, self))

    @property
    def in_doubt(self) -> bool:
        return self.doubted

    def topic_of(self, queue_id: int) -> int:
        return topic_of(queue_id)

    async def promote_waiting(self, entries: Sequence[int]) -> list[Promoted]:
        (queue_id,) = {entry // 1000 for entry in entries}
        if self.away:
            raise Unavailable("away")
        self.in_line += 1
        self.most_in_line = max(self.most_in_line, self.in_line)
        try:
            if queue_id in self.locked | self.gaps:
                self.waits += 1
                await trio.sleep(LOCK_WAIT)
                raise Locked("somebody holds it")
            entries = [entry for entry in entries if entry not in self.passed_over]
            await trio.sleep(0.01)
        finally:
            self.in_line -= 1
        self.went += entries
        return [Promoted(entry, queue_id, 0) for entry in entries]

    async def promote_free(self, entries: Sequence[int]) -> tuple[list[Promoted], Mapping[int, list[int]]]:
        await trio.sleep(0.7 if self.slow & {entry // 1000 for entry in entries} else 0.01)
        if self.away:
            raise Unavailable("away")
        if self.gaps & ({entry // 1000 for entry in entries} - self.locked):
            await trio.sleep(LOCK_WAIT)
            raise Locked("somebody holds the gap")
        held: dict[int, list[int]] = {}
        for entry in entries:
            if entry // 1000 in self.locked:
                held.setdefault(entry // 1000, []).append(entry)
            else:
                self.went.append(entry)
        return [Promoted(entry, entry // 1000, 0) for entry in entries if entry // 1000 not in held], held

    def streamed(self, promoted: Sequence[Promoted]) -> None:
        self.told += [one.entry for one in promoted]


@pytest.fixture
def stream(nursery: trio.Nursery) -> Stream:
    stream = Stream()
    nursery.start_soon(stream.unblocking.run)
    return stream


async def test_a_busy_queue_is_stood_in_line_for(stream: Stream) -> None:
    stream.held.put({1: [1001, 1002]})
    assert 1001 in stream.held
    assert set(stream.held.queues) == {1}
    await trio.sleep(0.1)
    assert stream.went == stream.told == [1001, 1002]
    assert not stream.held.queues
    assert 1001 not in stream.held


async def test_a_locked_queue_keeps_no_other_waiting_and_goes_in_order_when_it_is_free(stream: Stream) -> None:
    stream.locked = {1}
    stream.held.put({1: [1000 + number for number in range(600)]})
    for number in range(20):
        stream.held.put({2: [2000 + number], 1: [1600 + number]})
        await trio.sleep(0.3)
    assert stream.told == [2000 + number for number in range(20)]
    assert stream.waits == 1, "a queue known to be stuck is not stood in line for again"
    stream.locked.clear()
    await trio.sleep(1)
    assert stream.told[20:] == [1000 + number for number in range(620)]
    assert len(stream.held) == 0


@pytest.mark.slow
@full
async def test_very_many_locked_queues_take_two_connections(stream: Stream) -> None:
    many = tries(250, 1000)
    stream.locked = set(range(1, many + 1))
    stream.held.put({queue_id: [queue_id * 1000] for queue_id in stream.locked})
    await trio.sleep(many * LOCK_WAIT / 2 + 100)
    assert stream.most_in_line == 2
    assert stream.waits == many
    stream.locked.clear()
    await trio.sleep(5)
    assert sorted(stream.told) == [queue_id * 1000 for queue_id in range(1, many + 1)]


async def test_a_gap_that_somebody_holds_keeps_no_other_queue_waiting(stream: Stream) -> None:
    """It is met by one that stands in line, then by itself; never together with the others."""
    stream.gaps = {1, 2, 3}
    stream.locked = {201, 202}
    stream.held.put({queue_id: [queue_id * 1000] for queue_id in (1, 2, 3, 201, 202, 301, 302)})
    await trio.sleep(2 * LOCK_WAIT + 0.1)
    assert sorted(stream.told) == [301_000, 302_000]
    for number in range(1, 20):
        stream.held.put({1: [1000 + number], 301: [301_000 + number]})
        await trio.sleep(0.3)
        assert stream.told[-1] == 301_000 + number
    stream.locked.clear()
    await trio.sleep(0.3)
    assert sorted(stream.told[-2:]) == [201_000, 202_000]
    stream.gaps.clear()
    await trio.sleep(1.5)
    assert [entry for entry in stream.told if entry < 2000] == [1000 + number for number in range(20)]
    assert len(stream.held) == 0


async def test_a_busy_queue_is_not_behind_many_that_are_locked(stream: Stream) -> None:
    """All queues of a topic are locked, and stood in line for: those of other topics come first."""
    stream.locked = set(range(1, 65))
    stream.held.put({queue_id: [queue_id * 1000] for queue_id in [*stream.locked, 100]})
    await trio.sleep(LOCK_WAIT + 0.1)
    assert stream.told == [100_000]
    for number in range(1, 10):
        stream.held.put({100: [100_000 + number]})
        await trio.sleep(LOCK_WAIT + 0.1)
        assert stream.told[-1] == 100_000 + number


async def test_suspects_are_parted_from_the_queue_that_is_slow(stream: Stream) -> None:
    stream.slow = {1}
    queues = range(1, 21)
    stream.held.note(queues, 20, 0.7)
    assert stream.held.queues == set(queues)
    for number in range(20):
        stream.held.put({queue_id: [queue_id * 1000 + number] for queue_id in stream.held.queues})
        await trio.sleep(0.5)
    assert stream.held.queues == {1}, "what is for the others goes by itself again"
    for queue_id in queues:
        mine = [entry for entry in stream.told if entry // 1000 == queue_id]
        assert mine == [queue_id * 1000 + number for number in range(len(mine))]
        assert len(mine) > 0
        assert queue_id == 1 or len(mine) < 10, "it was a suspect for long"
    stream.slow.clear()
    stream.held.put({1: [1020]})
    await trio.sleep(2)
    assert stream.held.queues == set()
    assert [entry for entry in stream.told if entry // 1000 == 1] == [1000 + number for number in range(21)]


async def test_when_all_are_slow_suspects_go_on_together(stream: Stream) -> None:
    stream.slow = set(range(1, 101))
    stream.held.note(stream.slow, 100, 0.7)
    for number in range(10):
        stream.held.put({queue_id: [queue_id * 1000 + number] for queue_id in stream.slow})
        await trio.sleep(1)
    await trio.sleep(2)
    assert len(stream.told) == 1000
    assert stream.held.queues == stream.slow


async def test_few_suspects_are_kept_in_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_module, "_SUSPECTS", 3)
    held = Stream().held
    held.note([1, 2], 2, 0.7)
    held.note([3, 4, 1], 3, 0.7)
    assert held.queues == {3, 4, 1}
    held.note([1], 1000, 0.7)
    assert held.queues == {3, 4}


async def test_a_lock_has_a_line_in_the_log_when_it_is_met_and_one_when_it_is_over(stream: Stream) -> None:
    stream.locked, stream.gaps = {1}, {2}
    stream.held.put({queue_id: [queue_id * 1000] for queue_id in (1, 2, 3)})
    with structlog.testing.capture_logs() as lines:
        await trio.sleep(60)
        assert sorted((line["event"], line["queue_id"]) for line in lines) == [("queue_locked", 1), ("queue_locked", 2)]
        lines.clear()
        stream.locked.clear()
        stream.gaps.clear()
        await trio.sleep(2)
    assert sorted((line["event"], line["queue_id"]) for line in lines) == [("queue_free", 1), ("queue_free", 2)]
    assert {line["seconds"] > 55 for line in lines} == {True}


async def test_nothing_is_promoted_while_time_is_in_doubt(stream: Stream) -> None:
    stream.locked = {1, 2, 3}
    stream.held.put({1: [1000], 2: [2000], 3: [3000]})
    await trio.sleep(5)
    stream.held.put({4: [4000]})
    stream.doubted = True
    stream.locked.clear()
    await trio.sleep(60)
    assert stream.told == []
    stream.doubted = False
    await trio.sleep(1)
    assert sorted(stream.told) == [1000, 2000, 3000, 4000]


async def test_what_is_put_twice_goes_once_and_a_store_that_is_away_is_waited_for(stream: Stream) -> None:
    stream.away = True
    stream.held.put({1: [1001, 1002]})
    stream.held.put({1: [1002, 1003]})
    await trio.sleep(3)
    assert stream.told == []
    stream.away = False
    await trio.sleep(2)
    assert stream.told == [1001, 1002, 1003]


async def test_what_is_put_again_while_it_is_passed_over_is_tried_again(stream: Stream) -> None:
    """The hand has met it a second time, and locked it for a look, just when it was to go from here."""
    stream.held.put({1: [1001, 1002]})
    stream.passed_over = {1001}
    await trio.sleep(0.005)
    stream.held.put({1: [1001]})
    stream.passed_over = set()
    await stream.held.emptied()
    assert stream.told == [1002, 1001]
    assert 1001 not in stream.held
