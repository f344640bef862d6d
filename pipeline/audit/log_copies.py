"""Compares deliveries, dead letters, cancelled messages and fires of the store with those of the lake.

Rows that both have must be the same, field by field, and neither side may lack a row that it should have. All go
through one comparison, with a row for each key and side, of hashes and not of the fields themselves.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from ..schemas import LAKE_DAYS, TABLES, TIME
from .balances import letters
from .evidence import Evidence
from .findings import finding, together
from .pairs import Pairs

_KEYS = {
    "deliveries": ("group_id", "queue_id", "number", "offset"),
    "dead": ("group_id", None, "id", "dead_at"),
    "cancelled": ("topic_id", None, "id", None),
    "fires": ("schedule_id", None, "fire_at", "at"),
}
"""The columns that identify a row: owner, queue, number and part."""
_KEY = ("table", "owner", "queue", "number", "part")
_PLACES = {
    "deliveries": ("message_queue_id", "message_offset", None),
    "dead": ("queue_id", "offset", "id"),
    "cancelled": (None, None, "id"),
    "fires": (None, None, "message_id"),
}
"""The columns that name the message: its queue, its offset, its id."""
_LOOKED_UP = ("message_queue_id", "message_offset", "attempt", "history")
"""Columns of a delivery that the store has in the returns from the ladder, which retention may take before it."""


def check(pairs: Pairs, evidence: Evidence, lived: DataFrame) -> DataFrame:
    """Rows that are missing on a side or not the same on both; `lived` are the `fates.lives` of this evidence."""
    unequal = evidence.keep(differing(pairs))
    taken = unequal.where("table = 'dead' AND kind = 'not_in_store'")
    offences = unequal.where("NOT (table = 'dead' AND kind = 'not_in_store')").select(*_COLUMNS)
    offences = offences.unionByName(_letters(taken, evidence, lived))
    messages = evidence.messages.select("queue_id", "offset", f.col("id").alias("message_id"), "streamed_at")
    offences = messages.join(f.broadcast(offences), ["queue_id", "offset"], "right")
    offences = offences.withColumn("id", f.coalesce("id", "message_id"))
    shortage = f.format_string("%d cancelled messages of the topic, and %d were written", "there", "archived")
    return together(finding(offences, f.col("kind"), f.col("detail")), finding(pairs.short, "not_in_lake", shortage))


_COLUMNS = ("kind", "topic", "group", "queue_id", "offset", "id", "detail")


def differing(pairs: Pairs) -> DataFrame:
    """Rows that a side lacks, or that are not the same on both; also letters that were rightly taken from the store."""
    sides = [
        _rows(table, side[table], stored=stored)
        for stored, side in ((True, pairs.store), (False, pairs.lake))
        for table in _KEYS
    ]
    stored = f.col("stored")
    both = together(*sides).groupBy(*_KEY)
    rows = both.agg(
        f.count_if(stored).alias("here"),
        f.count_if(~stored).alias("there"),
        f.first(f.when(stored, f.col("sums")), ignorenulls=True).alias("mine"),
        f.first(f.when(~stored, f.col("sums")), ignorenulls=True).alias("theirs"),
        *(f.max(name).alias(name) for name in ("topic", "group", "queue_id", "offset", "id", "at")),
    ).join(f.broadcast(pairs.reaches), ["table", "owner", "queue"])  # no others: groups and topics that were removed
    reached = f.when(f.col("table") == "deliveries", f.col("number")).otherwise(f.col("at")) < f.col("reach")
    others = _others()
    kind = (
        f.when((f.col("here") == 0) & (f.col("table") != "fires"), "not_in_store")  # a fire may have another end since
        .when((f.col("there") == 0) & reached, "not_in_lake")
        .when((f.col("there") > 1) | (f.length(others) > 0) & (f.col("there") > 0), "copy_differs")
    )
    entry = f.format_string("entry %d of the delivery log", "number")
    subject = f.when(f.col("table") == "deliveries", entry).otherwise(
        f.when(f.col("table") == "dead", "the dead letter")
        .when(f.col("table") == "fires", "the fire of a schedule")
        .otherwise("the cancelled message")
    )
    detail = (
        f.when(f.col("here") == 0, f.concat(subject, f.lit(": in the lake only")))
        .when(f.col("there") == 0, f.concat(subject, f.lit(": in the store only")))
        .when(f.col("there") > 1, f.concat(subject, f.format_string(": %d times in the lake", "there")))
        .otherwise(f.concat(subject, f.lit(": another "), others, f.lit(" in the lake")))
    )
    return rows.select(
        *_KEY, "topic", "group", "queue_id", "offset", "id", kind.alias("kind"), detail.alias("detail")
    ).where("kind IS NOT NULL")


def _rows(table: str, rows: DataFrame, *, stored: bool) -> DataFrame:
    """The rows of a side, of one shape for all tables."""
    owner, queue, number, part = _KEYS[table]
    queue_id, offset, id_ = _PLACES[table]
    part_of = f.lit(0) if part is None else _number(table, part)
    return rows.select(
        f.lit(table).alias("table"),
        f.col(owner).alias("owner"),
        (f.lit(0) if queue is None else f.col(queue)).alias("queue"),
        _number(table, number).alias("number"),
        part_of.cast("long").alias("part"),
        f.lit(stored).alias("stored"),
        "topic",
        (f.col("group") if "group" in rows.columns else f.lit(None)).cast("string").alias("group"),
        (f.lit(None) if queue_id is None else f.col(queue_id)).cast("int").alias("queue_id"),
        (f.lit(None) if offset is None else f.col(offset)).cast("long").alias("offset"),
        (f.lit(None) if id_ is None else f.col(id_)).cast("long").alias("id"),
        f.unix_millis(LAKE_DAYS[table]).alias("at"),
        f.array(*(_sum(table, name) for name in _compared(table))).alias("sums"),
    )


def _number(table: str, name: str) -> Column:
    """A column as a number; times as milliseconds."""
    return f.unix_millis(name) if TABLES[table][name].dataType == TIME else f.col(name)


def _compared(table: str) -> list[str]:
    return [name for name in TABLES[table].names if name not in _KEYS[table]]


def _sum(table: str, name: str) -> Column:
    sum_ = f.xxhash64(name)
    return f.when(f.col(name).isNotNull(), sum_) if table == "deliveries" and name in _LOOKED_UP else sum_


def _others() -> Column:
    """The names of the columns that are not the same, with commas."""

    def names(table: str) -> Column:
        differs = f.zip_with("mine", "theirs", lambda mine, theirs: mine.isNotNull() & ~mine.eqNullSafe(theirs))
        columns = f.array(*map(f.lit, _compared(table)))
        return f.array_join(f.zip_with(columns, differs, lambda name, other: f.when(other, name)), ", ")

    start = f.lit(None).cast("string")
    return reduce(
        lambda names_so_far, table: f.when(f.col("table") == table, names(table)).otherwise(names_so_far), _KEYS, start
    )


def _letters(taken: DataFrame, evidence: Evidence, lived: DataFrame) -> DataFrame:
    """Letters that only the lake has, of groups whose letters are fewer than they should be.

    A letter may be redriven, purged or replaced. A redriven message has gone on since, or died anew; of purges there
    are only counters, so letters that were purged from such a group are listed too.
    """
    short = (
        letters(evidence)
        .select(f.col("group_id").alias("owner"), (f.col("low") - f.col("letters")).alias("short"))
        .where("short > 0")
    )
    lives = lived.where("waiting = 0 AND last IN ('dead', 'lost_dead')").select(
        f.col("group_id").alias("owner"), "queue_id", "offset", f.unix_millis("last_at").alias("part")
    )
    offences = lives.join(f.broadcast(taken), ["owner", "queue_id", "offset", "part"]).join(f.broadcast(short), "owner")
    lost = f.format_string("%s; %d letters of the group are missing", "detail", "short")
    return offences.withColumn("detail", lost).select(*_COLUMNS)
