"""Group commit: waiting requests are written together by the service's own tasks, and answered after the commit.

No linger: a batch is what came while the one before it was written, or with `halves` a part of it. Only where `linger`
says so does it wait a moment for the callers that were just answered. When the database refuses a batch for its data,
the batch is split, so that only the caller whose data it is sees the error.

Requests that need the same rows are in one lane, and lanes do not hold each other up. Each lane has its turn in a
batch, however much waits in another. A slow batch keeps only its own lanes waiting: the others get another writer. The
lanes of a slow batch become suspects: they share no batch with other lanes, and a batch takes half of them at most,
until they are separated from the lane that caused the delay. (If the database caused it, that costs a few batches
more.)

When a batch has waited in vain for a locked row, its lanes are set aside for a while. Requests of lanes that are aside
are written without a wait for locked rows (`write_free`); a caller whose lane stays locked gets `Busy`, and nothing of
the request has been begun. Some locks `write_free` cannot see, such as one on a gap that it inserts into: the lanes of
a batch that has met one are tried one by one, beside the others, until they get through.

The file is long because active lanes and lanes that are aside share one set of counts, which must add up.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from itertools import islice
from math import inf
from typing import Generic

import trio

from ....store.errors import Locked, is_of_one
from ...errors import Busy, Overloaded
from .lanes import ASIDE_FOR, Answer, Batch, Items, Lane, PendingRequest, Request, lanes_of, refuse

_WORTH_SHARING = 100
"""The least share of the waiting requests that a batch takes, if there are so many: each transaction costs a commit."""
_PATIENCE = 0.2
"""Seconds after which a batch counts as slow."""
_MOST = 6
"""Batches at a time, slow ones included."""
_MOST_SUSPECT = 3
"""Batches of suspects among them, at most."""
_REMEMBERED = 1000
"""Suspects that are remembered while none of their requests wait."""
_ALONE = 2
"""Lanes that are tried alone at a time."""
_LONGEST_WAIT = 3.0
"""Seconds that a caller waits before it gets `Busy`, if every look finds its lane locked."""
_ASIDE_SHARE = 4
"""Requests that are aside may take up a fourth of the room for what waits."""
_LINGER, _LONGEST_LINGER = 1 / 8, 0.005
"""How long waiting requests linger for the callers that a batch has answered: a part of the time that the batch took,
and seconds at most."""
_HELD = "other transactions hold what this needs; try again in a moment"


class Combiner(Generic[Request, Answer]):
    """`ask` from any task; `run` in one of the service's own.

    `lane` names what a request shares with others. `write_free` answers None for a request that needs a locked row;
    without it a batch that meets one is split by lanes, and the requests of the locked lane get the error.
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
        writers: Callable[[], int] = lambda: 1,
        halves: bool = False,
        linger: Callable[[], bool] = lambda: False,
    ) -> None:
        self._write = write
        self._write_free = write_free
        self._lane = lane
        self._weigh = weigh
        self._batch = batch
        """The weight at which a batch is full; one request may weigh more."""
        self._limit = waiting
        """The weight that may wait; past it a caller gets `Overloaded`."""
        self._writers = writers
        """Batches at a time, slow ones not counted; it may change."""
        self._halves = halves
        """A batch takes half of (what waits + the last batch): callers that were answered ask again while the other
        half is written. Otherwise all of them come at once, after a batch of one, and the database is idle while they
        are read."""
        self._lingers = linger
        """Whether other nodes stand in line for the same rows. Then requests that wait when a batch is over wait a
        little longer for the callers that it has answered. Otherwise each batch has half of the callers, and twice as
        many batches stand in line."""
        self._last = 0
        """Requests of the last batch."""
        self._longest_wait = _LONGEST_WAIT
        self._lanes: dict[Hashable, Lane[Request, Answer]] = {}
        self._ready: OrderedDict[Lane[Request, Answer], None] = OrderedDict()
        """Lanes with something to write that are neither slow nor aside nor suspect, in the order of their turns."""
        self._suspects: dict[Lane[Request, Answer], None] = {}
        """Suspects with something to write that are neither slow nor aside, and have nothing in a batch."""
        self._suspects_next = False
        self._remembered: dict[Lane[Request, Answer], None] = {}
        """Suspects that have nothing to write."""
        self._aside: dict[Lane[Request, Answer], None] = {}
        """Lanes that are aside, whether something waits in them or not."""
        self._flying: set[Batch[Request, Answer]] = set()
        self._quick = 0
        """How many of the flying batches are not slow, or not yet."""
        self._begun = trio.Event()
        self._at_rest = trio.lowlevel.ParkingLot()
        """Writers with nothing to do; `_waking`: one of them has been woken."""
        self._waking = False
        self._weight = self._weight_aside = 0
        self._count = self._count_ready = 0
        self._changed_aside = trio.Event()

    async def ask(self, request: Request) -> Answer:
        """Has the request written; returns its answer or raises its error. Cancelling the caller stops nothing."""
        weight = self._weigh(request)
        if self._weight and self._weight + weight > self._limit:
            raise Overloaded("too much is waiting to be written; try again in a moment")
        key = self._lane(request)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
        elif lane.locked_since is not None and (self._weight_aside + weight) * _ASIDE_SHARE > self._limit:
            raise Busy(_HELD)
        item = PendingRequest(lane, request, weight, trio.lowlevel.current_task())
        if lane.aside_until is not None:
            item.since = trio.current_time()
        self._put(item)
        await item.wait()
        if item.error is not None:
            raise item.error
        return item.answer  # type: ignore[return-value]  # set before `finish`

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            if self._write_free is not None:
                nursery.start_soon(self._run_aside)
            for _ in range(_MOST):
                nursery.start_soon(self._write_batches)
            await self._look_for_slow_ones()

    def hurry(self) -> None:
        """From now on nobody waits for locked rows."""
        self._longest_wait = 0.0
        self._changed_aside.set()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being written."""
        return not (self._count or self._flying or any(lane.trying for lane in self._aside))

    @property
    def _free(self) -> int:
        return min(self._writers() - self._quick, _MOST - len(self._flying))

    def _wake(self) -> None:
        """Wakes a writer at rest, since there may be a batch to begin."""
        if not self._waking and self._at_rest:
            self._waking = True
            self._at_rest.unpark()

    def _put(self, item: PendingRequest[Request, Answer], *, back: bool = False) -> None:
        """Lets the request wait; `back`: it waited before, and comes first."""
        lane = item.lane
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
            if lane not in self._ready:
                self._offer(lane)

    def _offer(self, lane: Lane[Request, Answer]) -> None:
        """Makes the lane available for a batch."""
        if not lane.suspect:
            self._ready[lane] = None
        elif not lane.flying:
            self._remembered.pop(lane, None)
            self._suspects.setdefault(lane)
        self._wake()

    def _pop(self, lane: Lane[Request, Answer]) -> PendingRequest[Request, Answer]:
        item = lane.waiting.popleft()
        self._weight -= item.weight
        self._count -= 1
        if lane.aside_until is not None:
            self._weight_aside -= item.weight
        elif not lane.slow:
            self._count_ready -= 1
        return item

    def _block(self, lane: Lane[Request, Answer]) -> None:
        """Takes nothing more of the lane. Call it before the lane becomes slow or goes aside."""
        if lane.aside_until is None and not lane.slow:
            self._ready.pop(lane, None)
            self._suspects.pop(lane, None)
            self._count_ready -= len(lane.waiting)

    def _unblock(self, lane: Lane[Request, Answer]) -> None:
        """Lets the lane go on. Call it after the lane was slow or aside."""
        if lane.aside_until is not None or lane.slow:
            return
        if lane.waiting:
            self._count_ready += len(lane.waiting)
            self._offer(lane)
        else:
            self._forget(lane)

    def _forget(self, lane: Lane[Request, Answer]) -> None:
        if lane.waiting or lane.flying or lane.aside_until is not None:
            return
        if lane.suspect:
            self._remembered[lane] = None
            if len(self._remembered) <= _REMEMBERED:
                return
            lane = next(iter(self._remembered))
            del self._remembered[lane]
        self._lanes.pop(lane.key, None)

    def _take(self) -> Batch[Request, Answer] | None:
        """The next batch, if one may be begun."""
        free = self._free
        if free <= 0:
            return None
        suspect = bool(self._suspects) and (self._suspects_next or not self._ready)
        if suspect and sum(batch.suspect for batch in self._flying) < _MOST_SUSPECT:
            items = self._take_suspects()
        elif self._ready:
            suspect, items = False, self._take_ready(free)
        else:
            return None
        self._suspects_next = not suspect
        batch = Batch(items, lanes_of(items), trio.current_time(), suspect)
        for lane in batch.lanes:
            lane.flying += 1
        self._flying.add(batch)
        self._quick += 1
        self._begun.set()
        if (self._ready or self._suspects) and free > 1:
            self._wake()
        return batch

    def _take_suspects(self) -> Items[Request, Answer]:
        lanes = list(islice(self._suspects, (len(self._suspects) + 1) // 2))
        for lane in lanes:
            del self._suspects[lane]
        items = self._take_turns(OrderedDict.fromkeys(lanes))
        for lane in set(lanes).difference(item.lane for item in items):
            self._suspects[lane] = None  # there was no room
        return items

    def _take_ready(self, free: int) -> Items[Request, Answer]:
        # With another writer at rest, what waits is shared: one batch is prepared while the other is being written.
        many = max(_WORTH_SHARING, -(-self._count_ready // free))
        if self._halves:
            many = max(_WORTH_SHARING, -(-(self._count_ready + self._last) // 2))
        items = self._take_turns(self._ready, many)
        self._last = len(items)
        return items

    def _take_turns(self, turns: OrderedDict[Lane[Request, Answer], None], many: float = inf) -> Items[Request, Answer]:
        """One request of each lane in turn, until the batch is full. A lane that has more stays in `turns`, the next
        one first."""
        items: Items[Request, Answer] = []
        weight = 0
        while turns and len(items) < many:
            lane = next(iter(turns))
            if items and weight + lane.waiting[0].weight > self._batch:
                break
            item = self._pop(lane)
            weight += item.weight
            items.append(item)
            if not lane.waiting:
                del turns[lane]
            elif len(turns) > 1:
                turns.move_to_end(lane)
        return items

    async def _look_for_slow_ones(self) -> None:
        """Marks batches that take long as slow: their lanes wait for them, and the others get another writer."""
        while True:
            self._begun = trio.Event()
            if self._quick:
                await trio.sleep_until(min(batch.began for batch in self._flying if not batch.slow) + _PATIENCE)
            else:
                await self._begun.wait()
            now = trio.current_time()
            for batch in self._flying:
                if not batch.slow and batch.began + _PATIENCE <= now:
                    batch.slow = True
                    self._quick -= 1
                    for lane in batch.lanes:
                        self._block(lane)
                        lane.slow += 1
            self._wake()

    async def _write_batches(self) -> None:
        while True:
            while (batch := self._take()) is None:
                await self._at_rest.park()
                self._waking = False
            try:
                await self._write_or_part(batch.items)
                await self._linger(batch)
            finally:
                self._flying.discard(batch)
                self._quick -= not batch.slow
                for lane in batch.lanes:
                    lane.flying -= 1
                    if batch.slow:
                        lane.slow -= 1
                        lane.suspect = True
                        self._unblock(lane)
                    elif lane.suspect:
                        lane.suspect = not batch.suspect
                        if lane.waiting and lane.aside_until is None and not lane.slow:
                            self._offer(lane)
                        else:
                            self._forget(lane)
                    else:
                        self._forget(lane)

    async def _linger(self, batch: Batch[Request, Answer]) -> None:
        """Waits behind a batch, which counts as being written meanwhile. A lone caller does not wait."""
        if self._count_ready and not batch.slow and self._lingers():
            took = trio.current_time() - batch.began
            await trio.sleep(min(took * _LINGER, _LONGEST_LINGER))

    async def _write_or_part(self, items: Items[Request, Answer]) -> None:
        try:
            answers = await self._write([item.request for item in items])
        except Locked as error:
            if self._write_free is not None:
                self._put_aside(items)
            elif len(lanes := lanes_of(items)) > 1:
                half = set(lanes[: len(lanes) // 2])
                await self._write_or_part([item for item in items if item.lane in half])
                await self._write_or_part([item for item in items if item.lane not in half])
            else:
                refuse(items, error)
        except Exception as error:
            await _by_halves(items, error, self._write_or_part)
        else:
            for item, answer in zip(items, answers, strict=True):
                item.answer = answer
                item.finish()

    # Lanes that are aside

    def _put_aside(self, items: Items[Request, Answer]) -> None:
        """Sets these lanes aside: one of them is locked, and it is not known which."""
        now = trio.current_time()
        for lane in lanes_of(items):
            if lane.aside_until is None:
                self._block(lane)
                self._weight_aside += lane.weight
                self._aside[lane] = None
                lane.found_free()
                lane.rests_until, lane.alone = now, False
            lane.aside_until = now + ASIDE_FOR
        self._put_all_back(items)

    async def _run_aside(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                self._changed_aside = trio.Event()
                now = trio.current_time()
                self._readmit(now)
                while items := self._take_aside(now):
                    nursery.start_soon(self._try_aside, items)
                with trio.move_on_at(self._next_look(now)):
                    await self._changed_aside.wait()

    def _readmit(self, now: float) -> None:
        """Readmits lanes that have been free for a while."""
        for lane in list(self._aside):
            if lane.aside_until is not None and lane.aside_until <= now and not lane.trying:
                del self._aside[lane]
                self._weight_aside -= lane.weight
                lane.aside_until = None
                self._unblock(lane)

    def _next_look(self, now: float) -> float:
        """When to look again if nothing changes before: trio's time."""
        idle = [lane for lane in self._aside if not lane.trying]
        looks = [lane.rests_until for lane in idle if lane.rests_until > now]
        ends = [lane.aside_until for lane in idle if lane.aside_until is not None]
        return min([*looks, *ends], default=inf)

    def _take_aside(self, now: float) -> Items[Request, Answer]:
        """Requests to be written together, one batch at a time; or those of a lane that is tried alone."""
        ready = [lane for lane in self._aside if lane.waiting and not lane.trying and lane.rests_until <= now]
        trying = [lane for lane in self._aside if lane.trying]
        together = [lane for lane in ready if not lane.alone]
        if together and all(lane.alone for lane in trying):
            lanes = together
        elif sum(lane.alone for lane in trying) < _ALONE:
            # First the lanes that are not known to be the locked ones.
            lanes = sorted([lane for lane in ready if lane.alone], key=lambda lane: lane.locked_since is not None)[:1]
        else:
            return []
        items = self._take_turns(OrderedDict.fromkeys(lanes))
        for lane in lanes_of(items):
            lane.trying = True
            self._aside[lane] = self._aside.pop(lane)  # the others come first next time
        return items

    async def _try_aside(self, items: Items[Request, Answer]) -> None:
        try:
            await self._write_aside(items)
        finally:
            for lane in lanes_of(items):
                lane.trying = False
            self._changed_aside.set()

    async def _write_aside(self, items: Items[Request, Answer]) -> None:
        lanes = lanes_of(items)
        try:
            answers = await self._write_free([item.request for item in items])  # type: ignore[misc]  # there is one
        except Locked:  # a lock that `write_free` does not see
            for lane in lanes:
                lane.alone = True
            if len(lanes) > 1:
                self._put_all_back(items)
            else:
                lanes[0].found_locked(trio.current_time())
                refuse(items, Busy(_HELD))
        except Exception as error:
            await _by_halves(items, error, self._write_aside)
        else:
            left = [item for item, answer in zip(items, answers, strict=True) if answer is None]
            locked = set(lanes_of(left))
            for lane in lanes:
                lane.alone = False
                if lane in locked:
                    lane.found_locked(trio.current_time())
                else:
                    lane.found_free()
            self._put_all_back(left)
            for lane in locked:
                self._send_away(lane)
            for item, answer in zip(items, answers, strict=True):
                if answer is not None:
                    item.answer = answer
                    item.finish()

    def _put_all_back(self, items: Items[Request, Answer]) -> None:
        for item in reversed(items):
            self._put(item, back=True)

    def _send_away(self, lane: Lane[Request, Answer]) -> None:
        """The lane was found locked: callers that have waited for it long enough get `Busy`."""
        now = trio.current_time()
        since = now if lane.locked_since is None else lane.locked_since
        while lane.waiting and now - max(since, lane.waiting[0].since) >= self._longest_wait:
            refuse([self._pop(lane)], Busy(_HELD))


async def _by_halves(
    items: Items[Request, Answer], error: Exception, write: Callable[[Items[Request, Answer]], Awaitable[None]]
) -> None:
    """Writes each half once more by itself, if the error may be due to one request; otherwise all get the error."""
    if len(items) > 1 and is_of_one(error):
        await write(items[: len(items) // 2])
        await write(items[len(items) // 2 :])
    else:
        refuse(items, error)
