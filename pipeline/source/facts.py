"""The facts of a store: its topics, queues and groups, and how far each has come. Small, and read first of all.

Ends are read before the rows below them: an offset below a queue's end is committed, and a number below a cursor's
`next_delivery` is in the delivery log, or was.
"""

from collections.abc import Mapping

from attrs import field, frozen

from ..store_connection import StoreConnection, text_of


@frozen
class Queue:
    """A sequence of offsets; `group_id` 0: the topic's own, else the retry queue of that group."""

    id: int
    topic_id: int
    group_id: int
    number: int
    next_offset: int
    straight: int
    holes: int
    floor: int
    """The lowest offset that may still exist."""


COUNTERS = (
    "origin",
    "position",
    "next_claim",
    "next_delivery",
    "acked",
    "dead",
    "retried",
    "expired",
    "skipped",
    "parked",
    "sought",
    "redriven",
    "cleared",
)


@frozen
class Cursor:
    """How far a group is in a queue."""

    group_id: int
    queue_id: int
    counters: Mapping[str, int]
    """By `COUNTERS`."""


@frozen
class Facts:
    """All facts of a store, read one after the other."""

    topics: dict[int, str]
    """Names by id."""
    groups: dict[int, tuple[int, str]]
    """(topic id, name) by id."""
    queues: dict[int, Queue]
    cursors: tuple[Cursor, ...]
    tallies: dict[int, dict[str, int]]
    """The counters scheduled, cancelled, replaced and suppressed, by topic id."""
    schedules: dict[int, tuple[int, str]] = field(factory=dict[int, tuple[int, str]])
    """(topic id, name) by id."""

    def topic_of(self, queue_id: int) -> str:
        return self.topics[self.queues[queue_id].topic_id]


def read_facts(connection: StoreConnection) -> Facts:
    """Reads the facts. Raises `StoreAway` or another `PipelineError`."""
    cursors = [
        Cursor(row["group_id"], row["queue_id"], {name: row[name] for name in COUNTERS})
        for row in connection.fetch("cursor.all")
    ]
    queues = [Queue(**row) for row in connection.fetch("queue.all")]
    topics = {row["id"]: text_of(row["name"]) for row in connection.fetch("topic.all")}
    groups = {
        row["id"]: (row["topic_id"], text_of(row["name"]))
        for row in connection.fetch("consumer_group.names")
        if row["topic_id"] in topics  # otherwise the topic was made after the topics were read
    }
    tallies = {
        row["topic_id"]: {name: int(row[name]) for name in ("scheduled", "cancelled", "replaced", "suppressed")}
        for row in connection.fetch("tally.all")
    }
    schedules = {
        row["id"]: (row["topic_id"], text_of(row["name"]))
        for row in connection.fetch("schedule.names")
        if row["topic_id"] in topics
    }
    kept = {queue.id: queue for queue in queues if queue.topic_id in topics}
    known = tuple(c for c in cursors if c.queue_id in kept and c.group_id in groups)
    return Facts(topics, groups, kept, known, tallies, schedules)


def facts_of(dsn: str) -> Facts:
    """Reads the facts over a connection of its own. Raises as `read_facts` does."""
    with StoreConnection(dsn) as connection:
        return read_facts(connection)
