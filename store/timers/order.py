"""Keeps order when messages fall due: of one order, earlier messages go to the stream first, whichever node promotes.

An order is an ordering key of an ordered topic, or all messages without a key in one of its queues. Its messages lie in
one shard (`placing`), so mostly one node has them in its wheel. But another node may have some of them, which it
received or found late; so may a user's own transaction; and rescheduled messages lie apart. So promotion looks again,
under the lock of the queue, which only one can hold: messages of the same order that are due and earlier go along.

Messages that another transaction has locked cannot go along. A node that promotes them gives them back at once, since
it finds the queue locked; and a node that stands still loses its lock after two seconds. So later messages of the order
are held back for a little longer than that. If the lock still holds, it is a user's transaction, which may be open for
an hour: the locked message is overtaken, and takes its place when that ends.

A schedule's next message is made when the one before goes. So when several of its fire times have passed, later
messages of its order wait until the message that is made then has gone.

Where a release rate holds messages back, only the node that has its shard releases an order. Messages with a guard wait
for its answer, and keep no order.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from attrs import define, field

from ..ids import SHARDS, first_id, places_of, shard_of
from ..ports import Transaction
from ..rows import GUARDED, Due

REACH = 4_000
"""How many milliseconds before the first message of a batch others are looked for; sweeps find those due before."""
_PATIENCE = 2_500
"""Milliseconds after which a locked message is overtaken. The server ends a writing session that is idle for two
seconds."""
_AT_ONCE = 500
"""How many messages go along with a batch at most."""
_REMEMBERED = 10_000
"""For how many locked messages it is remembered since when they are locked."""

Rank = tuple[int, int, int]
"""The rank of a message in its order: by `deliver_at`, then by when it was accepted, then by id."""

_Order = tuple[int, bytes | None]
"""A queue and an ordering key."""


class Found(NamedTuple):
    """A waiting message of an order, read without a lock."""

    id: int
    due: int
    queue_id: int
    ordering_key: bytes | None
    deliver_at: int
    accepted_at: int
    shard: int

    @property
    def address(self) -> int:
        """Its place in `delay`, as `Waiting.place`."""
        return self.id if self.shard < SHARDS else ~self.id

    @property
    def order(self) -> _Order:
        return self.queue_id, self.ordering_key

    @property
    def place(self) -> Rank:
        return self.deliver_at, self.accepted_at, self.id


class Completed(NamedTuple):
    """What becomes of messages that must go in order."""

    along: list[Due]
    """Earlier messages that go with them."""
    later: set[int]
    """The ids of those among all of them that cannot go yet."""
    known: Mapping[int, Found]
    """All messages that were read, by id."""


def overtaking(ids: Iterable[int], known: Mapping[int, Found], waiting: Iterable[Found]) -> set[int]:
    """The messages among these that come later in their order than one of the `waiting` messages."""
    first: dict[_Order, Rank] = {}
    for one in waiting:
        first[one.order] = min(one.place, first.get(one.order, one.place))
    if not first:
        return set()
    some = [known[id_] for id_ in ids if id_ in known]
    return {one.id for one in some if one.place > first.get(one.order, one.place)}


def looked_back(_shard: int, due: int) -> int:
    """The default of `Orders.unseen_from`: looks back by `REACH`."""
    return due - REACH


@define(eq=False)
class Orders:
    """Knows which topics are ordered, and what stands in the way of their messages. The defaults are for one node that
    has all shards and has read them."""

    unseen_from: Callable[[int, int], int] = looked_back
    """Of a shard and a due time: the earliest time from which on this node may not know every message of the shard that
    is due before."""
    read_until: Callable[[int], int] = lambda _shard: 1 << 62
    """Of a shard that is still being read, or that another node has: up to which due time all messages are known. Later
    ones are left alone until they are read, or to the other node."""
    rated: Callable[[int], bool] = lambda _topic: False
    """Whether a rate holds back messages of a topic."""
    holds: Callable[[int], bool] = lambda _shard: True
    """Whether this node has a shard."""
    aside: Container[int] = frozenset[int]()
    """Ids of messages that cannot be promoted, which are ignored."""
    _ordered: dict[int, bool] = field(factory=dict[int, bool], init=False)
    """Whether a topic is ordered, by its id; this never changes."""
    _locked: dict[int, int] = field(factory=dict[int, int], init=False)
    """Since when a message is locked by another transaction, by its id."""
    _left: dict[int, int] = field(factory=dict[int, int], init=False)
    """By queue: the due time of the first message that was left behind at the last look. The next look goes back to it,
    even if this node knows the message by then and has it in its wheel."""

    async def among(self, tx: Transaction, topic_ids: Collection[int]) -> set[int]:
        """The topics among these that are ordered."""
        known = self._ordered
        if new := [id_ for id_ in topic_ids if id_ not in known]:
            known |= {id_: bool(one) for id_, one in await tx.fetch("topic.ordered", tuple[int, int], sorted(new))}
        return {id_ for id_ in topic_ids if known.get(id_)}

    async def in_order(self, tx: Transaction, due: Sequence[Due]) -> list[Due]:
        """The messages among these, locked and due, that must go in order."""
        if not due:
            return []
        topics = {row.topic_id for row in due}
        ordered = await self.among(tx, topics)
        return [row for row in due if row.topic_id in ordered and row.special != GUARDED] if ordered else []

    def is_left_alone(self, row: Due) -> bool:
        """Whether this node must not promote the message, or not yet: earlier ones may not have been read."""
        shard = shard_of(row.id)
        return row.due > self.read_until(shard) or (self.rated(row.topic_id) and not self.holds(shard))

    async def in_other_hands(self, tx: Transaction, entries: Sequence[int], due: Sequence[Due], now: int) -> list[Due]:
        """The messages among these entries that exist but are not among `due`, the locked ones: another transaction has
        them, and may give them back. Only those that are due, must go in order and are still waited for."""
        self._are_free(due)
        missing = {entry for entry in entries if entry >= 0} - {row.id for row in due}
        if not missing:
            return []
        there = [row for row in await tx.fetch("delay.unlocked", Due, places_of(missing)) if row.due <= now]
        ordered = [row for row in await self.in_order(tx, there) if not self.is_left_alone(row)]
        return [row for row in ordered if not self.is_overtaken(row.id, now)]

    async def brought_by_others(self, tx: Transaction, ids: Sequence[int]) -> list[int]:
        """The messages among these, of other nodes' shards, that wait and must go in order when they are due."""
        rows = await tx.fetch("delay.unlocked", Due, places_of(ids))
        ordered = await self.in_order(tx, rows)
        return [row.id for row in ordered if not self.rated(row.topic_id) and row.id not in self.aside]

    def _are_free(self, rows: Iterable[Due]) -> None:
        if self._locked:
            for row in rows:
                self._locked.pop(row.id, None)

    async def complete(self, tx: Transaction, rows: Sequence[Due], theirs: Sequence[Due], now: int) -> Completed:
        """Finds what becomes of these messages, whose queues are locked. `theirs` are those `in_other_hands`."""
        known = {one.id: one for one in await self._look(tx, rows, theirs)}
        found = known.values()
        mine = {row.id for row in rows}
        last: dict[_Order, Rank] = {}
        for one in found:
            if one.id in mine:
                last[one.order] = max(one.place, last.get(one.order, one.place))
        others = [one for one in found if one.id not in mine and one.id not in self.aside]
        earlier = [one for one in others if one.order in last and one.place < last[one.order]]
        for row in rows:
            self._left.pop(row.queue_id, None)
        if not earlier:
            return Completed([], set(), known)
        earlier.sort(key=lambda one: one.place)
        taken, locked = await self._take(tx, earlier[:_AT_ONCE], now)
        along = mine | {row.id for row in taken}
        left = [*earlier[_AT_ONCE:], *locked]
        for one in left:
            self._left[one.queue_id] = min(one.due, self._left.get(one.queue_id, one.due))
        return Completed(taken, overtaking(along, known, left), known)

    async def _take(self, tx: Transaction, wanted: Sequence[Found], now: int) -> tuple[list[Due], list[Found]]:
        """Locks those of the wanted messages that no other transaction holds. Returns those that are due, and the
        others that are to be waited for."""
        rows = await tx.fetch("delay.lock_due", Due, [one.address for one in wanted])
        free = {row.id for row in rows}
        self._are_free(rows)
        left = [one for one in wanted if one.id not in free]
        locked: dict[int, int] = {}
        if left:
            locked = dict(await tx.fetch("delay.queues", tuple[int, int], [one.address for one in left]))
        stand = [one for one in left if one.id in locked and not self.is_overtaken(one.id, now)]
        return [row for row in rows if row.due <= now], stand

    def is_overtaken(self, id_: int, now: int) -> bool:
        """Whether a message that another transaction has locked is no longer waited for; or its schedule, by `~id`."""
        since = self._locked.setdefault(id_, now)
        for oldest in list(islice(self._locked, max(0, len(self._locked) - _REMEMBERED))):
            del self._locked[oldest]
        return now - since >= _PATIENCE

    async def _look(self, tx: Transaction, rows: Sequence[Due], theirs: Sequence[Due]) -> list[Found]:
        """The waiting messages of the queues of these messages, these included, up to the last of them; those of other
        orders in these queues, too."""
        dues, queues, topics = [row.due for row in rows], {row.queue_id for row in rows}, {row.topic_id for row in rows}
        known = [row.due for row in theirs if row.queue_id in queues]
        known += [self._left[queue_id] for queue_id in queues if queue_id in self._left]
        begin, end = min(dues + known), max(dues) + 1
        shards = sorted({shard_of(row.id) for row in rows})
        since = {shard: max(0, min(begin, self.unseen_from(shard, begin))) for shard in shards}
        by_id = [(shard, first_id(at), first_id(end)) for shard, at in since.items()]
        by_due = [(shard, at, end) for shard, at in since.items()]
        ids = sorted(queues)
        return await tx.fetch("delay.of_queues", Found, by_id, ids, by_due, ids, sorted(topics), end, ids)
