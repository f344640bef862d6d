"""The identity of a message: 63 bits that sort by due time.

    id = due millisecond (42) | straight (1) | count (16) | shard (4)

Makers of ids (nodes, outbox users, Spark tasks) are not coordinated: each starts at a random count per millisecond and
shard and counts up. After a duplicate key in the database it makes new ids, up to a second later and never earlier. The
bit `straight` separates messages that go straight to the stream from those that wait in `delay`: the two tables have a
unique key each, and a message must be able to keep its id when it moves from one to the other.

Outside the store an id is a decimal string.
"""

import itertools
import os
import random
import struct
import zlib
from collections.abc import Collection, Iterable

from ..wheel.shards import SHARDS as SHARDS
from ..wheel.shards import shard_of as shard_of

SHARD_BITS = 4
SHARDS_OF_DELAY = 2 * SHARDS
"""A waiting message that was rescheduled lies apart, in its shard plus `SHARDS`, so that scans by the time in the id do
not read it."""
COUNT_BITS = 16
SEQUENCE_BITS = 21
MAX_MS = (1 << 42) - 1
"""The last millisecond that an id can carry, in the year 2109."""

_STRAIGHT = 1 << (SHARD_BITS + COUNT_BITS)
_COUNTS = 1 << COUNT_BITS
OUTBOX_COUNTS = 1 << (COUNT_BITS - 2)
"""How many of the counts, the last ones, are reserved for outboxes: if the service made an id that an open transaction
of a user has, it would wait for the end of that transaction."""

_LAST = (1 << 63) - 1
_REMEMBERED = 100_000
"""For how many pairs of millisecond and shard the count is kept; forgetting one only costs a new random start."""

_DRAWN_AT_ONCE = 512
_drawn: list[int] = []
"""Unused nonces, drawn many at a time: drawn one by one they cost more than all the rest of making an id."""
os.register_at_fork(after_in_child=_drawn.clear)


def due_of(id_: int) -> int:
    """The millisecond for which the id was made. A message rescheduled since is due at its row's `due`."""
    return id_ >> SEQUENCE_BITS


def place_of(id_: int, due: int) -> int:
    """The place in `delay` of a message that is due at `due`: its id, or `~id` when it was rescheduled and lies
    apart."""
    return id_ if due == id_ >> SEQUENCE_BITS else ~id_


def apart(ids: Iterable[int]) -> list[int]:
    """The places in `delay` of these messages if they were rescheduled."""
    return [~id_ for id_ in ids]


def places_of(ids: Collection[int]) -> list[int]:
    """All places in `delay` where the rows of these messages can lie."""
    return [*ids, *apart(ids)]


def shard_in_delay(place: int) -> int:
    """The shard of a place, 0 to 31."""
    return place & (SHARDS - 1) if place >= 0 else (~place & (SHARDS - 1)) + SHARDS


def by_shard(places: Iterable[int]) -> list[list[int]]:
    """The ids at these places, listed by the shard of `delay`."""
    shards: list[list[int]] = [[] for _ in range(SHARDS_OF_DELAY)]
    for place in places:
        if place >= 0:
            shards[place & (SHARDS - 1)].append(place)
        else:
            shards[(~place & (SHARDS - 1)) + SHARDS].append(~place)
    return shards


def is_straight(id_: int) -> bool:
    """Whether the message went straight to the stream."""
    return bool(id_ & _STRAIGHT)


def first_id(ms: int) -> int:
    """The smallest id of that millisecond: scans by due time are ranges of ids."""
    return min(max(0, ms) << SEQUENCE_BITS, _LAST)


def shard_for(topic_id: int, ordering_key: str) -> int:
    """The shard that all messages of one ordering key share."""
    return zlib.crc32(ordering_key.encode(), topic_id) & (SHARDS - 1)


def random_nonce() -> int:
    """A signed 64-bit number that marks a row as ours when the answer to a COMMIT was lost."""
    # Not from `random`, whose state can be computed from its output: nobody must be able to guess a nonce.
    while True:
        try:
            return _drawn.pop()
        except IndexError:
            _drawn.extend(struct.unpack(f"{_DRAWN_AT_ONCE}q", os.urandom(8 * _DRAWN_AT_ONCE)))


def random_nonces(many: int) -> list[int]:
    """This many random nonces."""
    return memoryview(os.urandom(8 * many)).cast("q").tolist()


class IdMaker:
    """Makes ids; a process has one."""

    def __init__(self, source: random.Random | None = None, *, outbox: bool = False, climbing: bool = False) -> None:
        """`climbing`: within a millisecond and shard each id is higher than the one before."""
        self._climbing = climbing
        self._first = _COUNTS - OUTBOX_COUNTS if outbox else 0
        self._size = OUTBOX_COUNTS if outbox else _COUNTS - OUTBOX_COUNTS
        self._random = source or random.Random()  # noqa: S311  # it spreads ids, it guards nothing
        # Next count and numbers left per (millisecond, straight bit, shard), oldest first.
        self._counts: dict[int, tuple[int, int]] = {}
        self._shard = self._random.randrange(SHARDS)

    def make(self, due: int, *, shard: int | None = None, straight: bool = False, spread: int = 0) -> int:
        """An id for `due` (Unix milliseconds, at most `MAX_MS`).

        `spread` is how many milliseconds later the id may be, for another try after a duplicate key; then its count is
        drawn anew.
        """
        if shard is None:
            self._shard = shard = (self._shard + 1) & (SHARDS - 1)
        if spread:
            due += self._random.randrange(spread + 1)
        while True:
            place = due << SEQUENCE_BITS | (_STRAIGHT if straight else 0) | shard
            known = None if spread else self._counts.get(place)
            count, left = known or self._begin()
            if left:
                self._remember(place, ((count + 1) % self._size, left - 1))
                return place | (self._first + count) << SHARD_BITS
            self._remember(place, (count, 0))
            due += 1  # this millisecond is full: a later one is taken, never an earlier one

    def make_some(self, due: int, many: int, *, straight: bool = False) -> list[int]:
        """Makes `many` ids as `make` does; for a thousand in a twelfth of the time."""
        ids = [0] * many
        for nth in range(min(many, SHARDS)):
            shard = (self._shard + 1 + nth) & (SHARDS - 1)
            place = due << SEQUENCE_BITS | (_STRAIGHT if straight else 0) | shard
            count, left = self._counts.get(place) or self._begin()
            here = len(range(nth, many, SHARDS))
            if here <= left and count + here <= self._size:
                first = place | (self._first + count) << SHARD_BITS
                ids[nth::SHARDS] = range(first, first + (here << SHARD_BITS), 1 << SHARD_BITS)
                self._remember(place, ((count + here) % self._size, left - here))
            else:
                self._remember(place, (count, left))
                ids[nth::SHARDS] = [self.make(due, shard=shard, straight=straight) for _ in range(here)]
        self._shard = (self._shard + many) & (SHARDS - 1)
        return ids

    def anew(self) -> None:
        """Forgets all counts, so that they start at random again: other makers have used some of the next ones."""
        self._counts.clear()

    def _begin(self) -> tuple[int, int]:
        if not self._climbing:
            return self._random.randrange(self._size), self._size
        first = self._random.randrange(self._size >> 1)
        return first, self._size - first

    def _remember(self, place: int, count: tuple[int, int]) -> None:
        self._counts[place] = count
        if len(self._counts) > _REMEMBERED:
            for oldest in list(itertools.islice(self._counts, _REMEMBERED // 2)):
                del self._counts[oldest]
