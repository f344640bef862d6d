"""The sweeps: periodic looks for rows and changes that no event announces.

- near, every second, less often while the dispatcher is behind: rows due from two minutes ago to a second and a half
  ahead that the wheel does not know of, put there by another node or by a user's own SQL. (Five seconds ahead would
  read every row five times: measured, it doubles the lateness at 1000 due a second.) In shards that other nodes hold it
  looks at rows that are late by half a second: where a node has died, its timers come a second and a half late at most,
  before another node has its shards. After an outage it begins where the last whole sweep ended; after a long one
  everything is read as at a start. While the loader reads what was overdue at the start, it looks at what falls due
  from then on: another node may die meanwhile, and users' own transactions go on. Then it looks back, though the rest
  of the wheel is still being filled, which may take long: a node that was killed counts as alive for some seconds, and
  what is overdue in its shards must not wait for that. Shards of other nodes with an ordered backlog are left to them.
- far, every minute: everything else that is due. It finds only rows that were never promoted, from transactions that
  were committed hours late. A row that three far sweeps have found one after the other was passed over by promotion
  twice: it is `stuck`. A `nudge`, by which somebody says that a transaction of theirs was committed, starts both
  sweeps.
- leases, every ten seconds: claims whose lease ran out and that no coordinator here has watched.
- idempotency_keys, every two minutes: idempotency keys whose window is over, a bounded batch at a time.
- look, every second while somebody waits: queues that other nodes have made grow, for readers, and groups that have
  something to claim, for whatever reason: other nodes publish, seek and settle.
"""

from collections.abc import Container, Sequence

import trio
from attrs import define, field

from ....store import catalogue
from ....store.groups import holdings
from ....store.ids import SHARDS
from ....store.store import Store
from ....store.stream import idempotency
from ....store.timers import timers
from ...clock import Clock
from ..cluster.ownership import Ownership
from ..consume.groups import Groups
from ..signals import Signals
from ..state.coverage import AHEAD, AWAY, BEHIND, Coverage
from ..state.pending import Pending
from .backlogs import Backlogs
from .loader import Loader
from .pages import Pages
from .spoilt import Spoilt

_LATE = 500
"""Milliseconds after which this node promotes what another node was to promote."""
_LATE_ITSELF = 2_000
"""Milliseconds that the dispatcher may be behind while each sweep is still made: messages of a dead node's shards are
late already."""
_PASSED, _PASSED_ALONE = 4, 59
"""Sweeps that are skipped before the next, while the dispatcher is behind; and while a burst is on its way, where
neither another server nor a user's own transaction writes: what is due then is known here, and reading it again costs
those who are served 40 ms."""
_ROWS, _ROWS_LATE = 10_000, 2_000
"""Rows of each kind in one look, and the same where the dispatcher is behind or knows of more than ten thousand: it
would see little but rows that it knows, and reading ten thousand takes 40 ms. Where there are more, a dispatcher that
is on time reads on in pages."""
_PIECE = 500
"""Rows that are looked up in the wheel at once: some milliseconds."""
_TIMES = 3
_CLAIMS = 1_000
_QUEUES = 1_000
_GROUPS = 1_000
_GRACE = 2_000
"""Milliseconds in which the coordinator that granted a claim can end it itself."""
_EVER = 1 << 60


