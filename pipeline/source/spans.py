"""Plans which rows a task reads: ranges of an integer key of one table, from the facts. Nothing here reads or writes.

A mark is where a range begins or ends: by queue for messages and returns, by (group, queue) for deliveries and claims.
Rows of other tables have no such order and are read whole, by shard or group.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from attrs import evolve, frozen

from ...store.ids import SHARDS, SHARDS_OF_DELAY
from .facts import Cursor, Facts

Marks = Mapping[str, int]
"""Offsets by `QUEUE`, delivery numbers by `GROUP:QUEUE`, Unix milliseconds by `time`."""

_ROWS = 250_000
"""About the rows of a task."""
_NO_END = (1 << 63) - 1


@frozen
class Span:
    """Rows of one table whose key is in [first, last)."""

    table: str
    source: str
    """The store's table, as `shapes` knows it."""
    first: int
    last: int
    weight: int
    """About how many rows that is; a guess if it cannot be known."""
    place: Mapping[str, int]
    """The columns that come before the key, and their values: queue_id, group_id, shard."""
    names: Mapping[str, object]
    """The values that all its rows share, by the columns of the schema."""
    owners: Mapping[int, Sequence[str]] | None = None
    """If its rows are of many topics: by topic id (topic,), by group id (topic, group), by schedule id (topic,
    schedule). Rows of no others are read."""

    @property
    def mark(self) -> str:
        """The name under which a position in it is kept."""
        if self.table in ("deliveries", "claims"):
            return f"{self.place['group_id']}:{self.place['queue_id']}"
        return str(self.place.get("queue_id", ""))


def marks_of(text: str | None, name: str) -> dict[str, int]:
    """Marks from the JSON text of an option. Raises ValueError."""
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, int])
    except msgspec.MsgspecError:
        raise ValueError(f'{name}: a JSON object such as {{"3": 1000}}') from None


def plan(
    table: str,
    facts: Facts,
    after: Marks | None = None,
    upto: Marks | None = None,
    topics: Collection[str] | None = None,
) -> list[Span]:
    """The ranges of a table from `after` on and below `upto`, each of a task's size at most, in order."""
    found = [
        evolve(span, owners={id_: names for id_, names in span.owners.items() if topics is None or names[0] in topics})
        if span.owners is not None
        else span
        for span in _whole(table, facts, after or {}, upto)
        if topics is None or span.owners is not None or span.names["topic"] in topics
    ]
    return [piece for span in found for piece in _cut(span)]


def ends(table: str, facts: Facts) -> dict[str, int]:
    """Up to where messages or deliveries are committed, by mark."""
    if table == "messages":
        return {str(queue.id): queue.next_offset for queue in facts.queues.values() if queue.group_id == 0}
    return {f"{cursor.group_id}:{cursor.queue_id}": cursor.counters["next_delivery"] for cursor in facts.cursors}


def bundle(spans: Iterable[Span]) -> list[tuple[Span, ...]]:
    """Joins spans into tasks of about the same size."""
    bundles: list[tuple[Span, ...]] = []
    some: list[Span] = []
    weight = 0
    for span in spans:
        if some and weight + span.weight > _ROWS:
            bundles.append(tuple(some))
            some, weight = [], 0
        some.append(span)
        weight += span.weight
    return [*bundles, tuple(some)] if some else bundles


def head(spans: Sequence[Span], rows: int) -> list[Span]:
    """The first spans that hold so many rows, the last of them cut; one key at least."""
    taken: list[Span] = []
    for span in spans:
        if rows < span.weight:
            keys = rows * (span.last - span.first) // span.weight or (not taken)
            if keys:
                taken.append(evolve(span, last=span.first + keys, weight=rows))
            break
        taken.append(span)
        rows -= span.weight
    return taken


