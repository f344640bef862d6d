"""What an operator does to a group: seek, replay, redrive, purge; and to a message: erase.

Bounded batches, each a transaction of its own.

A call works for `_LONGEST` seconds at most and says whether there is more: the same call goes on. Whoever closes the
request stops it between two batches; what is done is done, and the rest is as it was.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

import trio
from attrs import define, evolve, frozen

from ...store.errors import StoreError
from ...store.operating import erasing, redriving, replaying, seeking
from ...store.operating.erasing import Erasure
from ...store.operating.redriving import Letters, Redriven
from ...store.operating.replaying import Range
from ...store.records import ClaimKey, Group, Queue
from ...store.store import Store
from ...store.stream.positions import Position
from ..clock import Clock
from ..errors import TopicConflict

T = TypeVar("T")

_BATCH = 200
_LOOKED_AT = 500
"""Dead letters that are looked through in one go."""
_LONGEST = 20.0
"""Seconds of one call."""
_PER_SECOND = 10
"""Batches a second when there is a rate, if it is high enough to fill them."""


@frozen
class Worked:
    """How far a call came. `more`: it stopped for the time being, and the same call goes on."""

    count: int
    more: bool = False
    until: int = 0
    """Dead letters that died before this time are meant, Unix milliseconds."""
    expired: int = 0
    """Dead letters that are past their time, and were left where they are."""
    astray: int = 0
    """Dead letters that were left, since they have no place to go back to."""


@define(eq=False)
class Operations:
    """Over one store. `add` takes timers for the wheel; `closed` hears of claims that a seek has ended, and of
    how many acks it has counted."""

    _store: Store
    _clock: Clock
    _add: Callable[[int, int], None]
    _closed: Callable[[Group, Sequence[ClaimKey], int], None]

    async def seek(
        self, group: Group, queues: Sequence[Queue] | None, position: Position, *, dry_run: bool
    ) -> list[tuple[int, int]]:
        """(number, offset) of each of these queues of its topic as it is now, or would be; None is all."""
        _unless_broadcast(group)
        if dry_run:
            return await self._store.read(seeking.targets, group, queues, position)

        async def move() -> list[tuple[int, int]]:
            sought = await self._store.seek(group, queues, position, self._clock.now())
            self._tell(sought.timers)
            self._closed(group, sought.closed, sought.acked)
            return list(sought.queues)

        return await _uncut(move())

    async def replay(self, group: Group, range_: Range, *, dry_run: bool) -> Worked:
        """The range once more for this group."""
        _unless_broadcast(group)
        if dry_run:
            return Worked(await self._store.read(replaying.count, group, range_))

        async def step(limit: int) -> tuple[int, bool]:
            replayed = await self._store.replay(group, range_, limit, self._clock.now())
            self._tell(replayed.timers)
            return replayed.count, replayed.done

        return await _batches(step, None)

    async def erase(self, id_: int) -> Erasure | Literal["waiting", "unknown"]:
        """What a message says goes, wherever it lies; see `erasing`."""
        return await _uncut(self._store.write(erasing.erase, id_, self._clock.now()))

    async def redrive(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        """Dead letters back to the group, `rate` a second or as fast as it goes; but for those past their time, and
        those that are astray."""
        expired = astray = 0

        async def redrive(some: Letters, limit: int) -> Redriven:
            nonlocal expired, astray
            redriven = await self._store.redrive(group, some, limit, self._clock.now())
            self._tell(redriven.timers)
            expired += redriven.expired
            astray += redriven.astray
            return redriven

        if dry_run:
            for part in await self._parts(group, letters):
                past, lost = await self._store.read(redriving.count_left, group, part, self._clock.now())
                expired, astray = expired + past, astray + lost
        worked = await self._over_letters(group, letters, rate, redrive, dry_run=dry_run)
        left = expired + astray if dry_run else 0
        return evolve(worked, count=worked.count - left, expired=expired, astray=astray)

    async def purge(self, group: Group, letters: Letters, rate: int | None, *, dry_run: bool) -> Worked:
        """Dead letters away for good."""

        async def purge(some: Letters, limit: int) -> Redriven:
            return Redriven(await self._store.write(redriving.purge, group, some, limit))

        return await self._over_letters(group, letters, rate, purge, dry_run=dry_run)

    async def _over_letters(
        self,
        group: Group,
        letters: Letters,
        rate: int | None,
        work: Callable[[Letters, int], Awaitable[Redriven]],
        *,
        dry_run: bool,
    ) -> Worked:
        # One that dies again meanwhile is not meant, or this might never end.
        letters = evolve(letters, until=min(letters.until, self._clock.now() + 1))
        if dry_run:
            parts = await self._parts(group, letters)
            counts = [await self._store.read(redriving.count, group, part) for part in parts]
            return Worked(sum(counts), until=letters.until)
        left, next_ = letters.ids, letters
        if letters.are_sought:
            return evolve(await _batches(self._through(group, letters, work), rate), until=letters.until)

        async def step(limit: int) -> tuple[int, bool]:
            nonlocal left, next_
            if left is None:
                done = await work(next_, limit)
                if done.last is not None:  # what is left stays, and would be met again
                    next_ = evolve(next_, since=done.last[0], after=done.last[1])
                return done.count, done.count + done.expired + done.astray < limit
            some, left = left[:limit], left[limit:]
            return (await work(evolve(letters, ids=some), limit)).count, not left

        return evolve(await _batches(step, rate), until=letters.until)

    async def _parts(self, group: Group, letters: Letters) -> list[Letters]:
        """What is counted in one go each: all, or by their ids those that have to be looked for."""
        if not letters.are_sought:
            return [letters]
        parts: list[Letters] = []
        place: tuple[int, int] | None = (letters.since, letters.after)
        while place is not None:
            some = evolve(letters, since=place[0], after=place[1])
            ids, place = await self._store.read(redriving.fitting, group, some, _LOOKED_AT)
            parts += [evolve(letters, ids=ids)] if ids else []
        return parts

    def _through(
        self, group: Group, letters: Letters, work: Callable[[Letters, int], Awaitable[Redriven]]
    ) -> Callable[[int], Awaitable[tuple[int, bool]]]:
        """Works on those that fit, as they are found; a step at a time."""
        found: tuple[int, ...] = ()
        place: tuple[int, int] | None = (letters.since, letters.after)

        async def step(limit: int) -> tuple[int, bool]:
            nonlocal found, place
            if not found and place is not None:
                some = evolve(letters, since=place[0], after=place[1])
                found, place = await self._store.read(redriving.fitting, group, some, _LOOKED_AT)
            batch, found = found[:limit], found[limit:]
            count = (await work(evolve(letters, ids=batch), limit)).count if batch else 0
            return count, not found and place is None

        return step

    def _tell(self, timers: Sequence[tuple[int, int]]) -> None:
        for due, entry in timers:
            self._add(due, entry)


def _unless_broadcast(group: Group) -> None:
    if group.topic.kind == "broadcast":
        raise TopicConflict(f"topic {group.topic.name!r} is a broadcast topic: its clients have offsets of their own")


async def _uncut(work: Awaitable[T]) -> T:
    """The answer to work that is done to its end, whoever goes away meanwhile."""
    answers: list[T] = []
    with trio.CancelScope(shield=True):
        answers.append(await work)
    return answers[0]


async def _batches(step: Callable[[int], Awaitable[tuple[int, bool]]], rate: int | None) -> Worked:
    """Batch after batch. It can be cancelled between two of them, and not within one."""
    limit = _BATCH if rate is None else max(1, min(_BATCH, rate // _PER_SECOND))
    began = trio.current_time()
    count = 0
    while True:
        try:
            some, done = await _uncut(step(limit))
        except StoreError:
            if not count:
                raise
            return Worked(count, more=True)  # what is done is done: no error says that nothing was
        count += some
        if done:
            return Worked(count)
        pause = 0.0 if rate is None else began + count / rate - trio.current_time()
        if trio.current_time() + pause - began > _LONGEST:
            return Worked(count, more=True)
        await trio.sleep(max(0.0, pause))
