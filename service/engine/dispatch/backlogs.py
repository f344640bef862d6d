"""Backlogs: ordered messages that have waited long in the shards of other nodes.

The node that has a shard promotes its messages in their order. Another node finds by its sweeps what falls due there
and is late; but after an outage of all nodes more may wait than it sweeps. To promote the newest of it would be to
overtake what is older. So from a shard in which ordered messages wait that are older than its sweeps look back, a node
sweeps nothing and promotes nothing that is ordered until those are through.
"""

from collections.abc import Sequence, Set

from attrs import define, field

from ....store.ids import SHARDS, shard_of
from ....store.store import Store
from ..cluster.ownership import Ownership
from ..state.coverage import Coverage
from .pages import Pages, look

_PAGE = 1_000
_PAGES = 10
"""Pages that are read at one look."""
_PATIENCE = 300
"""Looks after which messages that no node promotes are passed over. A look comes once a second, and a dead node loses
its shards after some seconds: this is for rows that are spoilt, or that a user has locked."""


@define(eq=False)
class _Backlog:
    """What waits in a shard, as far as it has been read."""

    pages: Pages
    until: int
    """The due time up to which the pages go."""
    waiting: Sequence[int] = ()
    """Messages of the last page that have their place in an order, and were still there at the last look."""
    in_vain: int = 0
    """Looks since their number last fell."""


@define(eq=False)
class Backlogs:
    """Shards of other nodes in which more may wait than is known here."""

    _store: Store
    _coverage: Coverage
    _ownership: Ownership
    _by_shard: dict[int, _Backlog] = field(factory=dict[int, _Backlog], init=False)

    async def read_anew(self) -> None:
        """Another server has the database: nothing is known any more, and any shard may have a backlog again."""
        self._coverage.backlogged = set(range(SHARDS))
        self._by_shard.clear()

    async def look(self, until: int) -> None:
        """Looks whether what was due before `until`, Unix milliseconds, is through. What is due later is swept from
        then on, also where an earlier look had a later `until`. Raises `StoreError`."""
        self._coverage.backlogged -= self._ownership.held
        unknown, by_shard, pages = self._coverage.backlogged, self._by_shard, _PAGES  # `read_anew` may replace them
        if new := unknown - by_shard.keys():
            unknown -= new - await self._with_some(new, until)
        for shard in sorted(unknown):
            if (backlog := by_shard.get(shard)) is None or backlog.until > until:
                backlog = by_shard[shard] = _Backlog(Pages(self._store, [shard], 0, until), until)
            while not await self._waits(backlog):
                if (page := await backlog.pages.more(_PAGE)) is not None:
                    backlog.waiting, backlog.in_vain = [id_ for _, ids in page for id_ in ids if id_ >= 0], 0
                    pages -= any(ids for _, ids in page)
                elif backlog.until < until:
                    backlog.pages, backlog.until = Pages(self._store, [shard], backlog.until, until), until
                else:
                    unknown.discard(shard)
                    by_shard.pop(shard, None)
                    break
                if not pages:
                    return

    async def _with_some(self, shards: Set[int], until: int) -> Set[int]:
        """Those of these shards in which something waits, or may: one look mostly says that nothing does."""
        rows = await look(self._store, shards, 0, until, _PAGE)
        return shards if rows is None else {shard_of(entry) for _, entry in rows}

    async def _waits(self, backlog: _Backlog) -> bool:
        """Whether messages of the last page still wait, and are still waited for."""
        if not backlog.waiting:
            return False
        left = await self._store.read(self._store.orders.brought_by_others, backlog.waiting)
        backlog.in_vain = backlog.in_vain + 1 if len(left) == len(backlog.waiting) else 0
        backlog.waiting = left
        return bool(left) and backlog.in_vain <= _PATIENCE
