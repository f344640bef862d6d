"""The forecast: how many messages of a topic fall due in each coming minute, updated as messages come and go.

A transaction that makes messages wait, moves or removes them also writes one small row: which minutes change by how
much. It is a new row, so no transaction waits for another, not even a user's own. Later the rows are added up to counts
by the hour, by one node at a time. So the counts and the rows that are not added up yet are together exact at every
moment, and a crash cannot separate them.

Promotion writes no such rows: its messages were due, and past minutes are not asked for. (For the current minute the
waiting messages themselves are counted.)

SQL from outside writes no such rows either. So now and then all waiting messages are counted, one span of time after
another, and the difference is written as a change (`check`): one statement sees messages and counts as of one moment.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from struct import Struct, pack, unpack
from typing import NamedTuple

from attrs import define, field

from ..ids import SHARDS, first_id, random_nonce
from ..ports import Asked, Transaction, Value

MINUTE, HOUR = 60_000, 3_600_000
EVER = 1 << 42
"""Milliseconds: no message is due later."""
ALL = 0
"""In place of a topic's id: all topics together."""
_MINUTES = Struct("<60i")
_NOTHING = bytes(_MINUTES.size)
_MOST = (1 << 31) - 1
_NONE = (0,) * 60
_ROWS, _BYTES = 1000, 64 << 10
"""The most changes that are added up together: 8,000 minutes, a few milliseconds of work."""
_PAIRS = 400
"""How many pairs of topic and hour a statement has: SQLite reads a list of pairs as a tree of at most a thousand
levels."""
_CHECKED = 2_500
"""Rows of a shard that are counted in one statement: 40,000 of all shards."""

Minutes = Counter[int]
"""Numbers of messages by minute since 1970."""
_Pair = tuple[int, int]
"""(topic id, Unix milliseconds)."""


class Compared(NamedTuple):
    """A row of the query `forecast.compare`."""

    kind: int
    topic_id: int
    place: int
    many: int
    counts: bytes


def changes(now: int, come: Iterable[_Pair] = (), gone: Iterable[_Pair] = ()) -> list[Sequence[Value]]:
    """Rows of `forecast_change` for messages that wait from now on (`come`), and that no longer wait (`gone`). Minutes
    that have begun are left out."""
    topics = _by_topic(now, come)
    for topic_id, minutes in _by_topic(now, gone).items():
        topics.setdefault(topic_id, Counter()).subtract(minutes)
    return [_change(topic_id, minutes) for topic_id, minutes in topics.items() if any(minutes.values())]


