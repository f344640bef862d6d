"""Backlogs: what waits in order, and long, in the shards of other nodes.

Whoever has a shard brings its messages in their order. Another node finds by its sweeps what falls due there too late;
but after an outage of all nodes more may wait than it sweeps. To bring the last of it would be to overtake what is
older. So of a shard in which ordered messages wait that are older than its sweeps look back, it sweeps nothing and
brings nothing that is ordered until they are through.
"""

from collections.abc import Sequence

from attrs import define, field

from ...store.ids import SHARDS
from ...store.store import Store
from ...store.timers import crowds, timers
from ..clock import Clock
from ..shares import Shares
from .pages import Pages

_PAGE = 2_000
_PAGES = 10
"""Pages of a shard that are read at one look: others have their turn between."""
_PATIENCE = 30_000
"""Milliseconds after which those are passed over that nobody brings: a dead node has its shards for less."""


@define(eq=False)
class _Backlog:
    """What waits in a shard, as far as it was read."""

    pages: Pages
    until: int
    """Up to when they go."""
    waiting: Sequence[timers.Timer] = ()
    """What is ordered of the last page, and was there when last looked."""
    changed_at: int = 0
    """When that became less."""


@define(eq=False)
class Backlogs:
    """The shards that other nodes have and of which not all is known here."""

    _store: Store
    _shares: Shares
    _clock: Clock
    _unknown: set[int] = field(factory=lambda: set(range(SHARDS)), init=False)
    _by_shard: dict[int, _Backlog] = field(factory=dict[int, _Backlog], init=False)

    def __contains__(self, shard: int) -> bool:
        return shard in self._unknown and shard not in self._shares.held

    async def read_anew(self) -> None:
        """Another server has the database: nothing is known any more, and what was through may wait again."""
        self._unknown = set(range(SHARDS))
        self._by_shard.clear()

    async def look(self, until: int) -> None:
        """Looks whether what was due before `until`, Unix milliseconds, is through. What is due later is swept from
        then on. Raises `StoreError`."""
        self._unknown -= self._shares.held
        for shard in sorted(self._unknown):
            if await self._is_through(shard, until):
                self._unknown.discard(shard)
                self._by_shard.pop(shard, None)

    async def _is_through(self, shard: int, until: int) -> bool:
        backlog = self._by_shard.get(shard)
        if backlog is None:
            backlog = self._by_shard[shard] = _Backlog(Pages(self._store, [shard], 0, until), until)
        for _ in range(_PAGES):
            if await self._waits(backlog):
                return False
            if (page := await backlog.pages.more(_PAGE)) is not None:
                backlog.waiting = sorted(one for run in page for one in zip(*run, strict=True) if one[1] >= 0)
                backlog.changed_at = self._clock.now()
            elif backlog.until >= until:
                return True
            else:
                backlog.pages, backlog.until = Pages(self._store, [shard], backlog.until, until), until
        return False

    async def _waits(self, backlog: _Backlog) -> bool:
        """Whether something of the last page waits, and is waited for."""
        now, before = self._clock.now(), len(backlog.waiting)
        backlog.waiting = await self._ordered(backlog.waiting)
        if len(backlog.waiting) < before:
            backlog.changed_at = now
        return bool(backlog.waiting) and now - backlog.changed_at < _PATIENCE

    async def _ordered(self, some: Sequence[timers.Timer]) -> Sequence[timers.Timer]:
        """Those of these messages that wait and are to go in their order, by whoever has their shard."""
        if not some:
            return some
        orders = self._store.orders
        topics, _ = await self._store.read(crowds.topics_of, some, 0)
        ordered = await self._store.read(orders.among, set(topics.values()))
        wanted = {entry for entry, topic in topics.items() if topic in ordered and not orders.released(topic)}
        return [one for one in some if one[1] in wanted and one[1] not in orders.aside]
