"""The schemas of all tables of the pipeline, the same for the store and for the lake.

Times are UTC with milliseconds, ids and offsets 64-bit integers, headers and histories JSON text as the store keeps
them. A message lies at (queue_id, offset); its `id` is a name, not a place.
"""

from collections.abc import Iterator, Sequence

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from ..store.content import FIRST, LATER, NUMBERS
from ..store.schedules.course import OUTCOMES as OUTCOMES_OF_FIRES

VERSION = 1 + len(LATER)
"""The version of these schemas; a new column that is no attribute of a message adds one here. A lake remembers the
version that it was written with. A newer one is refused. In an older one columns are missing: they are read as nulls,
and the next archiver adds them. (2: `expires_at`; `reason`, `guard` of `cancelled`.) A further table is no new version:
an older program passes over it."""

TEXT, INT, LONG, TIME = t.StringType(), t.IntegerType(), t.LongType(), t.TimestampType()


Field = tuple[str, t.DataType] | tuple[str, t.DataType, bool]


def schema_of(*fields: Field) -> t.StructType:
    """A field is (name, type), or (name, type, True) when it may be null."""
    return t.StructType([t.StructField(field[0], field[1], len(field) == 3) for field in fields])


def _attributes(names: Sequence[str]) -> Iterator[tuple[str, t.DataType, bool]]:
    """The attributes of a message, see `store.content`: numbers there are times."""
    return ((name, TIME if name in NUMBERS else TEXT, True) for name in names)


_CONTENT: tuple[Field, ...] = (
    *_attributes(FIRST),
    ("body", t.BinaryType()),
    ("accepted_at", TIME),
    ("deliver_at", TIME),
    *_attributes(LATER),
)

_HANDED_OUT = (
    ("topic", TEXT),
    ("group", TEXT),
    ("group_id", INT),
    ("queue_id", INT),  # the one that it was claimed from: the topic's own, or the group's retry queue
    ("queue", INT),
    ("number", LONG),  # of the entry in the delivery log; of the claim while it is open
    ("claim", LONG),
    ("client", TEXT),
    ("offset", LONG),  # in queue_id
    ("message_queue_id", INT, True),  # where the message lies; null when a return was cleaned before
    ("message_offset", LONG, True),
    ("attempt", INT, True),  # 1 for the first
    ("history", TEXT, True),  # JSON [{at, client, reason}], of the counted attempts before; null for the first
    ("outcome", TEXT),  # one of OUTCOMES
    ("claimed_at", TIME),
    ("settled_at", TIME, True),
    ("ended_at", TIME, True),  # of the claim; null while it is open
)

MESSAGES = schema_of(
    ("topic", TEXT),
    ("topic_id", INT),
    ("queue_id", INT),
    ("queue", INT),
    ("offset", LONG),
    ("id", LONG),
    *_CONTENT,
    ("streamed_at", TIME),
)
"""The stream: messages that are due, by (queue_id, offset), which is the order of commits."""

DELIVERIES = schema_of(*_HANDED_OUT)
"""One row per message and ended claim: the delivery log, by (group_id, queue_id, number, offset)."""

CLAIMS = schema_of(*_HANDED_OUT)
"""The same for claims that are open: never in the lake."""

RETRIES = schema_of(
    ("topic", TEXT),
    ("group", TEXT),
    ("group_id", INT),
    ("retry_id", LONG),
    ("due", TIME),
    ("message_queue_id", INT),
    ("message_offset", LONG),
    ("message_id", LONG),
    ("attempt", INT),
    ("history", TEXT),
    ("failed_at", TIME, True),
    ("parked", t.BooleanType()),  # behind one of its key, of an ordered topic; `due` is then when it was parked
)
"""Messages on a rung of a group's ladder, or parked: not in the lake."""

RETURNS = schema_of(
    ("topic", TEXT),
    ("group", TEXT),
    ("group_id", INT),
    ("queue_id", INT),
    ("offset", LONG),
    ("message_queue_id", INT),
    ("message_offset", LONG),
    ("message_id", LONG),
    ("attempt", INT),
    ("history", TEXT),
    ("streamed_at", TIME),
    ("due", TIME, True),  # when its rung was over; null when it was parked, and came when its key was free
)
"""Messages back from the ladder in the retry queues, claimed or not: not in the lake, but their deliveries are."""

DEAD = schema_of(
    ("topic", TEXT),
    ("group", TEXT),
    ("group_id", INT),
    ("id", LONG),
    ("dead_at", TIME),
    ("history", TEXT),
    ("queue_id", INT),
    ("offset", LONG),
    *_CONTENT,
)
"""Dead letters, by (group_id, id, dead_at). In the lake they stay when they are redriven or purged."""

