"""What there is in the store: topics, queues, groups, and how far each has come. Small, and read first of all.

Ends are read before the rows below them: an offset below a queue's end is committed, and a number below a cursor's
`next_delivery` is in the delivery log, or was.
"""

from attrs import frozen

from ..link import Link


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


@frozen
class Cursor:
    """How far a group is in a queue, and its counters."""

    group_id: int
    queue_id: int
    counters: tuple[int, ...]
    """In the order of `COUNTERS`."""

    @property
    def next_delivery(self) -> int:
        return self.counters[COUNTERS.index("next_delivery")]

    @property
    def next_claim(self) -> int:
        return self.counters[COUNTERS.index("next_claim")]


COUNTERS = (
    *("origin", "position", "next_claim", "next_delivery"),
    *("acked", "dead", "retried", "expired", "skipped", "parked", "sought", "redriven", "cleared"),
)


@frozen
class Facts:
    """All of it, at one moment or a few after."""

    topics: dict[int, str]
    """Names by id."""
    groups: dict[int, tuple[int, str]]
    """(topic id, name) by id."""
    queues: dict[int, Queue]
    cursors: tuple[Cursor, ...]
    tallies: dict[int, tuple[int, int]]
    """(scheduled, cancelled) by topic id."""

    def topic_of(self, queue_id: int) -> str:
        return self.topics[self.queues[queue_id].topic_id]


def read_facts(link: Link) -> Facts:
    """Raises `StoreAway` or another `PipelineError`."""
    names = ", ".join(f"`{name}`" for name in COUNTERS)
    cursors = [
        Cursor(int(group_id), int(queue_id), tuple(map(int, counters)))
        for group_id, queue_id, *counters in link.rows(
            f"SELECT group_id, queue_id, {names} FROM `cursor` ORDER BY group_id, queue_id"  # noqa: S608  # constants
        )
    ]
    queues = [
        Queue(*map(int, row))
        for row in link.rows(
            "SELECT q.id, q.topic_id, q.group_id, q.number, q.next_offset, q.straight, q.holes, COALESCE(c.floor, 0)"
            " FROM queue q LEFT JOIN cleaned c ON c.queue_id = q.id ORDER BY q.id"
        )
    ]
    topics = {int(id_): _text(name) for id_, name in link.rows("SELECT id, name FROM topic")}
    groups = {
        int(id_): (int(topic_id), _text(name))
        for id_, topic_id, name in link.rows("SELECT id, topic_id, name FROM consumer_group")
        if int(topic_id) in topics  # or the topic was made after these were read
    }
    tallies = {
        int(topic_id): (int(scheduled), int(cancelled))
        for topic_id, scheduled, cancelled in link.rows(
            "SELECT topic_id, SUM(scheduled), SUM(cancelled) FROM tally GROUP BY topic_id"
        )
    }
    kept = {queue.id: queue for queue in queues if queue.topic_id in topics}
    return Facts(
        topics,
        groups,
        kept,
        tuple(c for c in cursors if c.queue_id in kept and c.group_id in groups),
        tallies,
    )


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
