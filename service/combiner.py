"""Group commit: what waits is written together, by tasks of the service's own, and answered after its commit.

No linger: a batch is whatever came while the one before it was written. When the database refuses a batch for its data,
the batch is split, so that only the caller whose data it is sees the error.

Requests that need the same rows are of one lane, and lanes keep out of each other's way. Each has its turn in a batch,
however much waits in another. A batch that takes long keeps only its own lanes waiting: for the others there is another
writer. When one has waited in vain for a locked row, its lanes are set aside for a while. What is aside is written
without a wait for locked rows (`write_free`), and who finds his own locked for too long is told so; nothing of his has
been begun then.
"""

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

import trio
from attrs import define, field

from ..store.errors import Locked, Refused
from .errors import Busy, Overloaded

_WORTH_SHARING = 100
"""Requests of a batch at the least, when there are so many: each transaction costs a commit."""
_PATIENCE = 0.2
"""Seconds after which a batch counts as slow."""
_MOST = 6
"""Batches at a time, slow ones included."""
_ASIDE_FOR = 10.0
"""Seconds that a lane stays aside after it was last found locked."""
_FIRST_REST, _LONGEST_REST = 0.02, 0.25
"""Seconds from one look at a lane that is locked to the next, doubled each time."""
_LONGEST_WAIT = 3.0
"""Seconds that somebody waits, at every look of which his lane was locked, before he is told so."""
_ASIDE_SHARE = 4
"""What is aside may take up a fourth of the room for what waits."""
_HELD = "other transactions hold what this needs; try again in a moment"

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@define(eq=False)
class _Waiting(Generic[Request, Answer]):
    request: Request
    weight: int
    task: trio.lowlevel.Task | None
    """Who waits; None when nobody does any more. (An Event for each would cost a third of the whole.)"""
    answer: Answer | None = None
    error: Exception | None = None
    since: float = field(factory=trio.current_time)
    """When it came: trio's time."""

    async def wait(self) -> None:
        """Until `finish`."""
        await trio.lowlevel.wait_task_rescheduled(self._leave)

    def finish(self) -> None:
        """The answer, or the error, is there."""
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)

    def _leave(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


@define(eq=False)
class _Lane(Generic[Request, Answer]):
    """What needs the same rows, in the order in which it came. Kept while there is something to know of it."""

    key: Hashable
    waiting: deque[_Waiting[Request, Answer]] = field(factory=lambda: deque[_Waiting[Request, Answer]]())
    flying: int = 0
    """Batches that have something of it."""
    slow: int = 0
    """Those of them that take long: it waits for them."""
    aside_until: float | None = None
    """None: it is not aside."""
    locked_since: float | None = None
    """None: it was not at the last look."""
    rests_until: float = 0.0
    rest: float = _FIRST_REST


_Items = list[tuple[_Lane[Request, Answer], _Waiting[Request, Answer]]]


@define(eq=False)
class _Batch(Generic[Request, Answer]):
    items: _Items[Request, Answer]
    lanes: list[_Lane[Request, Answer]]
    began: float
    slow: bool = False


class Combiner(Generic[Request, Answer]):
    """`ask` from any task; `run` in one of the service's own.

    `lane` names what a request shares with others. `write_free` answers None for what needs a locked row; without it a
    batch that meets one is parted by lanes, and those of the lane that is locked are told so.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Request]], Awaitable[Sequence[Answer]]],
        *,
        write_free: Callable[[Sequence[Request]], Awaitable[Sequence[Answer | None]]] | None = None,
        lane: Callable[[Request], Hashable] = lambda _: None,
        weigh: Callable[[Request], int] = lambda _: 1,
        batch: int = 1000,
        waiting: int = 100_000,
        writers: int = 1,
    ) -> None:
        self._write = write
        self._write_free = write_free
        self._lane = lane
        self._weigh = weigh
        self._batch = batch
        """The weight at which a batch is full; one request may weigh more."""
        self._limit = waiting
        """The weight that may wait; past it a caller is told to come back."""
        self._writers = writers
        """Batches at a time, beside the slow ones."""
        self._longest_wait = _LONGEST_WAIT
        self._lanes: dict[Hashable, _Lane[Request, Answer]] = {}
        self._ready: OrderedDict[_Lane[Request, Answer], None] = OrderedDict()
        """Lanes with something to write, neither slow nor aside, in the order of their turns."""
        self._aside: dict[_Lane[Request, Answer], None] = {}
        """Lanes that are aside, whether something waits there or not."""
        self._flying: set[_Batch[Request, Answer]] = set()
        self._weight = self._weight_aside = 0
        self._count = self._count_ready = 0
        self._changed = trio.Event()
        self._changed_aside = trio.Event()
        self._writing_aside = False

    async def ask(self, request: Request) -> Answer:
        """Has the request written; its answer, or what went wrong raised. Cancelling the caller stops nothing."""
        weight = self._weigh(request)
        if self._weight and self._weight + weight > self._limit:
            raise Overloaded("too much is waiting to be written; try again in a moment")
        key = self._lane(request)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key)
        elif lane.locked_since is not None and (self._weight_aside + weight) * _ASIDE_SHARE > self._limit:
            raise Busy(_HELD)
        item: _Waiting[Request, Answer] = _Waiting(request, weight, trio.lowlevel.current_task())
        self._put(lane, item)
        await item.wait()
        if item.error is not None:
            raise item.error
        return item.answer  # type: ignore[return-value]  # set before `finish`

    async def run(self) -> None:
        """Writes batch after batch, for ever."""
        async with trio.open_nursery() as nursery:
            if self._write_free is not None:
                nursery.start_soon(self._run_aside)
            while True:
                self._changed = trio.Event()
                look_again = self._look_for_slow_ones()
                while self._ready and self._free > 0:
                    nursery.start_soon(self._write_batch, self._take())
                    look_again = min(look_again, trio.current_time() + _PATIENCE)
                with trio.move_on_at(look_again if self._ready else float("inf")):
                    await self._changed.wait()

    def hurry(self) -> None:
        """From now on nobody waits for what is locked."""
        self._longest_wait = 0.0
        self._changed_aside.set()

    @property
    def waiting(self) -> int:
        """Requests that are in no batch yet."""
        return self._count

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being written."""
        return not self._count and not self._flying and not self._writing_aside

    @property
    def _free(self) -> int:
        """How many batches may be begun."""
        quick = sum(not batch.slow for batch in self._flying)
        return min(self._writers - quick, max(_MOST, self._writers) - len(self._flying))

    def _put(self, lane: _Lane[Request, Answer], item: _Waiting[Request, Answer], *, back: bool = False) -> None:
        """It waits; `back`: it did so before, and comes first."""
        if back:
            lane.waiting.appendleft(item)
        else:
            lane.waiting.append(item)
        self._weight += item.weight
        self._count += 1
        if lane.aside_until is not None:
            self._weight_aside += item.weight
            self._changed_aside.set()
        elif not lane.slow:
            self._count_ready += 1
            self._ready.setdefault(lane)
            self._changed.set()

    def _pop(self, lane: _Lane[Request, Answer]) -> _Waiting[Request, Answer]:
        item = lane.waiting.popleft()
        self._weight -= item.weight
        self._count -= 1
        if lane.aside_until is not None:
            self._weight_aside -= item.weight
        elif not lane.slow:
            self._count_ready -= 1
        return item

    def _block(self, lane: _Lane[Request, Answer]) -> None:
        """Call it before the lane becomes slow or goes aside: nothing more of it is taken."""
        if lane.aside_until is None and not lane.slow:
            self._ready.pop(lane, None)
            self._count_ready -= len(lane.waiting)

    def _unblock(self, lane: _Lane[Request, Answer]) -> None:
        """Call it after it was slow or aside."""
        if lane.aside_until is not None or lane.slow:
            return
        if lane.waiting:
            self._count_ready += len(lane.waiting)
            self._ready.setdefault(lane)
            self._changed.set()
        else:
            self._forget(lane)

    def _forget(self, lane: _Lane[Request, Answer]) -> None:
        if not (lane.waiting or lane.flying) and lane.aside_until is None:
            self._lanes.pop(lane.key, None)

    def _take(self) -> _Batch[Request, Answer]:
        # With another writer at rest it is shared, so that one batch is made ready while the other is being written.
        many = max(_WORTH_SHARING, -(-self._count_ready // self._free))
        items: _Items[Request, Answer] = []
        weight = 0
        while self._ready and len(items) < many:
            lane = next(iter(self._ready))
            if items and weight + lane.waiting[0].weight > self._batch:
                break
            item = self._pop(lane)
            weight += item.weight
            items.append((lane, item))
            if lane.waiting:
                self._ready.move_to_end(lane)
            else:
                del self._ready[lane]
        batch = _Batch(items, _lanes(items), trio.current_time())
        for lane in batch.lanes:
            lane.flying += 1
        self._flying.add(batch)
        return batch

    def _look_for_slow_ones(self) -> float:
        """The lanes of batches that take long wait for them; when the next one takes long, by trio's time."""
        now, next_one = trio.current_time(), float("inf")
        for batch in self._flying:
            if batch.slow:
                continue
            if now < batch.began + _PATIENCE:
                next_one = min(next_one, batch.began + _PATIENCE)
                continue
            batch.slow = True
            for lane in batch.lanes:
                self._block(lane)
                lane.slow += 1
        return next_one

    async def _write_batch(self, batch: _Batch[Request, Answer]) -> None:
        try:
            await self._write_or_part(batch.items)
        finally:
            self._flying.discard(batch)
            for lane in batch.lanes:
                lane.flying -= 1
                if batch.slow:
                    lane.slow -= 1
                    self._unblock(lane)
                else:
                    self._forget(lane)
            self._changed.set()

    async def _write_or_part(self, items: _Items[Request, Answer]) -> None:
        try:
            answers = await self._write([item.request for _, item in items])
        except Locked as error:
            if self._write_free is not None:
                self._put_aside(items)
            elif len(lanes := _lanes(items)) > 1:
                half = set(lanes[: len(lanes) // 2])
                await self._write_or_part([(lane, item) for lane, item in items if lane in half])
                await self._write_or_part([(lane, item) for lane, item in items if lane not in half])
            else:
                _finish(items, error)
        except Refused as error:
            if len(items) > 1:
                middle = len(items) // 2
                await self._write_or_part(items[:middle])
                await self._write_or_part(items[middle:])
            else:
                _finish(items, error)
        except Exception as error:
            _finish(items, error)
        else:
            for (_, item), answer in zip(items, answers, strict=True):
                item.answer = answer
                item.finish()

    # What is aside

    def _put_aside(self, items: _Items[Request, Answer]) -> None:
        """One of these lanes is locked, and nobody knows which."""
        now = trio.current_time()
        for lane in _lanes(items):
            if lane.aside_until is None:
                self._block(lane)
                self._weight_aside += sum(item.weight for item in lane.waiting)
                self._aside[lane] = None
                lane.locked_since, lane.rest, lane.rests_until = None, _FIRST_REST, now
            lane.aside_until = now + _ASIDE_FOR
        for lane, item in reversed(items):
            self._put(lane, item, back=True)

    async def _run_aside(self) -> None:
        while True:
            self._changed_aside = trio.Event()
            now = trio.current_time()
            self._readmit(now)
            if items := self._take_aside(now):
                self._writing_aside = True
                try:
                    await self._write_aside(items)
                finally:
                    self._writing_aside = False
            else:
                with trio.move_on_at(self._next_look(now)):
                    await self._changed_aside.wait()

    def _readmit(self, now: float) -> None:
        """Lanes that have been free for a while are aside no more."""
        for lane in list(self._aside):
            if lane.aside_until is not None and lane.aside_until <= now:
                del self._aside[lane]
                self._weight_aside -= sum(item.weight for item in lane.waiting)
                lane.aside_until = None
                self._unblock(lane)

    def _next_look(self, now: float) -> float:
        """When something is to be done, if nothing comes before: trio's time."""
        looks = [lane.rests_until for lane in self._aside if lane.rests_until > now]
        ends = [lane.aside_until for lane in self._aside if lane.aside_until is not None]
        return min([*looks, *ends], default=float("inf"))

    def _take_aside(self, now: float) -> _Items[Request, Answer]:
        turns = deque(lane for lane in self._aside if lane.waiting and lane.rests_until <= now)
        items: _Items[Request, Answer] = []
        weight = 0
        while turns:
            lane = turns.popleft()
            if items and weight + lane.waiting[0].weight > self._batch:
                break
            item = self._pop(lane)
            weight += item.weight
            items.append((lane, item))
            self._aside[lane] = self._aside.pop(lane)  # the others come first next time
            if lane.waiting:
                turns.append(lane)
        return items

    async def _write_aside(self, items: _Items[Request, Answer]) -> None:
        lanes = _lanes(items)
        try:
            answers = await self._write_free([item.request for _, item in items])  # type: ignore[misc]  # there is one
        except (Locked, Refused) as error:
            if len(lanes) > 1:
                half = set(lanes[: len(lanes) // 2])
                await self._write_aside([(lane, item) for lane, item in items if lane in half])
                await self._write_aside([(lane, item) for lane, item in items if lane not in half])
            elif isinstance(error, Locked):  # something else than what `write_free` looks at
                self._note(lanes[0], locked=True)
                _finish(items, Busy(_HELD))
            elif len(items) > 1:
                await self._write_aside(items[: len(items) // 2])
                await self._write_aside(items[len(items) // 2 :])
            else:
                _finish(items, error)
        except Exception as error:
            _finish(items, error)
        else:
            left = [pair for pair, answer in zip(items, answers, strict=True) if answer is None]
            locked = set(_lanes(left))
            for lane in lanes:
                self._note(lane, locked=lane in locked)
            for lane, item in reversed(left):
                self._put(lane, item, back=True)
            for lane in locked:
                self._send_away(lane)
            for (_, item), answer in zip(items, answers, strict=True):
                if answer is not None:
                    item.answer = answer
                    item.finish()

    def _note(self, lane: _Lane[Request, Answer], *, locked: bool) -> None:
        if not locked:
            lane.locked_since, lane.rest = None, _FIRST_REST
            return
        now = trio.current_time()
        lane.locked_since = now if lane.locked_since is None else lane.locked_since
        lane.rest = min(2 * lane.rest, _LONGEST_REST)
        lane.rests_until = now + lane.rest
        lane.aside_until = now + _ASIDE_FOR

    def _send_away(self, lane: _Lane[Request, Answer]) -> None:
        """The lane was found locked: who has waited for it long enough is told so."""
        now = trio.current_time()
        since = now if lane.locked_since is None else lane.locked_since
        while lane.waiting and now - max(since, lane.waiting[0].since) >= self._longest_wait:
            _finish([(lane, self._pop(lane))], Busy(_HELD))


def _lanes(items: _Items[Request, Answer]) -> list[_Lane[Request, Answer]]:
    """Each of their lanes once."""
    return list(dict.fromkeys(lane for lane, _ in items))


def _finish(items: _Items[Request, Answer], error: Exception) -> None:
    for _, item in items:
        item.error = error
        item.finish()
