"""Walks through dead letters for one call: a batch at a time, by age, by id or by a search.

Letters that are left where they are (past their time, or astray) are passed once. What is done with a letter is not
known here.
"""

from collections.abc import Awaitable, Callable, Sequence

from attrs import define, evolve, field

from ....store.operating.redriving import Fitting, Letters, Redriven

_LOOKED_AT = 500
"""Dead letters that one look searches."""


@define(eq=False)
class Walk:
    """A walk over `ahead`, the letters still to come; `look` finds those that match, `work` does a batch."""

    ahead: Letters
    look: Callable[[Letters, int], Awaitable[Fitting]]
    work: Callable[[Letters, int], Awaitable[Redriven]]
    expired: int = 0
    astray: int = 0
    _found: Sequence[tuple[int, int]] = field(default=(), init=False)
    """(dead_at, id) of letters that match and are still to be worked on."""
    _all_looked_at: bool = field(default=False, init=False)

    @property
    def since(self) -> int:
        """Letters that died before this time are done: Unix milliseconds."""
        return self._found[0][0] if self._found and self.ahead.ids is None else self.ahead.since

    async def step(self, limit: int) -> tuple[int, bool]:
        """Works on up to `limit` letters; returns how many were done, and whether none is left."""
        if self.ahead.are_sought:
            return await self._fitting(limit)
        if self.ahead.ids is not None:
            return await self._named(self.ahead.ids, limit)
        done = await self._do(self.ahead, limit)
        if done.last is not None:  # letters that are left would be met again
            self.ahead = self.ahead.behind(done.last)
        return done.count, done.last is None or done.count + done.expired + done.astray < limit

    async def _named(self, ids: tuple[int, ...], limit: int) -> tuple[int, bool]:
        self.ahead = evolve(self.ahead, ids=ids[limit:])
        done = await self._do(evolve(self.ahead, ids=ids[:limit]), limit)
        return done.count, len(ids) <= limit

    async def _fitting(self, limit: int) -> tuple[int, bool]:
        if not self._found:
            looked = await self.look(self.ahead, _LOOKED_AT)
            self._found, self._all_looked_at = looked.places, looked.ahead is None
            self.ahead = looked.ahead or self.ahead
        some, left = self._found[:limit], self._found[limit:]
        count = 0
        if some:
            since, ids = min(at for at, _ in some), tuple(id_ for _, id_ in some)
            count = (await self._do(evolve(self.ahead, since=since, ids=ids), limit)).count
        self._found = left
        return count, self._all_looked_at and not left

    async def _do(self, letters: Letters, limit: int) -> Redriven:
        done = await self.work(letters, limit)
        self.expired += done.expired
        self.astray += done.astray
        return done
