"""The rows of a consumer group that a turn holds locked: its cursors, and the claims that are being settled.

They are locked in the order that everybody keeps: claim rows by key, then the group's cursors. A turn that stood in
line has the first cursor already, and takes claims with SKIP LOCKED. Nothing else is locked, since the end of a queue
is read plainly: an offset below a committed end is committed. What a turn changes it changes here, in memory, and then
writes back.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from ..errors import GroupGone, Locked
from ..ports import Asked, Transaction, Value
from ..records import UNBEGUN, ClaimKey, ClaimRequest, Group, Outcome, Queue, Settlement, is_sound, mended
from ..rows import encode
from ..states import AFTER
from ..stream.stretches import PAGE, Page
from .claim_ids import RANGES
from .holdings import find_ended, find_open
from .reach import Reach, with_partners

MANY = 64
"""Queues of a group, its retry queues included, that a turn locks anyway; of more it looks first which it needs."""
_NEEDED = 16
"""Queues that it takes then at least: those of other tags may be passed."""
_NO_END = 1 << 62
_WIDEST = 1_000
"""As of `claims`: what is said to be wider has been written by somebody else."""
_COUNTERS = {outcome: {"retrying": "retried"}.get(state, state) for outcome, state in AFTER.items()}
"""By outcome, the counter of the cursor that counts it: each has the name of the state, but for one."""


class Expected(NamedTuple):
    """A queue of the topic, and where a group is likely to be in it."""

    queue: Queue
    position: int
    sure: bool
    """Nobody else has moved the group between the last two turns here: it is worth a read."""


@define
class CursorRow:
    """A cursor row under its lock."""

    queue_id: int
    position: int
    next_claim: int
    next_delivery: int
    acked: int
    dead: int
    retried: int
    expired: int
    skipped: int
    parked: int
    changed: bool = False

    def move_to(self, position: int) -> None:
        self.position, self.changed = position, True

    def take_claim_number(self) -> int:
        self.next_claim, self.changed = self.next_claim + 1, True
        return self.next_claim - 1

    def take_delivery_number(self) -> int:
        self.next_delivery, self.changed = self.next_delivery + 1, True
        return self.next_delivery - 1

    def count(self, outcome: Outcome, times: int = 1) -> None:
        """So many of its messages came to this."""
        if times:
            counter = _COUNTERS[outcome]
            setattr(self, counter, getattr(self, counter) + times)
            self.changed = True


@define
class ClaimRow:
    """A claim row under its lock."""

    queue_id: int
    number: int
    token: int
    client: str
    first: int
    size: int
    claimed_at: int
    lease_until: int
    outcome: bytearray = field(converter=bytearray)
    settled_at: bytearray = field(converter=bytearray)
    changed: bool = False

    def __attrs_post_init__(self) -> None:
        if not is_sound(self.outcome, self.size) or len(self.settled_at) != 8 * self.size:
            self.size = min(self.size, max(len(self.outcome), _WIDEST))
            self.outcome = bytearray(mended(self.outcome, self.size))
            self.settled_at = self.settled_at[: 8 * self.size].ljust(8 * self.size, b"\0")
            self.changed = True

    @property
    def ended(self) -> bool:
        return Outcome.OPEN not in self.outcome

    def places(self, *outcomes: Outcome) -> list[int]:
        """Where the messages are of which this has become."""
        return [place for place, outcome in enumerate(self.outcome) if outcome in outcomes]

    def unbegun(self, place: int) -> bool:
        """Whether its client, which would have told, has not begun this one."""
        return bytes(self.settled_at[8 * place : 8 * place + 8]) == UNBEGUN

    def begin(self, place: int, now: int) -> None:
        """A handler has begun it."""
        if self.outcome[place] == Outcome.OPEN:
            self.settle(place, Outcome.OPEN, now)

    def settle(self, place: int, outcome: Outcome, now: int) -> None:
        self.outcome[place] = outcome
        self.settled_at[8 * place : 8 * place + 8] = now.to_bytes(8, "big")
        self.changed = True

    def settle_all(self, outcome: Outcome, now: int) -> None:
        self.outcome[:] = bytes([outcome]) * self.size
        self.settled_at[:] = now.to_bytes(8, "big") * self.size
        self.changed = True

    def log_row(self, group_id: int, number: int, now: int) -> Sequence[Value]:
        """Its row of `delivery`, now that it has ended."""
        return (
            group_id,
            self.queue_id,
            number,
            self.number,
            self.token,
            encode(self.client),
            self.first,
            self.size,
            self.claimed_at,
            now,
            bytes(self.outcome),
            bytes(self.settled_at),
        )


@define
class LockedRows:
    """What a turn holds, and what it has read behind its locks."""

    group: Group
    cursors: Mapping[int, CursorRow]
    """By queue id."""
    claims: dict[tuple[int, int], ClaimRow]
    """By queue id and number, in the order of their locks."""
    claimed: Collection[int]
    """The ids of the queues that are claimed from; others are held for what is settled."""
    ends: Mapping[int, int]
    """Of these, and of those that a turn only looks at; of none when nobody asks for something."""
    found: Mapping[int, int]
    """How far the group was in its queues, those that are not held included, where a turn has a reach."""
    page: Page | None
    """The first messages to claim, where that was guessed right."""
    more_behind: bool
    """There may be queues with something to claim beside those that are locked."""
    undisturbed: bool = True
    """The group is where the turn before has left it, as far as that is known."""
    ended: dict[ClaimKey, bytes] = field(factory=dict[ClaimKey, bytes])
    """The outcomes of claims that had ended, for those who settle once more because an answer was lost."""
    with_users: set[ClaimKey] = field(factory=set[ClaimKey])
    """Claims that could not be locked: a user's own transaction is acking of them."""

    @property
    def claimable(self) -> list[CursorRow]:
        """The cursors of the queues that are claimed from."""
        return [self.cursors[id_] for id_ in self.cursors if id_ in self.claimed and id_ in self.ends]

    @property
    def left(self) -> Mapping[int, int]:
        """How far the group is now, of what was `found`."""
        return {id_: self.cursors[id_].position if id_ in self.cursors else at for id_, at in self.found.items()}

    @property
    def acked(self) -> int:
        """Messages that the group has acked, ever."""
        return sum(cursor.acked for cursor in self.cursors.values())

    @property
    def expired(self) -> int:
        """Messages of the group that have expired, ever."""
        return sum(cursor.expired for cursor in self.cursors.values())

    @property
    def changed(self) -> bool:
        """Whether the turn has done something."""
        return any(cursor.changed for cursor in self.cursors.values())

    def claim(self, key: ClaimKey) -> ClaimRow | None:
        """The claim of this key and token, if it is open."""
        claim = self.claims.get((key.queue_id, key.number))
        return claim if claim is not None and claim.token == key.token else None

    async def find_missing(self, tx: Transaction, settlements: Sequence[Settlement]) -> None:
        """What has become of claims that are to be settled and were not among those locked."""
        if not (missing := self._missing(settlements)):
            return
        # Another turn may have held them; that is over now, since we have the cursors.
        locks = _locks(self.group, missing)
        await tx.fetch_all(locks)
        self.claims |= _by_place(locks)
        missing = [key for key in self._missing(settlements) if key.group_id == self.group.id]
        self.ended |= await find_ended(tx, missing)
        self.with_users |= set(await find_open(tx, [key for key in missing if key not in self.ended]))

    def _missing(self, settlements: Iterable[Settlement]) -> list[ClaimKey]:
        keys = dict.fromkeys(settlement.key for settlement in settlements)
        return [key for key in keys if (key.queue_id, key.number) not in self.claims]

    def count_outside(self) -> None:
        """What users' own transactions have acked since is counted now: they must not lock a cursor."""
        for claim in self.claims.values():
            if outside := claim.outcome.count(Outcome.ACKED_OUTSIDE):
                claim.outcome = claim.outcome.replace(bytes([Outcome.ACKED_OUTSIDE]), bytes([Outcome.ACKED]))
                claim.changed = True
                self.cursors[claim.queue_id].count(Outcome.ACKED, outside)

    async def write_claims(self, tx: Transaction, now: int) -> None:
        """What was settled. A claim with no open message left moves to the log, under a number of its cursor's."""
        ended: dict[int, list[int]] = defaultdict(list)
        log: list[Sequence[Value]] = []
        for claim in self.claims.values():
            if not claim.changed:
                continue
            if claim.ended:
                ended[claim.queue_id].append(claim.number)
                number = self.cursors[claim.queue_id].take_delivery_number()
                log.append(claim.log_row(self.group.id, number, now))
                continue
            place = (self.group.id, claim.queue_id, claim.number)
            await tx.later("claim.change", claim.lease_until, bytes(claim.outcome), bytes(claim.settled_at), *place)
        if log:
            await tx.later_many("delivery.add", log)
        for queue_id, numbers in ended.items():
            await tx.later("claim.remove", self.group.id, queue_id, numbers)

    async def write_cursors(self, tx: Transaction) -> None:
        """Those that have changed."""
        for queue_id, cursor in sorted(self.cursors.items()):
            if cursor.changed:
                await tx.later(
                    "cursor.move",
                    cursor.position,
                    cursor.next_claim,
                    cursor.next_delivery,
                    cursor.acked,
                    cursor.dead,
                    cursor.retried,
                    cursor.expired,
                    cursor.skipped,
                    cursor.parked,
                    self.group.id,
                    queue_id,
                )