@define(eq=False)
class Sweeps:
    _store: Store
    _pending: Pending
    _clock: Clock
    _ownership: Ownership
    _coverage: Coverage
    _signals: Signals
    _aside: Container[int]
    _spoilt: Spoilt
    _groups: Groups
    _loader: Loader
    backlogs: Backlogs = field(init=False)
    _nudged: trio.Event = field(factory=trio.Event, init=False)
    _ends: dict[int, int] = field(factory=dict[int, int], init=False)
    _far_again_at: int = field(default=0, init=False)
    _found_far: dict[int, int] = field(factory=dict[int, int], init=False)
    """The entries that the last far sweep has found, and how many sweeps in a row have found each."""
    found: int = field(default=0, init=False)
    _passed: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.backlogs = Backlogs(self._store, self._coverage, self._ownership)

    async def near(self) -> None:
        """Adds near rows that the wheel does not hold."""
        now, seen = self._clock.now(), self._coverage
        alone = not self._store.backend.shared and self._pending.oldest_in_lanes is not None
        if not seen.was_away(AWAY) and self._passed < (_PASSED_ALONE if alone else _PASSED if self._is_behind else 0):
            self._passed += 1
            return
        self._passed = 0
        if seen.was_away(AWAY):
            seen.whole, seen.caught_up = frozenset(), False
        if seen.was_away(BEHIND) and not seen.is_loading:  # as at a start
            await self._store.now()  # raises if the store is still away
            await self.read_anew()
            await self._loader.reload()
            seen.swept, seen.looked, seen.caught_up = now, self._clock.now(), True
        since = max(seen.overdue_until, min(now, seen.swept) - BEHIND)
        await self.backlogs.look(since)
        now = self._clock.now()
        whole = frozenset(shard for shard in range(SHARDS) if not (seen.is_loading or seen.has_backlog(shard)))
        seen_all = await self._sweep(since, now - _LATE, own_until=now + AHEAD)
        seen.looked = now
        if seen_all:
            seen.swept, seen.whole, seen.caught_up = now, whole, True

    async def read_anew(self) -> None:
        """Forgets what is known of others' shards: another server has the database, or no sweep was made for long."""
        self._coverage.whole = frozenset()
        await self.backlogs.read_anew()

    async def far(self) -> None:
        """Adds rows that are long due and that the wheel does not hold; those that are stuck are set aside."""
        found = set[int]()
        await self._sweep(0, self._clock.now() - BEHIND, found=found)
        self._found_far = {entry: self._found_far.get(entry, 0) + 1 for entry in found}
        if stuck := [entry for entry, times in self._found_far.items() if times == _TIMES]:
            await self._spoilt.pass_over(stuck[:_PIECE])

    def nudge(self) -> None:
        """Has a sweep made at once: somebody has committed messages in a transaction of their own."""
        self._nudged.set()

    async def when_nudged(self) -> None:
        """Waits for a nudge, and sweeps the near rows, or, when none of them is new, all that is due."""
        await self._nudged.wait()
        self._nudged = trio.Event()
        if self._is_behind:
            return
        before, now = self.found, self._clock.now()
        await self._sweep(now - BEHIND, now + AHEAD)
        if self.found == before and now >= self._far_again_at:  # the transaction was open for more than two minutes
            self._far_again_at = now + 1000
            await self.far()

    @property
    def _is_behind(self) -> bool:
        # Then most of what is due is on its way; reading it again would not hasten it.
        return self._pending.behind > _LATE_ITSELF

    async def _sweep(self, since: int, until: int, own_until: int = 0, found: set[int] | None = None) -> bool:
        """Returns whether everything that is there was seen. Of many rows the first shards' hide the others'; a
        dispatcher that is late has many of its own, and leaves it at that."""
        with self._pending.sweep():
            return await self._read(since, until, own_until, found)

    async def _read(self, since: int, until: int, own_until: int, found: set[int] | None) -> bool:
        on_time = self._pending.behind <= _LATE
        left = [shard for shard in range(SHARDS) if self._coverage.has_backlog(shard)]
        ends = dict.fromkeys(self._ownership.held, max(until, own_until)) | dict.fromkeys(left, since)
        # Messages that a rate holds back stay due for long and would hide others' rows; the far sweep looks at them.
        but = self._pending.held_back if own_until else []
        crowded = self._is_behind or self._pending.known(self._clock.now() + AHEAD) > _ROWS
        most = _ROWS_LATE if crowded else _ROWS
        rows = await self._store.read(timers.near, since, until, most, ends, but)
        if len(rows) < most or not on_time:
            await self._add(sorted(rows), found)
            return len(rows) < most
        pages = Pages(self._store, set(range(SHARDS)).difference(left), since, until)
        while (some := await pages.more(_ROWS)) is not None:
            await self._add(sorted(one for run in some for one in zip(*run, strict=True)), found)
        await self._add(sorted(rows), found)  # of its own shards, some rows are only in these
        return True

    async def _add(self, rows: Sequence[timers.Timer], found: set[int] | None) -> None:
        """Adds rows that the wheel does not hold; some at a time, so that other tasks go on in between."""
        for begin in range(0, len(rows), _PIECE):
            some = [one for one in rows[begin : begin + _PIECE] if one[1] not in self._aside]
            self.found += self._pending.add_missing(some, found)
            await trio.lowlevel.checkpoint()

    async def leases(self) -> None:
        """Ends claims whose lease ran out and that nobody here has watched."""
        for key, lease_until in await self._store.read(holdings.over, self._clock.now() - _GRACE, _CLAIMS):
            await self._groups.watch(key, lease_until)

    async def watch_all(self) -> None:
        """After a start, has all open claims watched, so that their leases end on time."""
        for key, lease_until in await self._store.read(holdings.over, _EVER, 100 * _CLAIMS):
            await self._groups.watch(key, lease_until)

    async def idempotency_keys(self) -> None:
        """Forgets idempotency keys whose window is over."""
        while await self._store.write(idempotency.forget, self._clock.now(), _CLAIMS) == _CLAIMS:
            await trio.sleep(0.05)  # writers come first

    async def look(self) -> None:
        """Wakes readers of queues that have grown through others, and groups that may claim."""
        await self._look_for_readers()
        await self._look_for_groups()

    async def _look_for_readers(self) -> None:
        awaited = sorted(self._signals.listeners.awaited)
        self._ends = {queue_id: self._ends[queue_id] for queue_id in awaited if queue_id in self._ends}
        for begin in range(0, len(awaited), _QUEUES):
            ends = await self._store.read(catalogue.queue_ends, awaited[begin : begin + _QUEUES])
            for queue_id, end in ends.items():
                if self._ends.get(queue_id, 0) != end:  # it is lower when another server has the database
                    self._ends[queue_id] = end
                    self._signals.queue_seen(queue_id)

    async def _look_for_groups(self) -> None:
        # Nothing is remembered of what was seen: a group that is full here may have been settled elsewhere, and one
        # that another node has moved by a seek has its old ends. Where nobody may have what there is, this costs a turn
        # a second.
        awaited = sorted(self._signals.doorbells.awaited)
        for begin in range(0, len(awaited), _GROUPS):
            for group_id in await self._store.read(catalogue.claimable, awaited[begin : begin + _GROUPS]):
                self._signals.group_freed(group_id)
