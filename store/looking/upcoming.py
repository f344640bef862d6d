"""Counts the messages of a topic, or of all topics, that fall due in spans of time, from the forecast and from rows.

The forecast has whole coming minutes. Overdue messages, those of the current minute, and those in parts of minutes are
counted row by row.
"""

from collections.abc import Sequence

from attrs import define, field, frozen

from ..ids import SHARDS, first_id
from ..ports import Transaction
from ..records import Topic
from ..timers import forecast
from ..timers.forecast import ALL, MINUTE

_AHEAD, _MOVED = 12_500, 2_500
"""How many rows of a shard are read at most to count near messages: 200,000 of all shards, and 40,000 rescheduled
ones."""
_READ = SHARDS * _AHEAD
"""How many rows are read at most to count parts of minutes."""


@frozen
class Upcoming:
    """How many messages of a topic fall due in each span of time, as far as they were counted."""

    since: int
    counts: tuple[int, ...]
    """A count for each span. If a span ends behind `until`, only the part before is counted, and later spans are left
    out."""
    until: int | None = None
    """Up to when messages were counted; None: all were."""


async def read(
    tx: Transaction, topic: Topic | None, begin: int, width: int, buckets: int, now: int, *, overdue: bool = True
) -> Upcoming:
    """Counts how many messages of a topic fall due in each of `buckets` spans of `width` milliseconds from `begin` on.
    With `overdue` the first span includes overdue messages.

    Messages due before the next minute, and in parts of minutes, are counted row by row. No index separates topics, so
    the rows of all topics are read: at most `_AHEAD` and `_MOVED` of a shard, and `_READ` for parts of minutes.
    """
    low, end = 0 if overdue else begin, begin + width * buckets
    first = (now // MINUTE + 1) * MINUTE
    """From this time on the forecast is used."""
    stretches = [(begin + number * width if number else low, begin + (number + 1) * width) for number in range(buckets)]
    near = [(since, min(until, first)) for since, until in stretches if since < first]
    edge = await forecast.edge_of(tx, low, min(end, first), _AHEAD, _MOVED) if near else end
    parts = _Parts(tx, topic)
    if end > first:
        parts.whole = await forecast.ahead(tx, _id(topic), first // MINUTE, end // MINUTE)
    if any(bound % MINUTE and bound >= first for stretch in stretches for bound in stretch):
        parts.everybody = await forecast.ahead(tx, ALL, first // MINUTE, end // MINUTE + 1)
    counts: list[int] = []
    for since, until in stretches:
        count, stop = 0, until
        if since < first:
            stop = min(stop, edge)
            if since < (part := min(stop, first)):
                count += await _count(tx, topic, since, part)
            if stop < min(until, first):
                return Upcoming(begin, (*counts, count) if stop > since else tuple(counts), stop)
            since = first
        if since < until:
            more, stop = await parts.count(since, until)
            count += more
        if stop < until:
            return Upcoming(begin, (*counts, count) if stop > since else tuple(counts), stop)
        counts.append(count)
    return Upcoming(begin, tuple(counts))


@define
class _Parts:
    """Counts coming spans, which may begin or end within a minute."""

    _tx: Transaction
    _topic: Topic | None
    whole: forecast.Ahead = field(factory=lambda: forecast.Ahead({}), init=False)
    """The forecast of the topic."""
    everybody: forecast.Ahead = field(factory=lambda: forecast.Ahead({}), init=False)
    """The forecast of all topics, by which rows of parts of minutes are limited."""
    _read: int = field(default=0, init=False)
    """How many rows were read so far."""

    async def count(self, since: int, until: int) -> tuple[int, int]:
        """How many messages of the topic fall due in a span, and up to when they were counted."""
        count = 0
        for begin, end in _pieces(since, until):
            minutes = begin // MINUTE, end // MINUTE
            if not begin % MINUTE and not end % MINUTE:
                count += self.whole.within(*minutes)
                continue
            self._read += self.everybody.of(minutes[0])
            if self._read > _READ:
                return count, begin
            count += await _count(self._tx, self._topic, begin, end)
        return count, until


def _pieces(since: int, until: int) -> Sequence[tuple[int, int]]:
    """Splits a span into a part of a minute, whole minutes, and a part of a minute; empty ones are left out."""
    begin, end = -(-since // MINUTE) * MINUTE, until // MINUTE * MINUTE
    if begin > end:
        return [(since, until)]
    return [(low, high) for low, high in ((since, begin), (begin, end), (end, until)) if low < high]


def _id(topic: Topic | None) -> int:
    return ALL if topic is None else topic.id


async def _count(tx: Transaction, topic: Topic | None, since: int, until: int) -> int:
    (straight,) = await tx.fetch("delay.upcoming", int, first_id(since), first_id(until), _id(topic))
    (moved,) = await tx.fetch("moved.upcoming", int, since, until, _id(topic))
    return straight + moved
