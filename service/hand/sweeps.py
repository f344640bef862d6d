"""The sweeps: what is looked for from time to time, because no event says that it is there.

- near, every second, now and then where the hand is behind: rows due from two minutes behind the hand to a second and
  a half ahead that the wheel does not know of, put there by another node or by a user's own SQL. (Five seconds ahead
  would read every row five times: measured, it doubles the lateness at 1000 due a second.) Of shards that other nodes
  hold it looks at what is late by half a second: where a node has died, its timers come a second and a half late at
  most, before anybody has its shards. After an outage it begins where the last whole one ended; after a long one all
  is read as at a start. While the wheel is filled for the first time, which may take long, it looks at what falls due
  from then on: another node may die meanwhile, and users' own transactions go on. Shards of other nodes with a backlog
  in order are left to them.
- far, every minute: whatever else is due. Only rows that were never promoted are there, from transactions that were
  committed hours late. What it finds three times promotion has passed over twice: such rows are `stuck`. Both, when
  somebody says that a transaction of theirs was committed (`nudge`).
- leases, every ten seconds: claims whose lease ran out and that no coordinator here has watched.
- idempotency_keys, every two minutes: idempotency keys whose window is over, a bounded batch at a time.
- look, every second while somebody waits: queues that other nodes have made grow, for readers, and groups that have
  something to claim, for whatever reason: other nodes publish, seek and settle.
"""

from collections.abc import Awaitable, Callable, Sequence, Set

import trio
from attrs import define, field

from ...store import catalogue
from ...store.groups import holdings
from ...store.ids import SHARDS
from ...store.records import ClaimKey
from ...store.store import Store
from ...store.stream import idempotency
from ...store.timers import timers
from ...store.timers.order import REACH
from ..clock import Clock
from ..stream.growth import Growth
from .backlogs import Backlogs
from .hand import Hand
from .pages import Pages

_BEHIND = 120_000
_AHEAD = 1_500
_LATE = 500
"""Milliseconds after which what another node was to bring is brought by this one."""
_AWAY = 10_000
"""Milliseconds without a sweep after which others may have much that nobody here knows of: the store was away."""
_HAND_BEHIND = 2_000
"""Milliseconds that a hand may be behind and yet be swept for each time: what it is brought of a dead node's is late
already."""
_PASSED, _PASSED_ALONE = 4, 59
"""Sweeps that are passed over before the next, for a hand that is behind; and where no other server and nobody's own
transaction writes, while a crowd is on its way: what is due then is the hand's own, and to read it again costs those
who are served 40 ms."""
_ROWS, _ROWS_LATE = 10_000, 2_000
"""Of each kind in one look; where there are more, whoever is on time itself reads on in pages. A hand that is behind
has mostly its own before it, and one that knows of more than ten thousand would see no more than those: to read them
takes 40 ms."""
_PIECE = 500
"""Rows that are looked for in the wheel in one go: some milliseconds."""
_TIMES = 3
_CLAIMS = 1_000
_QUEUES = 1_000
_GROUPS = 1_000
_GRACE = 2_000
"""Milliseconds for the coordinator that granted a claim to end it itself."""
_EVER = 1 << 60