async def stand_in_line(tx: Transaction, group: Group) -> Expected | None:
    """Waits for whoever works on the group: a turn that takes all queues takes its first cursor first. Returns where
    the group is in that queue, if claims are likely to be of it."""
    rows = await tx.fetch("cursor.lock", CursorRow, group.id, [min(group.queue_ids)])
    if not group.topic.ordered and len(group.topic.queues) == 1:
        for row in rows:
            if row.queue_id == group.topic.queues[0].id:
                return Expected(group.topic.queues[0], row.position, sure=True)
    return None


async def lock(
    tx: Transaction,
    group: Group,
    settlements: Sequence[Settlement],
    requests: Sequence[ClaimRequest],
    expected: Expected | None,
    *,
    now: int,
    free: bool,
    reach: Reach | None,
    known: Expected | None = None,
) -> LockedRows:
    """Locks what is to be settled, range by range, and the cursors; and reads what is to be claimed. One flight.

    What is `expected` is read together with the locks, or what is `known`, since its cursor is locked already. With
    `free` nobody is waited for who works on these queues: `Locked`, at once. Other nodes' queues are left to whoever
    is at work on them, unless there is nothing else for those who ask. Raises `GroupGone` when there is no cursor any
    more.
    """
    chosen = await _choose_queues(tx, group, settlements, requests, now, reach, free=free)
    claims = _locks(group, {settlement.key for settlement in settlements})
    cursors = Asked("cursor.free" if free else "cursor.lock", CursorRow, group.id, chosen.locked)
    lent = Asked("cursor.free", CursorRow, group.id, chosen.lent)
    beside = Asked("cursor.there", tuple[int, int], group.id, chosen.beside)
    ends = Asked("queue.ends", tuple[int, int], sorted({*chosen.claimed, *chosen.beside}))
    page, ahead = None, known or expected
    if requests and ahead is not None and ahead.sure and ahead.queue.id in chosen.claimed:
        limit = min(PAGE, sum(request.size for request in requests))
        page = Page.of(ahead.queue, ahead.position, _NO_END, limit, returned=False)
    looks: list[Asked[Any]] = [
        *([lent] if chosen.lent else []),
        *([ends] if requests else []),
        *([beside] if chosen.beside else []),
    ]
    await tx.fetch_all([*claims, cursors, *looks, *([page.asked] if page is not None else [])])
    if free and len(cursors.rows) < len(chosen.locked):
        there = await tx.fetch("cursor.there", tuple[int, int], group.id, chosen.locked)
        if len(there) > len(cursors.rows):
            raise Locked("another transaction is working on this group")
    by_queue = {cursor.queue_id: cursor for cursor in sorted([*cursors.rows, *lent.rows], key=lambda row: row.queue_id)}
    if not by_queue:
        raise GroupGone("the group has been removed meanwhile")
    found = None if expected is None else by_queue.get(expected.queue.id)
    undisturbed = expected is None or found is None or found.position == expected.position
    held = sorted(set(chosen.lent) - by_queue.keys())
    at_work = await tx.fetch("cursor.there", tuple[int, int], group.id, held) if held else []
    claimed = set(chosen.claimed) - with_partners(group, dict(at_work).keys())
    found_at = dict([*beside.rows, *at_work, *((row.queue_id, row.position) for row in by_queue.values())])
    behind = {id_ for id_, end in ends.rows if found_at.get(id_, end) < end}
    if free and reach is not None and reach.everywhere and behind and not behind & claimed and not settlements:
        raise Locked("other nodes are working on all that there is to claim")
    more_behind = chosen.more_behind or not behind <= claimed
    rows = (by_queue, _by_place(claims), claimed, dict(ends.rows), found_at)
    locked = LockedRows(group, *rows, page, more_behind, undisturbed)
    await locked.find_missing(tx, settlements)
    return locked


