"""The loader: fills the wheel from the tables, at start-up and as the horizon moves.

Overdue rows come first, in the order of their time whatever shards and tables they lie in, while the service already
serves. Then page after page of what falls due within the horizon.

`Horizon.page` moves `loaded_until` before the page is read, and before the overdue rows are read, which may take long.
A publish compares its due time with it after its own commit, so a row may come twice but is never missed. A shard that
this node is to hold is taken in the same way: from then on its new rows go into the wheel, and those that wait are read
after. Until they are read, `coverage` tells how far the reading has come.
"""

from collections.abc import Sequence, Set

import structlog
import trio
from attrs import define, field

from ....store.store import Store
from ....store.timers import timers
from ...clock import Clock
from ...outages import Trouble
from ..cluster.nodes import Nodes
from ..cluster.ownership import Ownership
from ..state.coverage import Coverage
from ..state.pending import Pending
from .pages import Pages, TimerRun, look

_FIRST_PAGE = 500
"""Rows of a shard in the first page of overdue ones: few, so that the first message goes out soon."""
_PAGE = 5000
_PIECE = 10_000
"""Rows that are added to the wheel at once."""
_SOON = 5_000
"""Milliseconds: entries that are due later than that do not fall due while they are added."""
_PAUSE = 1.0

log = structlog.get_logger()


def _trouble() -> Trouble:
    return Trouble(trio.current_time, failed="loading_failed", well="loading_goes_on")


@define(eq=False)
class Loader:
    """Loads the shards that this node holds, and has other nodes told when it holds more."""

    _store: Store
    _pending: Pending
    _clock: Clock
    _ownership: Ownership
    _coverage: Coverage
    _nodes: Nodes
    _trouble: Trouble = field(factory=_trouble, init=False)
    loaded: int = field(default=0, init=False)
    recovered: trio.Event = field(factory=trio.Event, init=False)
    """Set when everything within the horizon is in the wheel for the first time."""

    async def run(self) -> None:
        """Recovers, then keeps the horizon loaded and follows the ownership of shards, for ever."""
        began, ownership = self._clock.now(), self._ownership
        ownership.take()
        held, horizon = ownership.held, self._pending.horizon
        start = horizon.loaded_until
        horizon.page(began)  # no page, and nothing moves, where the clock went back by more than the horizon
        self._begin(held)
        await self._until_read(held, 0, start, _FIRST_PAGE)
        self._coverage.overdue_loaded()
        await self._until_read(held, start, horizon.loaded_until, _PAGE)
        await self._next_page()
        self._begin(frozenset())
        self._has(held)
        self.recovered.set()
        log.info("recovered", entries=self.loaded, took_ms=self._clock.now() - began)
        while True:
            with trio.move_on_after(max(0.05, self._clock.seconds_until(self._pending.horizon.next_page_at()))):
                await ownership.changed()
            await self._next_page()
            await self.follow()

    async def follow(self) -> None:
        """Takes the shards that this node is to hold from now on, and lets go of those that other nodes have."""
        began, before, taken = self._clock.now(), self.loaded, self._ownership.take()
        if taken:
            self._begin(taken)
            await self._until_read(taken, 0, self._pending.horizon.loaded_until, _PAGE)
            self._begin(frozenset())
            took = self._clock.now() - began
            log.info("shards_taken", shards=sorted(taken), entries=self.loaded - before, took_ms=took)
            self._has(taken)
        if dropped := self._ownership.drop():
            await self._pending.forget(dropped)
            log.info("shards_left", shards=sorted(dropped))

    async def reload(self) -> None:
        """Reads everything anew: another server has the database, and may lack rows that the one before had."""
        began, before = self._clock.now(), self.loaded
        held = self._ownership.held
        self._begin(held)
        await self._pending.forget(held)
        await self._until_read(held, 0, self._pending.horizon.loaded_until, _FIRST_PAGE)
        self._begin(frozenset())
        log.info("wheel_reloaded", entries=self.loaded - before, took_ms=self._clock.now() - began)

    def _begin(self, unread: Set[int]) -> None:
        self._coverage.unread, self._coverage.read_upto = unread, 0

    def _has(self, shards: Set[int]) -> None:
        self._ownership.loaded(shards)
        self._nodes.tell_soon()

    async def _next_page(self) -> None:
        while (page := self._pending.horizon.page(self._clock.now())) is not None:
            await self._until_read(self._ownership.held, *page, _PAGE)

    async def _until_read(self, shards: Set[int], since: int, until: int, page: int) -> None:
        """Reads a stretch of time. Asks again while the store is away, for a stretch left out is never read later."""
        while True:
            with self._trouble.survived():
                await self._read(shards, since, until, page)
                return
            await trio.sleep(_PAUSE)

    async def _read(self, shards: Set[int], since: int, until: int, page: int) -> None:
        rows = await look(self._store, shards, since, until, _FIRST_PAGE)
        if rows is not None:
            self._coverage.read_upto = until
            self._pending.add_many([due for due, _ in rows], [entry for _, entry in rows])
            self.loaded += len(rows)
            return
        pages = Pages(self._store, shards, since, until)
        while (some := await pages.more(_PAGE if pages.begun else page)) is not None:
            await self._add(some, pages.upto)
            await trio.lowlevel.checkpoint()

    async def _add(self, runs: Sequence[TimerRun], upto: int) -> None:
        many = sum(len(dues) for dues, _ in runs)
        self.loaded += many
        if many > _PIECE and min(dues[0] for dues, _ in runs) > self._clock.now() + _SOON:
            for dues, entries in runs:  # in any order: all of it is there before any of it is due
                self._pending.add_many(dues, entries)
                await trio.lowlevel.checkpoint()
        elif many > _PIECE:
            await self._add_in_order(sorted(one for run in runs for one in zip(*run, strict=True)))
        self._coverage.read_upto = upto
        if many <= _PIECE:
            for dues, entries in runs:
                self._pending.add_many(dues, entries)

    async def _add_in_order(self, some: Sequence[timers.Timer]) -> None:
        """Adds a piece at a time: the dispatcher goes on in between."""
        for begin in range(0, len(some), _PIECE):
            piece = some[begin : begin + _PIECE]
            self._coverage.read_upto = piece[-1][0]
            self._pending.add_many([due for due, _ in piece], [entry for _, entry in piece])
            await trio.lowlevel.checkpoint()
