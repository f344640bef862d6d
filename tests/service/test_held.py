"""What is due for a queue that is locked waits by itself, in order, and keeps nothing for other queues waiting."""

from collections.abc import Mapping, Sequence

import trio
import trio.testing

from tarry.service.held import Held
from tarry.store.errors import Locked, Unavailable
from tarry.store.records import Promoted

LOCK_WAIT = 1.0


class Stream:
    """Queues, some of which are locked; an entry is queue * 1000 and a number."""

    def __init__(self) -> None:
        self.locked: set[int] = set()
        self.away = False
        self.streamed: list[int] = []
        self.told: list[int] = []
        self.waits = 0
        self.in_line = self.most_in_line = 0
        self.held = Held(self.promote, self.promote_free, self.tell)

    async def promote(self, entries: Sequence[int]) -> list[Promoted]:
        (queue_id,) = {entry // 1000 for entry in entries}
        if self.away:
            raise Unavailable("away")
        self.in_line += 1
        self.most_in_line = max(self.most_in_line, self.in_line)
        try:
            if queue_id in self.locked:
                self.waits += 1
                await trio.sleep(LOCK_WAIT)
                raise Locked("somebody holds it")
            await trio.sleep(0.01)
        finally:
            self.in_line -= 1
        self.streamed += entries
        return [Promoted(entry, queue_id, 0) for entry in entries]

    async def promote_free(self, entries: Sequence[int]) -> tuple[list[Promoted], Mapping[int, list[int]]]:
        await trio.sleep(0.01)
        if self.away:
            raise Unavailable("away")
        held: dict[int, list[int]] = {}
        for entry in entries:
            if entry // 1000 in self.locked:
                held.setdefault(entry // 1000, []).append(entry)
            else:
                self.streamed.append(entry)
        return [Promoted(entry, entry // 1000, 0) for entry in entries if entry // 1000 not in self.locked], held

    def tell(self, promoted: Sequence[Promoted]) -> None:
        self.told += [one.entry for one in promoted]


async def test_a_busy_queue_is_stood_in_line_for(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    stream = Stream()
    nursery.start_soon(stream.held.run)
    stream.held.put({1: [1001, 1002]})
    assert 1001 in stream.held
    assert set(stream.held.queues) == {1}
    await trio.sleep(0.1)
    assert stream.streamed == stream.told == [1001, 1002]
    assert not stream.held.queues
    assert 1001 not in stream.held


async def test_a_locked_queue_keeps_no_other_waiting_and_goes_in_order_when_it_is_free(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stream = Stream()
    stream.locked = {1}
    nursery.start_soon(stream.held.run)
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


async def test_a_thousand_locked_queues_take_two_connections(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stream = Stream()
    stream.locked = set(range(1, 1001))
    nursery.start_soon(stream.held.run)
    stream.held.put({queue_id: [queue_id * 1000] for queue_id in stream.locked})
    await trio.sleep(600)
    assert stream.most_in_line == 2
    assert stream.waits == 1000
    stream.locked.clear()
    await trio.sleep(5)
    assert sorted(stream.told) == [queue_id * 1000 for queue_id in range(1, 1001)]


async def test_what_is_put_twice_goes_once_and_a_store_that_is_away_is_waited_for(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stream = Stream()
    stream.away = True
    nursery.start_soon(stream.held.run)
    stream.held.put({1: [1001, 1002]})
    stream.held.put({1: [1002, 1003]})
    await trio.sleep(3)
    assert stream.told == []
    stream.away = False
    await trio.sleep(2)
    assert stream.told == [1001, 1002, 1003]
