"""Columns that several figures share: what an outcome means, and rows brought into a schema."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation has it
from pyspark.sql.types import DataType, DoubleType, StructField, StructType

DOUBLE = DoubleType()

ACKED = ("acked", "acked_outside")
FAILED = ("retried",)
LOST = ("lost", "lost_dead")
DEAD = ("dead", "lost_dead")
FINAL = (*ACKED, *DEAD, "expired", "skipped")
"""Outcomes after which the group has nothing more to do."""

HANDED_OUT = ("open", *ACKED, *FAILED, "dead", *LOST, "suspended", "released", "parked")
"""Outcomes of messages that a consumer had. One that is `parked` without a time was behind another of its key, and
nobody had it. One that is `expired` with a time had failed, and would have come back past its end: see `handed_out`."""

_ACCURACY = 10_000
"""The accuracy of Spark's percentiles: the rank is within 1/10000, which p99.9 needs."""


def has_outcome(outcomes: Iterable[str]) -> Column:
    """Whether a delivery ended in one of these ways; of an open claim, whether it is in one of them now."""
    had = F.col("outcome").isin(list(outcomes))
    never = (F.col("outcome") == "parked") & F.col("settled_at").isNull()
    return had & ~never


def handed_out() -> Column:
    """Whether a consumer had the message."""
    return has_outcome(HANDED_OUT) | (F.col("outcome") == "expired") & F.col("settled_at").isNotNull()


def schema(*fields: tuple[str, DataType]) -> StructType:
    """The schema of a figure. Every column may be null: an unknown number is not 0."""
    return StructType([StructField(name, kind, True) for name, kind in fields])


def shaped(rows: DataFrame, schema: StructType) -> DataFrame:
    """The columns of the schema in its order, with its types; each may be null, as the schema says."""
    return rows.select(*(_nullable(F.col(f"`{f.name}`").cast(f.dataType)).alias(f.name) for f in schema.fields))


def _nullable(column: Column) -> Column:
    """The same column, of which Spark does not say that it is never null."""
    return F.when(column.isNull(), F.lit(None)).otherwise(column)


def span(later: str, earlier: str) -> Column:
    """Milliseconds from one time to another."""
    return F.unix_millis(F.col(later)) - F.unix_millis(F.col(earlier))


def due_of_message() -> Column:
    """When a message was to be handed out: a time that was past when it was accepted means at once."""
    return F.greatest("deliver_at", "accepted_at").alias("due")


def percentiles(value: Column, *shares: float) -> Column:
    """An array of approximate percentiles, in the order of `shares`; null if there are no values."""
    return F.percentile_approx(value, list(shares), _ACCURACY)
