"""The sweeps: what a nudge looks for, and how often others' queues are looked at."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest
import trio
import trio.testing

from support.hand_time import HandTime
from tarry.service.engine.cluster.ownership import whole
from tarry.service.engine.consume.groups import Groups
from tarry.service.engine.dispatch.loader import Loader
from tarry.service.engine.dispatch.spoilt import Spoilt
from tarry.service.engine.dispatch.sweeps import Sweeps
from tarry.service.engine.signals import Signals
from tarry.service.engine.state.coverage import Coverage
from tarry.service.engine.state.pending import Pending
from tarry.service.rounds import every
from tarry.store import catalogue
from tarry.store.errors import Unavailable
from tarry.store.store import Store
from tarry.store.timers import timers
from tarry.store.timers.order import Orders
from tarry.wheel.shards import shard_of

NOW = 1_795_000_000_000


class Awaiting:
    """Whose queues, or which groups, somebody waits for; and what was told of them."""

    def __init__(self) -> None:
        self.awaited: set[int] = set()
        self.told: list[int] = []


class Rows(HandTime):
    """A store that has what is due, and a hand that holds what it was told of."""

    def __init__(self) -> None:
        super().__init__(NOW)
        self.due: list[tuple[int, int]] = []
        self.held: set[int] = set()
        self.sweeping = False
        self.asked: list[tuple[int, int]] = []
        self.behind = 0
        self.backend = self
        self.shared = True
        self.oldest_in_lanes: int | None = None
        self.ownership = whole()
        self.coverage: Coverage
        self.aside: set[int] = set()
        self.held_back: list[int] = []
        self.passed_over: list[list[int]] = []
        self.untils: list[dict[int, int]] = []
        self.limits: list[int] = []
        self.soon: list[int] = []
        self.listeners = Awaiting()
        self.doorbells = Awaiting()
        self.claimable: set[int] = set()
        self.grown: list[int] = []
        self.ends: dict[int, int] = {}
        self.looked_at: list[int] = []
        self.away = False
        self.moved: list[tuple[int, int]] = []
        self.stuck_entries: list[list[int]] = []
        self.orders = Orders()
        self.reloads = 0
        self.meanwhile: Callable[[], object] = lambda: None

    async def read(self, function: Any, *args: Any) -> Any:
        known: dict[Any, Any] = {
            catalogue.queue_ends: self.queue_ends,
            catalogue.claimable: self.groups_to_claim,
            timers.near: self.near,
            timers.due_messages: self.due_messages,
            timers.due_moved: self.due_moved,
            timers.due_retries: self.due_retries,
            self.orders.brought_by_others: self.ordered,
        }
        if self.away:
            raise Unavailable("away")
        return await known[function](*args)

    async def queue_ends(self, queue_ids: list[int]) -> dict[int, int]:
        self.looked_at += queue_ids
        return {queue_id: self.ends[queue_id] for queue_id in queue_ids}

    async def groups_to_claim(self, group_ids: list[int]) -> list[int]:
        return [id_ for id_ in group_ids if id_ in self.claimable]

    async def near(
        self, since: int, until: int, limit: int, untils: dict[int, int], but: list[int] | None = None
    ) -> list[tuple[int, int]]:
        if but is None:  # the backlogs'
            rows = [*self.due, *self.moved]
            return [row for row in rows if since <= row[0] < untils.get(shard_of(row[1]), until)][:limit]
        assert self.sweeping, "what goes from here on may have been read"
        self.meanwhile()
        self.passed_over.append(but)
        self.asked.append((since, until))
        self.untils.append(untils)
        self.limits.append(limit)
        return [row for row in self.due if since <= row[0] < untils.get(shard_of(row[1]), until)][:limit]

    async def due_messages(self, shard: int, after: int, until: int, limit: int) -> list[tuple[int, int]]:
        found = [(id_, due) for due, id_ in self.due if id_ >= max(after, 0) and id_ % 16 == shard and due < until]
        return sorted(found)[:limit]

    async def due_moved(self, shard: int, after: tuple[int, int], until: int, limit: int) -> list[tuple[int, int]]:
        found = [(due, id_) for due, id_ in self.moved if (due, id_) > after and id_ % 16 == shard and due < until]
        return [(id_, due) for due, id_ in sorted(found)[:limit]]

    async def due_retries(self, shard: int, after: int, until: int, limit: int) -> list[int]:
        found = [~entry for due, entry in self.due if entry < 0 and ~entry % 16 == shard and due < until]
        return sorted(id_ for id_ in found if id_ >= after)[:limit]

    async def ordered(self, ids: list[int]) -> list[int]:
        return [entry for _, entry in self.due if entry in ids]

    async def now(self) -> int:
        if self.away:
            raise Unavailable("away")
        return self.ms

    async def reload(self) -> None:
        self.reloads += 1

    @contextmanager
    def sweep(self) -> Generator[None, None, None]:
        self.sweeping = True
        yield
        self.sweeping = False

    def add_missing(self, timers: list[tuple[int, int]], found: set[int] | None = None) -> int:
        assert self.sweeping
        new = {entry for _, entry in timers} - self.held
        self.held |= new
        if found is not None:
            found |= new
        return len(new)

    async def pass_over(self, entries: Sequence[int]) -> None:
        self.stuck_entries.append(list(entries))

    def group_freed(self, group_id: int) -> None:
        self.doorbells.told.append(group_id)

    async def watch(self, *_: Any) -> None:
        raise AssertionError

    def known(self, until: int) -> int:
        return sum(due <= until for due in self.soon)

    def queue_seen(self, queue_id: int) -> None:
        self.grown.append(queue_id)


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
async def sweeps(rows: Rows) -> Sweeps:
    await rows.clock.take()
    rows.coverage = Coverage(rows.clock, rows.ownership, shared=True)
    return Sweeps(
        cast(Store, rows),
        cast(Pending, rows),
        rows.clock,
        rows.ownership,
        rows.coverage,
        cast(Signals, rows),
        rows.aside,
        cast(Spoilt, rows),
        cast(Groups, rows),
        cast(Loader, rows),
    )


async def nudged(sweeps: Sweeps) -> None:
    sweeps.nudge()
    await sweeps.when_nudged()


async def test_a_nudge_finds_what_was_just_committed_and_looks_no_farther(rows: Rows, sweeps: Sweeps) -> None:
    rows.due = [(NOW - 10, 1)]
    await nudged(sweeps)
    assert rows.held == {1}
    assert rows.asked == [(NOW - 120_000, NOW + 1500)]


async def test_a_nudge_after_a_long_transaction_finds_it_too(rows: Rows, sweeps: Sweeps) -> None:
    rows.due = [(NOW - 3_600_000, 1)]
    await nudged(sweeps)
    assert rows.held == {1}


async def test_the_far_sweep_follows_nudges_once_a_second_at_most(rows: Rows, sweeps: Sweeps) -> None:
    for _ in range(10):
        await nudged(sweeps)
    assert len([asked for asked in rows.asked if asked[0] == 0]) == 1
    rows.ms += 1000
    await nudged(sweeps)
    assert len([asked for asked in rows.asked if asked[0] == 0]) == 2


async def test_a_store_that_is_away_is_asked_again(autojump_clock: trio.testing.MockClock) -> None:
    taken: list[float] = []
    begin = trio.current_time()

    async def look() -> None:
        taken.append(round(trio.current_time() - begin, 3))
        if len(taken) > 1:
            raise Unavailable("away")

    with trio.move_on_after(3.5):
        await every(1, look)
    assert taken == [0, 1, 2, 3]


async def test_the_look_is_at_the_queues_that_somebody_listens_to(rows: Rows, sweeps: Sweeps) -> None:
    rows.ends = dict.fromkeys(range(3000), 0)
    await sweeps.look()  # nobody waits
    assert rows.looked_at == []
    rows.listeners.awaited = {7, 8}
    await sweeps.look()
    rows.ends[8] = rows.ends[9] = 1
    await sweeps.look()
    await sweeps.look()
    assert rows.looked_at == [7, 8] * 3
    assert rows.grown == [8]
    rows.listeners.awaited = set(range(2500))
    await sweeps.look()
    assert len(rows.looked_at) == 6 + 2500


async def test_groups_that_have_something_to_claim_are_told_each_time(rows: Rows, sweeps: Sweeps) -> None:
    rows.doorbells.awaited = {1, 2, 3}
    rows.claimable = {2, 4}
    await sweeps.look()
    assert rows.doorbells.told == [2]
    await sweeps.look()  # another server may have settled what made it full
    assert rows.doorbells.told == [2, 2]


async def test_own_shards_are_swept_ahead_and_all_shards_behind(rows: Rows, sweeps: Sweeps) -> None:
    rows.ownership.held = frozenset({1})
    own, others = 1, 2
    rows.due = [(NOW + 1_400, 16 + own), (NOW - 400, 32 + own), (NOW - 400, 16 + others), (NOW - 600, 32 + others)]
    rows.due += [(NOW + 1_600, 48 + own), (NOW - 600, ~(48 + others)), (NOW - 400, ~(48 + own))]
    await sweeps.near()
    assert rows.held == {16 + own, 32 + own, 32 + others, ~(48 + others), ~(48 + own)}
    rows.ms += 200
    await sweeps.near()
    assert 16 + others in rows.held


async def test_a_nudge_looks_ahead_in_all_shards(rows: Rows, sweeps: Sweeps) -> None:
    rows.ownership.held = frozenset({1})
    await sweeps.near()
    rows.due = [(NOW - 10, 2)]
    await nudged(sweeps)
    assert rows.held == {2}


async def test_of_others_shards_nothing_is_swept_while_they_have_a_backlog_in_order(rows: Rows, sweeps: Sweeps) -> None:
    """Far more waits than a look sees; they bring it in its order."""
    rows.ownership.held = frozenset({1})
    long_ago = NOW - 3_600_000
    old, late, others, own = (long_ago, long_ago << 21 | 2), (NOW - 600, 18), (NOW - 600, 3), (NOW - 600, 17)
    rows.due = [old, late, others, own]
    for sweep in (sweeps.near, partial(nudged, sweeps), sweeps.far):
        await sweep()
        assert rows.held == {3, 17}
        assert rows.coverage.has_backlog(2)
    rows.due.remove(old)
    rows.coverage.loaded()
    await sweeps.near()
    assert rows.held == {3, 17, 18}
    rows.due.append(old)
    await sweeps.far()
    assert old[1] in rows.held, "whatever comes later it knows of what it swept"


async def test_how_far_back_a_look_goes(rows: Rows, sweeps: Sweeps) -> None:
    rows.ownership.held = frozenset({1})
    long_ago = NOW - 3_600_000
    rows.due = [(long_ago, long_ago << 21 | 2)]
    await sweeps.near()
    assert [rows.coverage.unseen_from(shard, NOW) for shard in (1, 2, 3)] == [NOW - 1_500, NOW - 120_000, NOW - 1_500]
    rows.due.clear()
    while_it_sweeps: list[int] = []
    rows.meanwhile = lambda: while_it_sweeps.append(rows.coverage.unseen_from(2, NOW))
    await sweeps.near()
    assert while_it_sweeps == [NOW - 120_000]
    assert rows.coverage.unseen_from(2, NOW) == NOW - 1_500


async def test_a_hand_that_is_far_behind_is_swept_for_now_and_then(rows: Rows, sweeps: Sweeps) -> None:
    """What a dead node leaves comes late by a second and a half: that is not far."""
    rows.due = [(NOW, 1)]
    rows.behind = 2_001
    for _ in range(4):
        await sweeps.near()
    assert rows.asked == []
    await sweeps.near()
    assert rows.held == {1}
    rows.due.append((NOW, 17))
    rows.behind = 1_999
    await sweeps.near()
    assert rows.held == {1, 17}


async def test_where_nobody_else_writes_a_crowd_is_swept_once_in_a_minute(rows: Rows, sweeps: Sweeps) -> None:
    rows.shared, rows.oldest_in_lanes = False, NOW
    for _ in range(120):
        await sweeps.near()
    assert len(rows.asked) == 2
    rows.oldest_in_lanes = None
    for _ in range(3):
        await sweeps.near()
    assert len(rows.asked) == 5, "when it is through each second again"
    rows.shared, rows.oldest_in_lanes = True, NOW
    for _ in range(3):
        await sweeps.near()
    assert len(rows.asked) == 8


@pytest.mark.parametrize("shared", [False, True])
async def test_what_fell_due_in_an_outage_is_found_after_it(rows: Rows, sweeps: Sweeps, shared: bool) -> None:
    rows.shared = rows.coverage._shared = shared
    rows.coverage.loading()
    rows.coverage.loaded()
    await sweeps.near()
    rows.due = [(NOW + 1_000, 1), (NOW + 700_000, 2)]
    rows.away = True
    rows.ms += 600_000
    with pytest.raises(Unavailable):
        await sweeps.near()
    rows.away = False
    rows.behind, rows.ms = 600_000, NOW + 800_000
    for _ in range(5):
        await sweeps.near()
    assert (rows.held, rows.reloads) == (({2}, 1) if shared else ({1, 2}, 0)), "the loader reads the other"
    rows.behind = 0
    await sweeps.near()
    rows.due = [(NOW, 3)]
    await sweeps.near()
    assert 3 not in rows.held, "it looks no farther behind than it must"


@pytest.mark.parametrize("away", [10_000, 10_001, 120_000, 120_001])
async def test_after_an_outage_looks_go_far_until_all_is_seen(rows: Rows, sweeps: Sweeps, away: int) -> None:
    """Others may have accepted much that nobody here knows of. After a long one all is read as at a start."""
    rows.ownership.held = frozenset({1})
    rows.coverage.loading()
    rows.coverage.loaded()
    await sweeps.near()

    def far() -> list[bool]:
        return [rows.coverage.unseen_from(shard, rows.ms) == rows.ms - 120_000 for shard in (1, 2)]

    assert (far(), rows.coverage.leaves(2)) == ([False, False], False)
    rows.ms += away
    assert far() == 2 * [away > 10_000]
    assert [rows.coverage.leaves(shard) for shard in (1, 2)] == [False, away > 120_000]
    old = rows.ms - 130_000
    rows.due = [(old, old << 21 | 2)] if away > 120_000 else []
    rows.meanwhile = lambda: seen.append(far())
    seen: list[list[bool]] = []
    await sweeps.near()
    assert rows.reloads == (away > 120_000)
    assert seen == [{10_000: [False, False], 120_001: [False, True]}.get(away, [True, True])]
    assert [rows.coverage.leaves(shard) for shard in (1, 2)] == [False, away > 120_000]
    assert far() == [False, away > 120_000]
    rows.due.clear()
    await sweeps.near()
    assert (far(), rows.coverage.leaves(2), rows.reloads) == ([False, False], False, away > 120_000)


async def test_who_writes_alone_was_never_away(rows: Rows, sweeps: Sweeps) -> None:
    rows.shared = rows.coverage._shared = False
    rows.coverage.loading()
    rows.coverage.loaded()
    await sweeps.near()
    rows.ms += 600_000
    await sweeps.near()
    assert rows.reloads == 0
    assert rows.coverage.unseen_from(1, rows.ms) == rows.ms - 1_500


async def test_while_overdue_rows_are_read_only_what_falls_due_from_then_on_is_swept(
    rows: Rows, sweeps: Sweeps
) -> None:
    rows.due = [(NOW - 60_000, 1), (NOW - 1, 2), (NOW + 1_000, 3)]
    rows.coverage.loading()
    await sweeps.near()
    assert rows.held == {3}, "the loader reads the others, oldest first"
    rows.due += [(NOW + 100_000, 4), (NOW + 299_000, 5)]
    for _ in range(300):
        rows.ms += 1_000
        await sweeps.near()
    assert rows.held == {3, 4, 5}
    rows.due.append((rows.ms - 119_000, 6))  # of a transaction that was open for long
    rows.coverage.loaded()
    await sweeps.near()
    assert rows.held == {3, 4, 5, 6}


async def test_a_dead_nodes_overdue_rows_do_not_wait_for_the_horizon(rows: Rows, sweeps: Sweeps) -> None:
    """It counts as alive when this node starts, so its shards are not loaded; the horizon of this node's own may be
    millions of rows."""
    rows.ownership.held = frozenset({1})
    ordered, other = (NOW - 3_000, (NOW - 3_000) << 21 | 2), (NOW - 2_000, ~((NOW - 2_000) << 21 | 3))
    rows.due = [ordered, other]
    rows.coverage.loading()
    await sweeps.near()
    assert rows.held == set()
    assert rows.coverage.leaves(2), "its node may be alive, and promote in order what is older"
    rows.coverage.overdue_loaded()
    await sweeps.near()
    assert rows.held == {ordered[1], other[1]}
    assert not rows.coverage.leaves(2)
    assert rows.coverage.unseen_from(2, NOW) == NOW - 120_000, "not all that waits in order is in the wheel yet"
    rows.coverage.loaded()
    await sweeps.near()
    assert rows.coverage.unseen_from(2, NOW) == NOW - 1_500


@pytest.mark.parametrize("far", [False, True])
async def test_more_than_one_look_shows_is_read_in_pages(
    rows: Rows, sweeps: Sweeps, far: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first shards' rows hide the others', also those that are known, or wait apart."""
    monkeypatch.setattr("tarry.service.engine.dispatch.sweeps._ROWS", 5)
    due = NOW - (600_000 if far else 1_000)
    known = [due << 21 | number << 4 for number in range(6)]
    hidden = [due << 21 | 15, ~(due << 21 | 31), due << 21 | 47]
    rows.held = set(known)
    rows.due = [(due, entry) for entry in known + hidden]
    rows.moved = [(due + 1, 63)]
    rows.behind = 501
    await (sweeps.far() if far else sweeps.near())
    assert rows.held == set(known), "its own are late too: it reads no more than that"
    rows.behind = 0
    await (sweeps.far() if far else sweeps.near())
    assert rows.held == {*known, *hidden, 63}
    assert sweeps.found == 4


async def test_before_and_in_a_crowd_of_its_own_a_hand_is_swept_for_with_a_short_look(
    rows: Rows, sweeps: Sweeps
) -> None:
    """It would be shown nothing but its own, and who is served would wait for ten thousand rows."""
    rows.soon = [NOW + 1_499] * 10_001
    for many in (10_001, 10_000):
        del rows.soon[many:]
        await sweeps.near()
    rows.soon = [NOW + 1_501] * 10_001
    await sweeps.near()
    assert rows.limits == [2_000, 10_000, 10_000]


async def test_what_a_rate_holds_back_hides_nobody_from_near_sweeps(rows: Rows, sweeps: Sweeps) -> None:
    rows.held_back = [7]
    await sweeps.near()
    await sweeps.far()
    assert rows.passed_over == [[7], []], "the far sweep looks at all"


async def test_what_the_far_sweep_finds_again_and_again_is_stuck(sweeps: Sweeps, rows: Rows) -> None:
    late, once = (NOW - 600_000, 16), (NOW - 600_000, 32)
    rows.due = [late, once]
    for _ in range(5):
        await sweeps.far()
        rows.held.clear()  # promotion was given them
        rows.due = [late]
    assert rows.stuck_entries == [[16]], "the third time, and once"