def _by_topic(now: int, pairs: Iterable[_Pair]) -> dict[int, Minutes]:
    topics: dict[int, list[int]] = {}
    first = (now // MINUTE + 1) * MINUTE
    for topic_id, due in pairs:
        if first <= due < EVER:  # later times come from SQL from outside only
            topics.setdefault(topic_id, []).append(due // MINUTE)
    return {topic_id: Counter(minutes) for topic_id, minutes in topics.items()}


async def tell(tx: Transaction, now: int, come: Iterable[_Pair] = (), gone: Iterable[_Pair] = ()) -> None:
    """Records messages that wait from now on (`come`), and that no longer wait without having been promoted (`gone`);
    (topic id, due) of each."""
    if rows := changes(now, come, gone):
        await tx.later_many("forecast_change.add", rows)


def _change(topic_id: int, minutes: Minutes) -> Sequence[Value]:
    if not all(minutes.values()):
        minutes = Counter({minute: many for minute, many in minutes.items() if many})
    return random_nonce(), topic_id, pack(f"<{len(minutes)}I{len(minutes)}i", *minutes, *minutes.values())


def _counts(text: bytes) -> Sequence[int]:
    """The counts of the minutes of an hour. An invalid value counts as zeros, and is repaired like any wrong count."""
    return _MINUTES.unpack(text if len(text) == _MINUTES.size else _NOTHING)


def _pairs(text: bytes) -> Iterator[tuple[int, int]]:
    """Decodes what `_change` wrote: each minute, and by how many it changes."""
    many = len(text) // 8
    numbers = unpack(f"<{many}I{many}i", text[: 8 * many])
    return zip(numbers[:many], numbers[many:], strict=True)


async def add_up(tx: Transaction, now: int) -> bool:
    """Adds up a batch of changes; returns whether there may be more."""
    await _lock(tx)
    sizes = await tx.fetch("forecast_change.some", tuple[int, int], _ROWS)
    taken: list[int] = []
    left = _BYTES
    for id_, size in sizes:
        if taken and left < size:
            break
        taken.append(id_)
        left -= size
    if not taken:
        return False
    hours: dict[tuple[int, int], Minutes] = defaultdict(Counter)
    for _, topic_id, text in await tx.fetch("forecast_change.find", tuple[int, int, bytes], taken):
        for minute, many in _pairs(text):
            hour = minute // 60
            if hour >= now // HOUR:  # else it is over
                hours[topic_id, hour][minute % 60] += many
                hours[ALL, hour][minute % 60] += many
    await _put(tx, hours)
    await tx.execute("forecast_change.remove", taken)
    return len(taken) < len(sizes) or len(sizes) == _ROWS


async def _put(tx: Transaction, hours: dict[tuple[int, int], Minutes]) -> None:
    """Adds changes to the counts of hours. The caller holds the lock, so no other transaction changes them."""
    if not hours:
        return
    asked = sorted(hours)
    known: dict[tuple[int, int], bytes] = {}
    for start in range(0, len(asked), _PAIRS):
        some = asked[start : start + _PAIRS]
        rows = await tx.fetch("forecast.find", tuple[int, int, bytes], some)
        known |= {(topic_id, hour): text for topic_id, hour, text in rows}
    put: list[Sequence[Value]] = []
    empty: list[tuple[int, int]] = []
    for of in asked:
        counts = list(_counts(known.get(of, _NOTHING)))
        for minute, many in hours[of].items():
            counts[minute] += many
        if any(counts):
            put.append((*of, _MINUTES.pack(*(min(max(-_MOST, many), _MOST) for many in counts))))
        elif of in known:
            empty.append(of)
    if put:
        await tx.later_many("forecast.put", put)
    if empty:
        for start in range(0, len(empty), _PAIRS):
            await tx.execute("forecast.remove", empty[start : start + _PAIRS])


async def forget(tx: Transaction, now: int) -> int:
    """Removes the counts of past hours; returns how many."""
    await _lock(tx)
    return await tx.execute("forecast.forget", now // HOUR)


@define
class Ahead:
    """How many messages fall due in some hours, by the minute. Sums use whole hours: a month has 43,200 minutes, and a
    caller that asks for its days needs none of them."""

    _hours: Mapping[int, Sequence[int]]
    """The hours in which messages fall due, with the counts of their 60 minutes."""
    _order: Sequence[int] = field(init=False)
    _sums: Sequence[int] = field(init=False)
    """How many fall due before each of these hours, in order, and in all."""

    def __attrs_post_init__(self) -> None:
        self._order = sorted(self._hours)
        self._sums = [0, *accumulate(sum(self._hours[hour]) for hour in self._order)]

    def of(self, minute: int) -> int:
        """How many fall due in a minute since 1970."""
        hour, place = divmod(minute, 60)
        return self._hours[hour][place] if hour in self._hours else 0

    def within(self, since: int, until: int) -> int:
        """How many fall due from one minute up to another, not included."""
        return self._before(until) - self._before(since)

    def _before(self, minute: int) -> int:
        hour, place = divmod(minute, 60)
        whole = self._sums[bisect_left(self._order, hour)]
        return whole + sum(self._hours[hour][:place]) if hour in self._hours else whole

    def minutes(self, since: int, until: int) -> Minutes:
        """The counts of those minutes of a span in which messages fall due."""
        told = ((hour * 60 + place, many) for hour in self._order for place, many in enumerate(self._hours[hour]))
        return Counter({minute: many for minute, many in told if many and since <= minute < until})


async def ahead(tx: Transaction, topic_id: int, since: int, until: int) -> Ahead:
    """The forecast of a topic in the hours from `since` up to `until`, minutes since 1970; `ALL`: of all topics."""
    hours = since // 60, -(-until // 60)
    if topic_id == ALL:
        rows = await tx.fetch("forecast.read_all", tuple[int, int, bytes], *hours)
    else:
        rows = await tx.fetch("forecast.read", tuple[int, int, bytes], topic_id, *hours, topic_id)
    kept: dict[int, Sequence[int]] = {place: _counts(text) for kind, place, text in rows if kind == 0}
    changed: dict[int, Minutes] = defaultdict(Counter)
    for kind, _, text in rows:
        for minute, many in _pairs(text) if kind else ():
            if hours[0] <= minute // 60 < hours[1]:
                changed[minute // 60][minute % 60] += many
    for hour, minutes in changed.items():
        kept[hour] = [many + minutes[place] for place, many in enumerate(kept.get(hour, _NONE))]
    # Messages added by SQL from outside are not counted when they come, but when they go: counts may be negative.
    return Ahead(
        {hour: counts if min(counts) >= 0 else [max(many, 0) for many in counts] for hour, counts in kept.items()}
    )


async def read(tx: Transaction, topic_id: int, since: int, until: int) -> Minutes:
    """The forecast of a topic by minute from `since` up to `until`, minutes since 1970; `ALL`: of all topics."""
    return (await ahead(tx, topic_id, since, until)).minutes(since, until)


def _add(minutes: Minutes, text: bytes, hour: int | None) -> None:
    if hour is None:
        for minute, many in _pairs(text):
            minutes[minute] += many
    else:
        for minute, many in enumerate(_counts(text), hour * 60):
            if many:
                minutes[minute] += many


async def edge_of(tx: Transaction, since: int, until: int, rows: int, moved: int) -> int:
    """The millisecond up to which, from `since` on, no shard has more than `rows` messages, and `moved` rescheduled
    ones; `until` if no shard has more before that."""
    ids = first_id(since), first_id(until)
    edges = [Asked("delay.edge", tuple[int, int], shard, *ids, rows) for shard in range(SHARDS)]
    edges += [Asked("moved.edge", tuple[int, int], shard, since, until, moved) for shard in range(SHARDS)]
    await tx.fetch_all(edges)
    return min([due for asked in edges for _, due in asked.rows], default=until)


async def check(tx: Transaction, since: int) -> tuple[int, int]:
    """Counts the waiting messages of a span from `since` on, Unix milliseconds and the beginning of a coming minute,
    and writes the difference as a change. Returns where the next span begins, and by how many messages the counts were
    wrong."""
    await _lock(tx)
    edge = await edge_of(tx, since, EVER, _CHECKED, _CHECKED)
    until = max(edge - edge % MINUTE, since + MINUTE)
    hours = since // HOUR, -(-until // HOUR)
    rows = await tx.fetch("forecast.compare", Compared, first_id(since), first_id(until), since, until, *hours)
    found: dict[int, Minutes] = defaultdict(Counter)
    kept: dict[int, Minutes] = defaultdict(Counter)
    for row in rows:
        if row.kind < 2:
            found[row.topic_id][row.place // MINUTE] += row.many
        else:
            _add(kept[row.topic_id], row.counts, row.place if row.kind == 2 else None)
    wrong: list[Sequence[Value]] = []
    messages = 0
    for topic_id in found.keys() | kept.keys():
        minutes = found[topic_id]
        minutes.subtract(kept[topic_id])
        differs: Minutes = Counter(
            {minute: many for minute, many in minutes.items() if many and since <= minute * MINUTE < until}
        )
        if differs:
            wrong.append(_change(topic_id, differs))
            messages += sum(map(abs, differs.values()))
    if wrong:
        await tx.execute_many("forecast_change.add", wrong)
    return until, messages


async def is_changed(tx: Transaction) -> bool:
    """Whether there is something to add up."""
    return bool(await tx.fetch("forecast_change.some", tuple[int, int], 1))


async def checked(tx: Transaction, began_at: int) -> None:
    """Records that a count of all rows is done, which began at this time."""
    await tx.execute("forecast_check.passed", began_at, began_at)


async def checked_at(tx: Transaction) -> int:
    """When the last completed count of all rows began."""
    (began_at,) = await tx.fetch("forecast_check.find", int)
    return began_at


async def _lock(tx: Transaction) -> None:
    await tx.fetch("forecast_check.lock", tuple[int, int])
