"""What the rows of every table of the pipeline hold, the same from the store and from the lake.

Times are UTC with milliseconds, ids and offsets 64-bit integers, headers and histories JSON text as the store keeps
them. A message lies at (queue_id, offset); its `id` is a name, not a place.
"""

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

VERSION = 1
"""Of these schemas. A lake remembers the one it was written with; a newer one is refused."""

_TEXT, _INT, _LONG, _TIME, _BYTES = StringType(), IntegerType(), LongType(), TimestampType(), BinaryType()


def _schema(*fields: tuple[str, DataType] | tuple[str, DataType, bool]) -> StructType:
    """A field is (name, type), or (name, type, True) when it may be null."""
    return StructType([StructField(field[0], field[1], len(field) == 3) for field in fields])


_CONTENT = (
    ("key", _TEXT, True),
    ("ordering_key", _TEXT, True),
    ("tag", _TEXT, True),
    ("headers", _TEXT, True),
    ("content_type", _TEXT, True),  # null: the body is JSON text
    ("body", _BYTES),
    ("accepted_at", _TIME),
    ("deliver_at", _TIME),
)

_HANDED_OUT = (
    ("topic", _TEXT),
    ("group", _TEXT),
    ("group_id", _INT),
    ("queue_id", _INT),  # the one that it was claimed from: the topic's own, or the group's retry queue
    ("queue", _INT),
    ("number", _LONG),  # of the entry in the delivery log; of the claim while it is open
    ("claim", _LONG),
    ("client", _TEXT),
    ("offset", _LONG),  # in queue_id
    ("message_queue_id", _INT, True),  # where the message lies; null when a return was cleaned before
    ("message_offset", _LONG, True),
    ("attempt", _INT, True),  # 1 for the first
    (
        "history",
        _TEXT,
        True,
    ),  # JSON [{at, client, reason}], of the counted attempts before this one; null for the first
    ("outcome", _TEXT),  # one of OUTCOMES
    ("claimed_at", _TIME),
    ("settled_at", _TIME, True),
    ("ended_at", _TIME, True),  # of the claim; null while it is open
)

MESSAGES = _schema(
    ("topic", _TEXT),
    ("topic_id", _INT),
    ("queue_id", _INT),
    ("queue", _INT),
    ("offset", _LONG),
    ("id", _LONG),
    *_CONTENT,
    ("streamed_at", _TIME),
)
"""The stream: messages that are due, by (queue_id, offset), which is the order of commits."""

DELIVERIES = _schema(*_HANDED_OUT)
"""One row per message and ended claim: the delivery log, by (group_id, queue_id, number, offset)."""

CLAIMS = _schema(*_HANDED_OUT)
"""The same for claims that are open: never in the lake."""

RETRIES = _schema(
    ("topic", _TEXT),
    ("group", _TEXT),
    ("group_id", _INT),
    ("retry_id", _LONG),
    ("due", _TIME),
    ("message_queue_id", _INT),
    ("message_offset", _LONG),
    ("message_id", _LONG),
    ("attempt", _INT),
    ("history", _TEXT),
    ("failed_at", _TIME, True),
    ("parked", BooleanType()),  # behind one of its key, of an ordered topic; `due` is then when it was parked
)
"""Messages on a rung of a group's ladder, or parked: not in the lake."""

RETURNS = _schema(
    ("topic", _TEXT),
    ("group", _TEXT),
    ("group_id", _INT),
    ("queue_id", _INT),
    ("offset", _LONG),
    ("message_queue_id", _INT),
    ("message_offset", _LONG),
    ("message_id", _LONG),
    ("attempt", _INT),
    ("history", _TEXT),
    ("streamed_at", _TIME),
    ("due", _TIME, True),  # when its rung was over; null when it was parked, and came when its key was free
)
"""What came back from the ladder into the retry queues, claimed or not: not in the lake, its deliveries are."""

DEAD = _schema(
    ("topic", _TEXT),
    ("group", _TEXT),
    ("group_id", _INT),
    ("id", _LONG),
    ("dead_at", _TIME),
    ("history", _TEXT),
    ("queue_id", _INT),
    ("offset", _LONG),
    *_CONTENT,
)
"""Dead letters, by (group_id, id, dead_at). In the lake they stay when they are redriven or purged."""

TIMERS = _schema(
    ("topic", _TEXT),
    ("topic_id", _INT),
    ("queue_id", _INT),
    ("id", _LONG),
    ("due", _TIME),
    *_CONTENT,
)
"""Messages that wait for their time: not in the lake."""

CANCELLED = _schema(
    ("topic", _TEXT),
    ("topic_id", _INT),
    ("id", _LONG),
    ("key", _TEXT, True),
    ("accepted_at", _TIME),
    ("deliver_at", _TIME),
    ("cancelled_at", _TIME),
)
"""Messages cancelled in time, by id."""

QUEUES = _schema(
    ("topic", _TEXT),
    ("topic_id", _INT),
    ("queue_id", _INT),
    ("queue", _INT),
    ("group_id", _INT),  # 0: the topic's own; else the retry queue of that group
    ("next_offset", _LONG),
    ("straight", _LONG),
    ("holes", _LONG),
    ("floor", _LONG),  # the lowest offset that may still exist in the store
)
"""The sequences and their counters."""

CURSORS = _schema(
    ("topic", _TEXT),
    ("group", _TEXT),
    ("group_id", _INT),
    ("queue_id", _INT),
    *((name, _LONG) for name in ("origin", "position", "next_claim", "next_delivery")),
    *((name, _LONG) for name in ("acked", "dead", "retried", "expired", "skipped", "parked")),
    *((name, _LONG) for name in ("sought", "redriven", "cleared")),
)
"""How far each group is in each of its queues, and its counters."""

TALLIES = _schema(
    ("topic", _TEXT),
    ("topic_id", _INT),
    ("scheduled", _LONG),
    ("cancelled", _LONG),
)
"""The counters of a topic beside those of its queues, all makers together."""

TABLES = {
    "messages": MESSAGES,
    "deliveries": DELIVERIES,
    "claims": CLAIMS,
    "retries": RETRIES,
    "returns": RETURNS,
    "dead": DEAD,
    "timers": TIMERS,
    "cancelled": CANCELLED,
    "queues": QUEUES,
    "cursors": CURSORS,
    "tallies": TALLIES,
}
"""By the name that the source knows each by: `spark.read.format("tarry").option("table", name)`."""

IN_LAKE = ("messages", "deliveries", "dead", "cancelled")
"""The tables that are archived; in the lake each has `day` too, of the time that `LAKE_DAYS` names."""

LAKE_DAYS = {"messages": "streamed_at", "deliveries": "ended_at", "dead": "dead_at", "cancelled": "cancelled_at"}

OUTCOMES = {
    0: "open",
    1: "acked",
    2: "retried",
    3: "dead",
    4: "lost",
    5: "lost_dead",
    6: "suspended",
    7: "expired",
    8: "skipped",
    9: "parked",
    16: "acked_outside",
    20: "released",
}
"""The words for `store.records.Outcome`."""


def lake_schema(table: str) -> StructType:
    """The schema of a table in the lake, which is parted by `topic` and `day`."""
    return StructType([*TABLES[table].fields, StructField("day", DateType(), False)])