class _Chosen(NamedTuple):
    """Of the queues of a group, by id."""

    locked: Sequence[int]
    """Whose cursors a turn locks."""
    claimed: Collection[int]
    """From which of these, and of those lent, it claims."""
    lent: Sequence[int] = ()
    """Other nodes', which it locks, too, if nobody is at work on them."""
    beside: Sequence[int] = ()
    """From which other nodes claim. It only looks whether there is something."""
    more_behind: bool = False
    """Others, that it does not look at, may have something to claim."""


async def _choose_queues(
    tx: Transaction,
    group: Group,
    settlements: Sequence[Settlement],
    requests: Sequence[ClaimRequest],
    now: int,
    reach: Reach | None,
    *,
    free: bool,
) -> _Chosen:
    """The queues of a turn: all; or of very many those that it has to do with, and where several nodes share the group
    those that it reaches.

    Of very many the first is always among these: whoever takes a turn of such a group locks that one. On an ordered
    topic a turn shares out all queues.
    """
    every = sorted(group.queue_ids)
    if len(every) <= MANY and reach is not None:
        claimed = reach.queues(now) if requests else set[int]()
        settled = with_partners(group, {settlement.key.queue_id for settlement in settlements})
        # Who has found nothing of its own stands in line for what others hold.
        lent = set[int]() if reach.everywhere and not free else claimed - reach.own - settled
        beside = [queue_id for queue_id in every if queue_id not in claimed] if requests else []
        return _Chosen(sorted((claimed | settled) - lent) or every[:1], claimed, sorted(lent), beside)
    if len(every) <= MANY or group.topic.ordered:
        return _Chosen(every, every)
    chosen = {min(every), *(settlement.key.queue_id for settlement in settlements)}
    more_behind = False
    if requests:
        most = max(_NEEDED, len(requests), min(RANGES, sum(request.size for request in requests)))
        behind = await tx.fetch("cursor.behind", tuple[int, int], group.id, most + 1)
        more_behind = len(behind) > most
        chosen.update(queue_id for queue_id, _ in behind[:most])
    locked = sorted(chosen.intersection(every))
    return _Chosen(locked, locked, more_behind=more_behind)


def _locks(group: Group, keys: Collection[ClaimKey]) -> list[Asked[ClaimRow]]:
    """The claims, queue by queue in the order in which they are locked."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for queue_id, number in sorted({(key.queue_id, key.number) for key in keys}):
        numbers[queue_id].append(number)
    return [Asked("claim.lock", ClaimRow, group.id, queue_id, some) for queue_id, some in numbers.items()]


def _by_place(locks: Iterable[Asked[ClaimRow]]) -> dict[tuple[int, int], ClaimRow]:
    return {(claim.queue_id, claim.number): claim for lock in locks for claim in lock.rows}
