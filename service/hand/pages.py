"""The rows of a stretch of time, page by page and in the order of their time: for who loads the wheel, and for a sweep
that finds many.

What waits lies in several shards and three tables, and what of it is one order must not be promoted before all of it is
there that is earlier. So a page is read where least has been read of, and what was read is given up to the time up to
which all has been read.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence

from attrs import define, field

from ...store.ids import due_of, first_id
from ...store.store import Store
from ...store.timers import timers

_EVER = (1 << 63) - 1

Timers = tuple[Sequence[int], Sequence[int]]
"""Due times and entries, as two columns."""


@define(eq=False)
class _Reader:
    """Of one table and shard. `ask` reads rows behind a place, at most so many."""

    ask: Callable[[tuple[int, int], int], Awaitable[Timers]]
    upto: int
    """All that is due before has been read; `_EVER` when there is no more."""
    _last: tuple[int, int]
    """(due, entry) of the last that was read."""
    _dues: list[int] = field(factory=list[int], init=False)
    _entries: list[int] = field(factory=list[int], init=False)
    """Read and not given yet."""

    async def read(self, limit: int) -> None:
        """Another page of at most so many."""
        dues, entries = await self.ask(self._last, limit)
        self._dues += dues
        self._entries += entries
        if len(dues) < limit:
            self.upto = _EVER
        else:
            self._last = self.upto, _ = dues[-1], entries[-1]

    def give(self, upto: int, dues: list[int], entries: list[int]) -> None:
        """Adds to these what is due at that time, or before."""
        if self._dues and self._dues[0] <= upto:
            many = bisect_right(self._dues, upto)
            dues += self._dues[:many]
            entries += self._entries[:many]
            del self._dues[:many], self._entries[:many]


class Pages:
    """What falls due in some shards between two milliseconds."""

    def __init__(self, store: Store, shards: Iterable[int], since: int, until: int) -> None:
        self._store = store
        self._until = until
        self._begin = since
        self._readers = [
            _Reader(ask, since, last)
            for shard in sorted(shards)
            for ask, last in (
                (self._messages(shard), (since, first_id(since) - 1)),
                (self._moved(shard), (since - 1, _EVER)),
                (self._retries(shard), (since, ~(first_id(since) - 1))),
            )
        ]
        self.upto = since if self._readers else until
        """All that is due before has been given."""

    async def more(self, limit: int) -> Timers | None:
        """What is known to be next after another page of at most so many, which may be nothing; None after the last."""
        if self.upto >= self._until:
            return None
        least = min(self._readers, key=lambda reader: reader.upto)
        await least.read(limit)
        self.upto = min(self._until, *(reader.upto for reader in self._readers))
        dues: list[int] = []
        entries: list[int] = []
        for reader in self._readers:
            reader.give(self.upto, dues, entries)
        return dues, entries

    @property
    def begun(self) -> bool:
        """Whether there is a page of each."""
        return self.upto > self._begin

    def _messages(self, shard: int) -> Callable[[tuple[int, int], int], Awaitable[Timers]]:
        async def ask(last: tuple[int, int], limit: int) -> Timers:
            rows = await self._store.read(timers.due_messages, shard, last[1] + 1, self._until, limit)
            return [due for _, due in rows], [id_ for id_, _ in rows]

        return ask

    def _moved(self, shard: int) -> Callable[[tuple[int, int], int], Awaitable[Timers]]:
        async def ask(last: tuple[int, int], limit: int) -> Timers:
            rows = await self._store.read(timers.due_moved, shard, last, self._until, limit)
            return [due for _, due in rows], [id_ for id_, _ in rows]

        return ask

    def _retries(self, shard: int) -> Callable[[tuple[int, int], int], Awaitable[Timers]]:
        async def ask(last: tuple[int, int], limit: int) -> Timers:
            ids = await self._store.read(timers.due_retries, shard, ~last[1] + 1, self._until, limit)
            return [due_of(id_) for id_ in ids], [~id_ for id_ in ids]

        return ask
