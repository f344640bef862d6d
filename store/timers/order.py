"""Order where messages fall due: of one order, what is due first goes to the stream first, whoever brings it.

One order is an ordering key of an ordered topic, or what has none in one of its queues. Its messages lie in one shard
(`placing`), so that mostly one server has them in its wheel. But another may have some of them too, which came to it or
which it found late, and so may a user's own transaction; and what was moved lies apart. So who promotes looks once
more, behind the lock of the queue, where no two can be at once: what is of the same order, due and earlier goes along.

What somebody else has locked cannot go along. A server that promotes it gives it back at once, for it finds the queue
held, and one that stands still loses its lock after two seconds; so what comes after it is held back for a little
longer. Then it is a user's transaction, which may be open for an hour: it is overtaken, and takes its place when that
ends.

A schedule's next message is made when the one before goes. So where several of its fire times have passed, what is
later of its order waits until the one that is made then has gone.

Where a release rate holds messages back, an order is released by the server that has its shard, and by no other.
Messages with a guard wait for its answer, in no order.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from attrs import define, field

from ..ids import SHARDS, first_id, places_of, shard_of
from ..ports import Transaction
from ..rows import GUARDED, Due

REACH = 4_000
"""Milliseconds before the first of a batch in which is looked for others: the sweeps find what is later than that."""
_PATIENCE = 2_500
"""Milliseconds after which something locked is overtaken. A session that writes lasts two seconds in which nothing
comes."""
_AT_ONCE = 500
"""Messages that go along with a batch, at the most."""
_REMEMBERED = 10_000
"""Locked messages."""

Rank = tuple[int, int, int]
"""Of a message in its order: by `deliver_at`, then by when it was accepted, then by id."""

_Order = tuple[int, bytes | None]
"""A queue and an ordering key."""


class Found(NamedTuple):
    """A message that waits, found by a look."""

    id: int
    due: int
    queue_id: int
    ordering_key: bytes | None
    deliver_at: int
    accepted_at: int
    shard: int

    @property
    def address(self) -> int:
        """Where it lies in `delay`, as of `Waiting`."""
        return self.id if self.shard < SHARDS else ~self.id

    @property
    def order(self) -> _Order:
        return self.queue_id, self.ordering_key

    @property
    def place(self) -> Rank:
        return self.deliver_at, self.accepted_at, self.id


class Completed(NamedTuple):
    """What becomes of messages that are to go in their order."""

    along: list[Due]
    """What else goes with them."""
    later: set[int]
    """Which of all of them cannot go yet."""
    known: Mapping[int, Found]
    """All of them, by id."""


def overtaking(ids: Iterable[int], known: Mapping[int, Found], waiting: Iterable[Found]) -> set[int]:
    """Those of these messages that are of the order of one that waits, and later."""
    first: dict[_Order, Rank] = {}
    for one in waiting:
        first[one.order] = min(one.place, first.get(one.order, one.place))
    if not first:
        return set()
    some = [known[id_] for id_ in ids if id_ in known]
    return {one.id for one in some if one.place > first.get(one.order, one.place)}


def looked_back(_shard: int, due: int) -> int:
    """From when on it is looked, where nobody knows what was seen before."""
    return due - REACH


def all_is_read(_shard: int) -> int:
    """Where nothing is being read."""
    return 1 << 62


def never(_topic: int) -> bool:
    """Where no topic has a rate."""
    return False


def always(_shard: int) -> bool:
    """Where there is one server."""
    return True


@define(eq=False)
class Orders:
    """Which topics are ordered, and what stands in the way of their messages. `unseen_from(shard, due)`: the earliest
    time from which this server may not know of every message of the shard that is due before `due`. `read_until`: up to
    when all is known of a shard whose messages are being read, or that another server has; what is due later is left
    alone, and comes when it is read, or by the other. `rated`: whether messages of a topic are held back by a rate.
    `holds`: whether this server has a shard. `aside`: messages that cannot be promoted, which are passed over."""

    unseen_from: Callable[[int, int], int] = looked_back
    read_until: Callable[[int], int] = all_is_read
    rated: Callable[[int], bool] = never
    holds: Callable[[int], bool] = always
    aside: Container[int] = frozenset[int]()
    _ordered: dict[int, bool] = field(factory=dict[int, bool], init=False)
    """By topic. It never changes."""
    _locked: dict[int, int] = field(factory=dict[int, int], init=False)
    """By message since when it is locked by somebody else."""
    _left: dict[int, int] = field(factory=dict[int, int], init=False)
    """By queue when the first was due of what had to be left at the last look. The next goes back to it, though it may
    be known here by then, and wait in the wheel."""

    async def among(self, tx: Transaction, topic_ids: Collection[int]) -> set[int]:
        """Those of these topics that are ordered."""
        known = self._ordered
        if new := [id_ for id_ in topic_ids if id_ not in known]:
            known |= {id_: bool(one) for id_, one in await tx.fetch("topic.ordered", tuple[int, int], sorted(new))}
        return {id_ for id_ in topic_ids if known.get(id_)}

    async def in_order(self, tx: Transaction, due: Sequence[Due]) -> list[Due]:
        """Those of these messages, locked and due, that are to go in their order."""
        if not due:
            return []
        topics = {row.topic_id for row in due}
        ordered = await self.among(tx, topics)
        return [row for row in due if row.topic_id in ordered and row.special != GUARDED] if ordered else []

    def is_left_alone(self, row: Due) -> bool:
        """Whether it is not for this server, or not yet: what is earlier may not have been read."""
        shard = shard_of(row.id)
        return row.due > self.read_until(shard) or (self.rated(row.topic_id) and not self.holds(shard))

    async def in_other_hands(self, tx: Transaction, entries: Sequence[int], due: Sequence[Due], now: int) -> list[Due]:
        """Those of these messages that are not among `due`, which were locked, and are there all the same: whoever has
        them may give them back. They are due, are to go in their order, and are waited for."""
        self._are_free(due)
        missing = {entry for entry in entries if entry >= 0} - {row.id for row in due}
        if not missing:
            return []
        there = [row for row in await tx.fetch("delay.unlocked", Due, places_of(missing)) if row.due <= now]
        ordered = [row for row in await self.in_order(tx, there) if not self.is_left_alone(row)]
        return [row for row in ordered if not self.is_overtaken(row.id, now)]

    async def brought_by_others(self, tx: Transaction, ids: Sequence[int]) -> list[int]:
        """Those of these messages of others' shards that wait and go in their order, when they are due."""
        rows = await tx.fetch("delay.unlocked", Due, places_of(ids))
        ordered = await self.in_order(tx, rows)
        return [row.id for row in ordered if not self.rated(row.topic_id) and row.id not in self.aside]

    def _are_free(self, rows: Iterable[Due]) -> None:
        if self._locked:
            for row in rows:
                self._locked.pop(row.id, None)

    async def complete(self, tx: Transaction, rows: Sequence[Due], theirs: Sequence[Due], now: int) -> Completed:
        """What becomes of these messages, whose queues are locked, while others are `in_other_hands`."""
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
        """Locks them, as far as nobody else has; and which of the others are to be waited for."""
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
        """Whether a message that somebody else has locked is waited for no longer; or what one is of, by `~id`."""
        since = self._locked.setdefault(id_, now)
        for oldest in list(islice(self._locked, max(0, len(self._locked) - _REMEMBERED))):
            del self._locked[oldest]
        return now - since >= _PATIENCE

    async def _look(self, tx: Transaction, rows: Sequence[Due], theirs: Sequence[Due]) -> list[Found]:
        """What waits of the orders of these messages, those among it, up to the last of them and some more."""
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
