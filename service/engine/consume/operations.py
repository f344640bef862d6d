"""What an operator does to a group: seek, replay, redrive, purge; and to a message: erase.

The work is done in bounded batches, each a transaction of its own.

A call works for `_LONGEST` seconds at most and says whether there is more; repeat the call to go on. Closing the
request stops it between two batches: what is done stays done, and the rest is as it was.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

import trio
from attrs import define, evolve, frozen

from ....store.errors import StoreError
from ....store.operating import erasing, redriving, replaying, seeking
from ....store.operating.erasing import Erasure
from ....store.operating.redriving import Fitting, Letters, Redriven
from ....store.operating.replaying import Range
from ....store.records import Group, Queue
from ....store.store import Store
from ....store.stream.positions import Position
from ...clock import Clock
from ...errors import TopicConflict
from ..signals import Signals
from .dead_letters import Walk
from .groups import Groups

T = TypeVar("T")

_BATCH = 200
_LONGEST = 20.0
"""Seconds that one call works at most."""
_PER_SECOND = 10
"""Batches a second when there is a rate, if it is high enough to fill them."""


@frozen
class Worked:
    """How far a call came. `more`: it stopped for the time being; repeat the call to go on."""

    count: int
    more: bool = False
    since: int = 0
    """With `more`: dead letters that died before this time are done, Unix milliseconds."""
    until: int = 0
    """Only dead letters that died before this time are meant, Unix milliseconds."""
    expired: int = 0
    """Dead letters that are past their time, and were left where they are."""
    astray: int = 0
    """Dead letters that were left where they are, since they have no place to go back to."""


@define(eq=False)
class Operations:
    _store: Store
    _clock: Clock
    _signals: Signals
    _groups: Groups

    async def seek(
        self, group: Group, queues: Sequence[Queue] | None, position: Position, *, dry_run: bool
    ) -> list[tuple[int, int]]:
        """Moves the group; returns (number, offset) of each of these queues (None: all) as it is now, or would be."""
        _unless_broadcast(group)
        if dry_run:
            return await self._store.read(seeking.targets, group, queues, position)

        async def move() -> list[tuple[int, int]]:
            sought = await self._store.seek(group, queues, position, self._clock.now())
            self._signals.timers_added(sought.timers)
            self._groups.closed(group, sought.closed, sought.acked)
            return list(sought.queues)

        return await _uncut(move())

    async def replay(self, group: Group, range_: Range, *, dry_run: bool) -> Worked:
        """Hands out the range once more to this group."""
        _unless_broadcast(group)
        if dry_run:
            return Worked(await self._store.read(replaying.count, group, range_))

        async def step(limit: int) -> tuple[int, bool]:
            replayed = await self._store.replay(group, range_, limit, self._clock.now())
            self._signals.timers_added(replayed.timers)
            return replayed.count, replayed.done

        return await _batches(step, None)

    async def erase(self, id_: int) -> Erasure | Literal["waiting", "unknown"]:
        """Erases what a message says, wherever it lies; see `erasing`."""
        return await _uncut(self._store.write(erasing.erase, id_, self._clock.now()))

    async def redrive(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        """Puts dead letters back to the group, `rate` a second or as fast as it goes; those past their time, and those
        astray, are left."""

        async def redrive(some: Letters, limit: int) -> Redriven:
            now = self._clock.now()
            if dry_run:
                return await self._store.read(redriving.would_redrive, group, some, now)
            redriven = await self._store.redrive(group, some, limit, now)
            self._signals.timers_added(redriven.timers)
            return redriven

        return await self._over_letters(group, letters, None if dry_run else rate, redrive)

    async def purge(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        async def purge(some: Letters, limit: int) -> Redriven:
            if dry_run:
                return Redriven(await self._store.read(redriving.count, group, some))
            return await self._store.write(redriving.purge, group, some, limit)

        return await self._over_letters(group, letters, None if dry_run else rate, purge)

    async def _over_letters(
        self, group: Group, letters: Letters, rate: int | None, work: Callable[[Letters, int], Awaitable[Redriven]]
    ) -> Worked:
        async def look(some: Letters, limit: int) -> Fitting:
            return await self._store.read(redriving.fitting, group, some, limit)

        # A letter that dies again meanwhile is not meant, or this might never end.
        letters = evolve(letters, until=min(letters.until, self._clock.now() + 1))
        walk = Walk(letters, look, work)
        worked = await _batches(walk.step, rate)
        since = walk.since if worked.more else 0
        return evolve(worked, since=since, until=letters.until, expired=walk.expired, astray=walk.astray)


def _unless_broadcast(group: Group) -> None:
    if group.topic.kind == "broadcast":
        raise TopicConflict(f"topic {group.topic.name!r} is a broadcast topic: its clients have offsets of their own")


async def _uncut(work: Awaitable[T]) -> T:
    """Finishes the work even if the caller is cancelled, and returns its answer."""
    answers: list[T] = []
    with trio.CancelScope(shield=True):
        answers.append(await work)
    return answers[0]


async def _batches(step: Callable[[int], Awaitable[tuple[int, bool]]], rate: int | None) -> Worked:
    """Does batch after batch. It can be cancelled between two of them, and not within one."""
    limit = _BATCH if rate is None else max(1, min(_BATCH, rate // _PER_SECOND))
    began = trio.current_time()
    count = 0
    while True:
        try:
            some, done = await _uncut(step(limit))
        except StoreError:
            if not count:
                raise
            return Worked(count, more=True)  # some was done: no error may say that nothing was
        count += some
        if done:
            return Worked(count)
        pause = 0.0 if rate is None else began + count / rate - trio.current_time()
        if trio.current_time() + pause - began > _LONGEST:
            return Worked(count, more=True)
        await trio.sleep(max(0.0, pause))
