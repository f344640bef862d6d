"""Entries that are due and cannot be promoted, since their rows are spoilt: each is set aside, and its neighbours go.

A transaction of many fails because of one of them, and does not say which: so it is parted, until that one is by
itself. Its row stays where it is. It is named, once in the log, in /readyz and by the doctor, and tried again, soon at
first and then every minute, so that it goes when somebody has put it right. Where nothing but failures comes of a batch
it may be the store that is to blame: then that is said, and the batch is tried again. So too when a rehearsal shows
that the database is not such as Tarry needs: an error that any message would meet is not the fault of one.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

import structlog
from attrs import define, field

from ....store.errors import DuplicateKey, StoreError, Unfit, is_of_one
from ....store.store import Store
from ....store.stream import rehearsal
from ....store.timers import spoilt
from ...clock import Clock
from ..state.spoilt_rows import NAMED, SpoiltRow, SpoiltRows, and_more

T = TypeVar("T")

FACT = "spoilt"
"""The name under which a node tells the others of its spoilt rows."""
_IN_VAIN = 8
"""Entries that are set aside of a batch of which none went, before the store is said to be to blame."""
_FIRST_REST, _LONGEST_REST = 1_000, 60_000
"""Milliseconds before another try, doubled each time."""
_TOGETHER = 100
"""Entries that are tried again together."""
TOLD = 3
"""Spoilt rows that a node tells the others of, at most: its facts have a column of 4096 bytes."""
_LONGEST = 200
"""Characters of a reason."""

log = structlog.get_logger()


@define(eq=False)
class Spoilt:
    """Sets entries aside, and tries them again."""

    _store: Store
    _clock: Clock
    rows: SpoiltRows = field(factory=SpoiltRows)

    async def part(
        self, entries: Sequence[int], promote: Callable[[Sequence[int]], Awaitable[T]], error: Exception
    ) -> tuple[list[T], Sequence[int]]:
        """Promotes entries that have failed together, part by part. Returns what `promote` gave, and the entries that
        are left if the store failed. Raises that failure, or this error, if nothing was done before."""
        if not is_of_one(error):
            raise error
        parting = _Parting(promote, self._rehearse, list(entries), self.rows.found)
        if isinstance(error, DuplicateKey):  # the likeliest error by far, of many at once after a restore
            taken = await self._store.read(spoilt.taken, [entry for entry in entries if entry >= 0])
            parting.set_aside(dict.fromkeys(taken, spoilt.TAKEN))
        try:
            await parting.run(None if parting.spoilt else error)
        except StoreError as failure:
            is_stores = parting.store_failed or not is_of_one(failure)
            if not (is_stores and (parting.results or parting.spoilt)):
                raise
        finally:
            self._put(parting.spoilt)
            self.rows.found -= parting.spoilt.keys()
        return parting.results, parting.left

    async def _rehearse(self) -> None:
        """Raises `StoreError` if no message at all would be taken."""
        now = self._clock.now()
        id_ = self._store.ids.make(now)
        with suppress(DuplicateKey):  # the message got as far as the table
            await self._store.write(rehearsal.rehearse, id_, now, b"0")
            await self._store.write(rehearsal.clear_away, id_, now)

    async def wholly(self, entries: Sequence[int], promote: Callable[[Sequence[int]], Awaitable[T]]) -> list[T]:
        """What `promote` gives for these entries, for all at once or part by part. Raises `StoreError`."""
        left = self.rows.without(entries)
        try:
            return [await promote(left)] if left else []
        except Exception as failure:
            error, done = failure, list[T]()
        while left:
            some, left = await self.part(left, promote, error)
            done += some
        return done

    async def pass_over(self, entries: Sequence[int]) -> None:
        """Sets aside entries that promotion was given again and again, and that are still due. Raises `StoreError`."""
        self._put(await self._store.read(spoilt.passed_over, entries, self._clock.now()))

    async def try_again(self, promote: Callable[[Sequence[int]], Awaitable[None]]) -> None:
        """Promotes the entries whose time for another try has come. Raises `StoreError`."""
        now = self._clock.now()
        due = [entry for entry, row in self.rows.rows.items() if row.again_at <= now][:_TOGETHER]
        if not due or self._clock.in_doubt:
            return
        self.rows.tried = {entry: self.rows.rows.pop(entry) for entry in due}
        try:
            await promote(due)  # those that fail are set aside again
            left = list(self.rows.tried)
            self._put(await self._store.read(spoilt.passed_over, left, self._clock.now()) if left else {})
            if self.rows.tried:
                well = and_more(
                    [spoilt.name_of(entry) for entry in list(self.rows.tried)[:NAMED]], len(self.rows.tried)
                )
                log.info("rows_well_again", rows=well, left=len(self.rows.rows))
            self.rows.tried = {}
        finally:
            self.rows.rows |= self.rows.tried
            self.rows.tried = {}

    def _put(self, whys: Mapping[int, str]) -> None:
        new: list[str] = []
        for entry, whole in whys.items():
            why = whole[:_LONGEST]
            if entry in self.rows.rows:
                continue
            row = self.rows.tried.pop(entry, None)
            if row is None:
                row = SpoiltRow()
                new.append(f"{spoilt.name_of(entry)}: {why}")
            row.why, row.rest = why, min(max(_FIRST_REST, 2 * row.rest), _LONGEST_REST)
            row.again_at = self._clock.now() + row.rest
            self.rows.rows[entry] = row
        if new:
            log.error("rows_set_aside", rows=and_more(new[:NAMED], len(new)), because="they cannot be promoted")


@define(eq=False)
class _Parting(Generic[T]):
    """Promotes entries that have failed together in parts: half as large after a failure, twice after a success."""

    _promote: Callable[[Sequence[int]], Awaitable[T]]
    _rehearse: Callable[[], Awaitable[None]]
    left: list[int]
    _found: set[int]
    results: list[T] = field(factory=list[T], init=False)
    spoilt: dict[int, str] = field(factory=dict[int, str], init=False)
    store_failed: bool = field(default=False, init=False)
    """A rehearsal failed, too: no row is at fault."""

    def set_aside(self, whys: Mapping[int, str]) -> None:
        self.spoilt |= whys
        self._found |= whys.keys()
        self.left = [entry for entry in self.left if entry not in whys]

    async def run(self, error: Exception | None) -> None:
        """Promotes what is left; `error`: with which it fails as a whole. Raises errors that no row causes."""
        size, in_vain, was_doubted = len(self.left), 0, False
        while self.left:
            some = self.left[:size]
            try:
                if error is not None:
                    raise error
                self.results.append(await self._promote(some))
            except Exception as failure:
                if not is_of_one(failure):
                    raise
                if isinstance(failure, Unfit):
                    await self._blame_the_store()
                    if not was_doubted:  # the store may have been put right since
                        was_doubted, error = True, None
                        continue
                if in_vain == _IN_VAIN and not self.results:
                    raise StoreError(f"nothing of a batch goes: {failure}") from failure
                if len(some) == 1:
                    self.set_aside({some[0]: str(failure) or type(failure).__name__})
                    in_vain += 1
                size = max(1, len(some) // 2)
                error = None
            else:
                del self.left[: len(some)]
                size = 2 * len(some)

    async def _blame_the_store(self) -> None:
        """Raises the error of a rehearsal, if no other message would be taken either."""
        self.store_failed = True
        await self._rehearse()
        self.store_failed = False