def _cut(span: Span) -> list[Span]:
    if span.last == _NO_END or span.table == "claims":
        return [span]
    per_row = max(1, span.weight // max(1, span.last - span.first))
    step = max(1, _ROWS // per_row)
    return [
        evolve(span, first=first, last=last, weight=(last - first) * per_row)
        for first in range(span.first, span.last, step)
        for last in [min(first + step, span.last)]
    ]


_PER_CLAIM, _MOST_PER_CLAIM = 10, 1000
"""Messages of a claim, if they were not counted; and of the largest claim."""


def _per_claim(cursor: Cursor) -> int:
    """About how many messages a claim of this log holds."""
    counted = sum(cursor.counters[name] for name in ("acked", "dead", "retried"))
    if not counted or not cursor.counters["next_delivery"]:
        return _PER_CLAIM
    return min(_MOST_PER_CLAIM, -(-counted // cursor.counters["next_delivery"]))


def _whole(table: str, facts: Facts, after: Marks, upto: Marks | None) -> Iterable[Span]:
    if table in ("messages", "returns"):
        yield from _streams(table, facts, after, upto)
    elif table in ("deliveries", "claims"):
        yield from _logs(table, facts, after, upto)
    elif table == "dead":
        for group_id, (topic_id, name) in sorted(facts.groups.items()):
            names = {"topic": facts.topics[topic_id], "group": name, "group_id": group_id}
            yield Span(table, "dead", 0, _NO_END, _ROWS // 4, {"group_id": group_id}, names)
    elif table in ("timers", "cancelled"):
        source, shards = ("delay", SHARDS_OF_DELAY) if table == "timers" else ("cancelled", SHARDS)
        for shard in range(shards):
            owners = {id_: (name,) for id_, name in facts.topics.items()}
            yield Span(table, source, 0, _NO_END, _ROWS // 4, {"shard": shard}, {}, owners)
    elif table == "fires":
        schedules = {id_: (facts.topics[topic_id], name) for id_, (topic_id, name) in facts.schedules.items()}
        yield Span(table, "fire", 0, _NO_END, _ROWS // 4, {}, {}, schedules)
    elif table == "retries":
        groups = {id_: (facts.topics[topic_id], name) for id_, (topic_id, name) in facts.groups.items()}
        for shard in range(SHARDS):
            yield Span(table, "retry", 0, _NO_END, _ROWS // 4, {"shard": shard}, {}, groups)
        for queue in facts.queues.values():
            if queue.group_id == 0:
                yield Span(table, "parked", 0, _NO_END, _ROWS // 16, {"queue_id": queue.id}, {}, groups)


def _streams(table: str, facts: Facts, after: Marks, upto: Marks | None) -> Iterable[Span]:
    for queue in facts.queues.values():
        if (queue.group_id == 0) != (table == "messages"):
            continue
        first = max(queue.floor, after.get(str(queue.id), 0))
        last = queue.next_offset if upto is None else min(queue.next_offset, upto.get(str(queue.id), 0))
        if first >= last:
            continue
        names: dict[str, object] = {"topic": facts.topics[queue.topic_id], "queue_id": queue.id}
        if table == "messages":
            names |= {"topic_id": queue.topic_id, "queue": queue.number}
        else:
            group = facts.groups.get(queue.group_id)
            if group is None:
                continue  # a group that is gone
            names |= {"group": group[1], "group_id": queue.group_id}
        source = "message" if table == "messages" else "redelivery"
        yield Span(table, source, first, last, last - first, {"queue_id": queue.id}, names)


def _logs(table: str, facts: Facts, after: Marks, upto: Marks | None) -> Iterable[Span]:
    for cursor in facts.cursors:
        mark = f"{cursor.group_id}:{cursor.queue_id}"
        end = cursor.counters["next_delivery"] if table == "deliveries" else cursor.counters["next_claim"]
        first = after.get(mark, 0)
        last = end if upto is None else min(end, upto.get(mark, 0))
        if first >= last:
            continue
        queue, (_, group) = facts.queues[cursor.queue_id], facts.groups[cursor.group_id]
        names: dict[str, object] = {
            "topic": facts.topics[queue.topic_id],
            "group": group,
            "group_id": cursor.group_id,
            "queue_id": queue.id,
            "queue": queue.number,
        }
        place = {"group_id": cursor.group_id, "queue_id": queue.id, "back": int(queue.group_id != 0)}
        source = "delivery" if table == "deliveries" else "claim"
        yield Span(table, source, first, last, (last - first) * _per_claim(cursor), place, names)