TIMERS = schema_of(("topic", TEXT), ("topic_id", INT), ("queue_id", INT), ("id", LONG), ("due", TIME), *_CONTENT)
"""Messages that wait for their time: not in the lake."""

CANCELLED = schema_of(
    ("topic", TEXT),
    ("topic_id", INT),
    ("id", LONG),
    ("key", TEXT, True),
    ("accepted_at", TIME),
    ("deliver_at", TIME),
    ("cancelled_at", TIME),
    ("reason", TEXT, True),  # SUPPRESSED; null: somebody cancelled it
    ("guard", TEXT, True),  # that suppressed it
)
"""Messages cancelled in time, or suppressed, by id."""

SUPPRESSED = "suppressed"
"""The reason of a message that its guard has ended."""

FIRES = schema_of(
    ("topic", TEXT),
    ("schedule", TEXT),
    ("schedule_id", INT),
    ("fire_at", TIME),  # the time that the schedule says; its message may be due later, by the jitter
    ("at", TIME),  # when it had this end
    ("message_id", LONG, True),  # null: there was no message
    ("outcome", TEXT),  # one of FIRE_OUTCOMES
)
"""What became of the fire times of schedules, by (schedule_id, fire_at, at): in the lake a fire time that was kept
back, or left out and made up for later, has a row for each; the last row says how it ended."""

FIRE_OUTCOMES: tuple[str, ...] = OUTCOMES_OF_FIRES
"""The outcomes of fire times, as in `store.schedules.course`."""

QUEUES = schema_of(
    ("topic", TEXT),
    ("topic_id", INT),
    ("queue_id", INT),
    ("queue", INT),
    ("group_id", INT),  # 0: the topic's own; else the retry queue of that group
    ("next_offset", LONG),
    ("straight", LONG),
    ("holes", LONG),
    ("floor", LONG),  # the lowest offset that may still exist in the store
)
"""The queues, with their offsets and counters."""

CURSORS = schema_of(
    ("topic", TEXT),
    ("group", TEXT),
    ("group_id", INT),
    ("queue_id", INT),
    *((name, LONG) for name in ("origin", "position", "next_claim", "next_delivery")),
    *((name, LONG) for name in ("acked", "dead", "retried", "expired", "skipped", "parked")),
    *((name, LONG) for name in ("sought", "redriven", "cleared")),
)
"""How far each group is in each of its queues, and its counters."""

TALLIES = schema_of(
    ("topic", TEXT),
    ("topic_id", INT),
    *((name, LONG) for name in ("scheduled", "cancelled", "replaced", "suppressed")),
)
"""The counters of a topic beside those of its queues, summed over its shards."""

TABLES = {
    "messages": MESSAGES,
    "deliveries": DELIVERIES,
    "claims": CLAIMS,
    "retries": RETRIES,
    "returns": RETURNS,
    "dead": DEAD,
    "timers": TIMERS,
    "cancelled": CANCELLED,
    "fires": FIRES,
    "queues": QUEUES,
    "cursors": CURSORS,
    "tallies": TALLIES,
}
"""The schemas by the names of tables in the source: `spark.read.format("tarry").option("table", name)`."""


@frozen
class Tables:
    """The tables that a job looks at, as DataFrames with these schemas: each message once, wherever its rows lie.

    `history.open_tables` makes them of the store, of the lake, or of both together; tests make them of literal rows.
    Without a store, tables that the lake does not have are empty.
    """

    messages: DataFrame
    deliveries: DataFrame
    claims: DataFrame
    retries: DataFrame
    returns: DataFrame
    dead: DataFrame
    timers: DataFrame
    cancelled: DataFrame
    fires: DataFrame
    queues: DataFrame
    cursors: DataFrame
    tallies: DataFrame

    @property
    def handled(self) -> DataFrame:
        """All that was claimed: the deliveries, and the claims that are open."""
        return self.deliveries.unionByName(self.claims)


IN_LAKE = ("messages", "deliveries", "dead", "cancelled", "fires")
"""The tables that are archived; in the lake each has a `day` too, that of the time that `LAKE_DAYS` names."""

LAKE_DAYS = {
    "messages": "streamed_at",
    "deliveries": "ended_at",
    "dead": "dead_at",
    "cancelled": "cancelled_at",
    "fires": "at",
}

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


def lake_schema(table: str) -> t.StructType:
    """The schema of a table in the lake, which is partitioned by `topic` and `day`."""
    return t.StructType([*TABLES[table].fields, t.StructField("day", t.DateType(), False)])