@define(eq=False)
class Sweeps:
    """The steps of the sweeps, over one hand."""

    _store: Store
    _hand: Hand
    _clock: Clock
    _lost: Callable[[ClaimKey, int], Awaitable[None]] = field(kw_only=True, alias="lost")
    _growth: Growth = field(kw_only=True, alias="growth")
    _nudged: trio.Event = field(factory=trio.Event, init=False)
    _ends: dict[int, int] = field(factory=dict[int, int], init=False)
    _far_again_at: int = field(default=0, init=False)
    _stuck: Callable[[Sequence[int]], Awaitable[None]] = field(kw_only=True, alias="stuck")
    _reload: Callable[[], Awaitable[None]] = field(kw_only=True, alias="reload")
    backlogs: Backlogs = field(init=False)
    _found_far: dict[int, int] = field(factory=dict[int, int], init=False)
    """What the last far sweep has found, and how many of them have found it one after the other."""
    found: int = field(default=0, init=False)
    _swept: int = field(default=_EVER, init=False)
    """When the last near sweep was made that saw all."""
    _whole: Set[int] = field(default=frozenset[int](), init=False)
    """Shards of which one was made since what waits is in the wheel: what others have not brought in time is known,
    too."""
    _caught_up: bool = field(default=True, init=False)
    """All was seen since the store was away: what others wrote for shards of this node is known."""
    _looked: int = field(default=_EVER, init=False)
    """When the last near sweep was made."""
    _passed: int = field(default=0, init=False)
    _from: int = field(default=0, init=False)
    """The loader has read, or is reading, what was due before then, in the order of its time."""

    def __attrs_post_init__(self) -> None:
        self.backlogs = Backlogs(self._store, self._hand.shares)

    def loading(self) -> None:
        """From now on the wheel is filled."""
        self._from = self._swept = self._looked = self._clock.now()

    def loaded(self) -> None:
        """What waits is in the wheel."""
        self._from = 0

    async def near(self) -> None:
        """Adds near rows that the wheel does not hold."""
        now = self._clock.now()
        alone = not self._store.backend.shared and self._hand.crowd.oldest is not None
        if not self._was_away(_AWAY) and self._passed < (_PASSED_ALONE if alone else _PASSED if self._is_behind else 0):
            self._passed += 1
            return
        self._passed = 0
        if self._was_away(_AWAY):
            self._whole, self._caught_up = frozenset(), False
        if self._was_away(_BEHIND) and self._from == 0:  # as at a start
            await self._store.now()  # it is there again
            await self.read_anew()
            await self._reload()
            self._swept, self._looked, self._caught_up = now, self._clock.now(), True
        since = max(self._from, min(now, self._swept) - _BEHIND)
        await self.backlogs.look(since)
        now = self._clock.now()
        whole = frozenset(shard for shard in range(SHARDS) if self._from == 0 and shard not in self.backlogs)
        seen_all = await self._sweep(since, now - _LATE, own_until=now + _AHEAD)
        self._looked = now
        if seen_all:
            self._swept, self._whole, self._caught_up = now, whole, True

    async def read_anew(self) -> None:
        """The store, or what is known of it, is another than before: what others have is not known."""
        self._whole = frozenset()
        await self.backlogs.read_anew()

    def leaves(self, shard: int) -> bool:
        """Whether what is ordered of a shard is left to the node that has it."""
        return shard in self.backlogs or (self._was_away(_BEHIND) and shard not in self._hand.shares.held)

    def _was_away(self, milliseconds: int) -> bool:
        """Whether others may have written for so long what no sweep has seen."""
        return self._store.backend.shared and self._clock.now() - self._looked > milliseconds

    async def far(self) -> None:
        """Adds rows that are long due and that the wheel does not hold."""
        found = set[int]()
        await self._sweep(0, self._clock.now() - _BEHIND, found=found)
        self._found_far = {entry: self._found_far.get(entry, 0) + 1 for entry in found}
        if stuck := [entry for entry, times in self._found_far.items() if times == _TIMES]:
            await self._stuck(stuck[:_PIECE])

    def nudge(self) -> None:
        """Somebody has committed messages of their own transaction: they are looked for at once."""
        self._nudged.set()

    async def when_nudged(self) -> None:
        """Waits for a nudge, and takes the near rows, or, when none of them is new, all that is due."""
        await self._nudged.wait()
        self._nudged = trio.Event()
        if self._is_behind:
            return
        before, now = self.found, self._clock.now()
        await self._sweep(now - _BEHIND, now + _AHEAD)
        if self.found == before and now >= self._far_again_at:  # it was open for more than two minutes
            self._far_again_at = now + 1000
            await self.far()

    def unseen_from(self, shard: int, due: int) -> int:
        """From when on something may wait in a shard that is due before that time, and that nobody here knows of."""
        known = shard in self._whole or (self._caught_up and shard in self._hand.shares.held)
        if known and not self._was_away(_AWAY):
            return max(self._swept - _AHEAD, due - REACH)
        return due - _BEHIND

    @property
    def _is_behind(self) -> bool:
        # Most of what is due is on its way then; reading it again would not hasten it.
        return self._hand.behind > _HAND_BEHIND

    async def _sweep(self, since: int, until: int, own_until: int = 0, found: set[int] | None = None) -> bool:
        """Whether all that is there was seen. Of many rows the first shards' hide the others'; whose own hand is late
        has many of its own, and leaves it at that."""
        with self._hand.sweep():
            return await self._read(since, until, own_until, found)

    async def _read(self, since: int, until: int, own_until: int, found: set[int] | None) -> bool:
        on_time = self._hand.behind <= _LATE
        left = [shard for shard in range(SHARDS) if shard in self.backlogs]
        ends = dict.fromkeys(self._hand.shares.held, max(until, own_until)) | dict.fromkeys(left, since)
        # What a rate holds back lies there for long; the far sweep looks at it, or it would hide others' rows.
        but = self._hand.crowd.held_back if own_until else []
        crowded = self._is_behind or self._hand.known(self._clock.now() + _AHEAD) > _ROWS
        most = _ROWS_LATE if crowded else _ROWS
        rows = await self._store.read(timers.near, since, until, most, ends, but)
        if len(rows) < most or not on_time:
            await self._add(sorted(rows), found)
            return len(rows) < most
        pages = Pages(self._store, set(range(SHARDS)).difference(left), since, until)
        while (some := await pages.more(_ROWS)) is not None:
            await self._add(sorted(one for run in some for one in zip(*run, strict=True)), found)
        await self._add(sorted(rows), found)  # of its own shards some more is among them
        return True

    async def _add(self, rows: Sequence[timers.Timer], found: set[int] | None) -> None:
        """Adds those that the wheel does not hold; some at a time, for others do not wait until all are looked for."""
        for begin in range(0, len(rows), _PIECE):
            self.found += self._hand.add_missing(rows[begin : begin + _PIECE], found)
            await trio.lowlevel.checkpoint()

    async def leases(self) -> None:
        """Ends claims whose lease ran out without anybody here watching."""
        for key, lease_until in await self._store.read(holdings.over, self._clock.now() - _GRACE, _CLAIMS):
            await self._lost(key, lease_until)

    async def watch_all(self) -> None:
        """After a start: all open claims, so that their leases end on time."""
        for key, lease_until in await self._store.read(holdings.over, _EVER, 100 * _CLAIMS):
            await self._lost(key, lease_until)

    async def idempotency_keys(self) -> None:
        """Forgets idempotency keys whose window is over."""
        while await self._store.write(idempotency.forget, self._clock.now(), _CLAIMS) == _CLAIMS:
            await trio.sleep(0.05)  # writers come first

    async def look(self) -> None:
        """Tells readers of queues that have grown by somebody else's hand, and groups that they may claim."""
        await self._look_for_readers()
        await self._look_for_groups()

    async def _look_for_readers(self) -> None:
        awaited = sorted(self._growth.listeners.awaited)
        self._ends = {queue_id: self._ends[queue_id] for queue_id in awaited if queue_id in self._ends}
        for begin in range(0, len(awaited), _QUEUES):
            ends = await self._store.read(catalogue.queue_ends, awaited[begin : begin + _QUEUES])
            for queue_id, end in ends.items():
                if self._ends.get(queue_id, 0) != end:  # less is there when another server has the database
                    self._ends[queue_id] = end
                    self._growth.seen(queue_id)

    async def _look_for_groups(self) -> None:
        # No mark of what was seen: a group that is full here may have been settled elsewhere, one that another has
        # sought has its old ends. Where nobody may have what there is, it costs a turn a second.
        awaited = sorted(self._growth.groups.awaited)
        for begin in range(0, len(awaited), _GROUPS):
            for group_id in await self._store.read(catalogue.claimable, awaited[begin : begin + _GROUPS]):
                self._growth.groups.look_again(group_id)
