"""Pages: the rows of a stretch of time, page by page in order of time, for loading the wheel and for large sweeps.

The rows lie in several shards and three tables, and a message must not be promoted before all that are earlier in its
order are there. So the next page is read from the table and shard that has been read least far, and rows are given out
up to the time up to which everything has been read.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Set
from functools import partial

from attrs import define, field

from ....store.ids import SHARDS, due_of, first_id
from ....store.store import Store
from ....store.timers import timers

_EVER = (1 << 63) - 1

TimerRun = tuple[list[int], list[int]]
"""Due times and entries, as two columns, in order of time."""


@define(eq=False)
class _Reader:
    """Reads one table of one shard. `ask` reads rows behind a place, at most so many."""

    ask: Callable[[tuple[int, int], int], Awaitable[TimerRun]]
    upto: int
    """Everything due before this has been read; `_EVER` when there is no more."""
    _last: tuple[int, int]
    """(due, entry) of the last row that was read."""
    _dues: list[int] = field(factory=list[int], init=False)
    _entries: list[int] = field(factory=list[int], init=False)
    """Rows that were read and not given out yet."""

    async def read(self, limit: int) -> None:
        """Reads another page of up to `limit` rows."""
        dues, entries = await self.ask(self._last, limit)
        if len(dues) < limit:
            self.upto = _EVER
        else:
            self._last = self.upto, _ = dues[-1], entries[-1]
        self._dues = self._dues + dues if self._dues else dues
        self._entries = self._entries + entries if self._entries else entries

    def give(self, upto: int) -> TimerRun | None:
        """Gives out the rows that are due at that time or before; None if there are none."""
        if not self._dues or self._dues[0] > upto:
            return None
        dues, entries = self._dues, self._entries
        many = bisect_right(dues, upto)
        self._dues, self._entries = dues[many:], entries[many:]
        return (dues, entries) if many == len(dues) else (dues[:many], entries[:many])


async def look(store: Store, shards: Set[int], since: int, until: int, limit: int) -> list[timers.Timer] | None:
    """Everything that falls due in some shards between two milliseconds, in one statement, if it is fewer rows than
    `limit`; else None. Mostly there is little."""
    others = dict.fromkeys(set(range(SHARDS)) - shards, since)
    rows = await store.read(timers.near, since, until, limit, others)
    return rows if len(rows) < limit else None


class Pages:
    """Pages of what falls due in some shards between two milliseconds."""

    def __init__(self, store: Store, shards: Iterable[int], since: int, until: int) -> None:
        self._store = store
        self._until = until
        self._begin = since
        self._readers = [
            _Reader(partial(ask, shard), since, last)
            for shard in sorted(shards)
            for ask, last in (
                (self._messages, (since, first_id(since) - 1)),
                (self._moved, (since - 1, _EVER)),
                (self._retries, (since, ~(first_id(since) - 1))),
            )
        ]
        self.upto = since if self._readers else until
        """Everything due before this has been given out."""

    async def more(self, limit: int) -> list[TimerRun] | None:
        """Reads another page, and returns what is now known to come next, for each table and shard that has some; None
        after the last page."""
        if self.upto >= self._until:
            return None
        least = min(self._readers, key=lambda reader: reader.upto)
        await least.read(limit)
        self.upto = min(self._until, *(reader.upto for reader in self._readers))
        return [some for reader in self._readers if (some := reader.give(self.upto)) is not None]

    @property
    def begun(self) -> bool:
        """Whether a page of each table and shard has been read."""
        return self.upto > self._begin

    async def _messages(self, shard: int, last: tuple[int, int], limit: int) -> TimerRun:
        rows = await self._store.read(timers.due_messages, shard, last[1] + 1, self._until, limit)
        return [due for _, due in rows], [id_ for id_, _ in rows]

    async def _moved(self, shard: int, last: tuple[int, int], limit: int) -> TimerRun:
        rows = await self._store.read(timers.due_moved, shard, last, self._until, limit)
        return [due for _, due in rows], [id_ for id_, _ in rows]

    async def _retries(self, shard: int, last: tuple[int, int], limit: int) -> TimerRun:
        ids = await self._store.read(timers.due_retries, shard, ~last[1] + 1, self._until, limit)
        return [due_of(id_) for id_ in ids], [~id_ for id_ in ids]
