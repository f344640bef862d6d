"""Makes `Tables` from literal rows: each is a dict with the values that matter to the test; the rest get defaults.

Times are integers, milliseconds since 1970, or already moments.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, TimestampType

from tarry.pipeline import columns
from tarry.pipeline.schemas import TABLES, Tables

Literal = Mapping[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MESSAGE: dict[str, Any] = {"topic": "t", "topic_id": 1, "queue_id": 1, "queue": 0, "body": b"{}"}
_GROUP: dict[str, Any] = {"topic": "t", "group": "g", "group_id": 1}
_HANDED_OUT = _GROUP | {"queue_id": 1, "queue": 0, "number": 0, "claim": 0, "client": "c", "attempt": 1}
_PLAIN: dict[str, dict[str, Any]] = {
    "messages": _MESSAGE,
    "deliveries": {**_HANDED_OUT, "outcome": "acked"},
    "claims": {**_HANDED_OUT, "outcome": "open"},
    "retries": {**_GROUP, "history": "[]", "parked": False},
    "returns": {**_GROUP, "history": "[]"},
    "dead": {**_GROUP, "queue_id": 1, "body": b"{}", "history": "[]"},
    "timers": {**_MESSAGE},
    "cancelled": {"topic": "t", "topic_id": 1},
    "fires": {"topic": "t", "schedule": "daily", "schedule_id": 1, "outcome": "fired"},
    "queues": {"topic": "t", "topic_id": 1, "queue_id": 1, "queue": 0, "group_id": 0},
    "cursors": {**_GROUP, "queue_id": 1},
    "tallies": {"topic": "t", "topic_id": 1},
}


def literal_tables(spark: SparkSession, **rows: Iterable[Literal]) -> Tables:
    """Tables with these rows; all other tables are empty."""
    return Tables(**{name: literal_table(spark, name, rows.get(name, ())) for name in TABLES})


def literal_table(spark: SparkSession, name: str, rows: Iterable[Literal]) -> DataFrame:
    return literal_frame(spark, TABLES[name], [filled(name, row) for row in rows])


def literal_frame(spark: SparkSession, schema: StructType, rows: Iterable[Literal]) -> DataFrame:
    """A DataFrame of this schema. A field that a row does not name is null."""
    return columns.frame(spark, [{field.name: _value(field, row) for field in schema.fields} for row in rows], schema)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows in their order, times as milliseconds."""
    return [{name: _plain(value) for name, value in row.asDict().items()} for row in frame.collect()]


def filled(name: str, row: Literal) -> dict[str, Any]:
    """The row with the table's default values for missing fields."""
    known = {**_PLAIN[name], **row}
    if name in ("deliveries", "claims"):
        known.setdefault("message_queue_id", known["queue_id"])
        known.setdefault("message_offset", known["offset"])
    for early, later in (("deliver_at", "accepted_at"), ("streamed_at", "deliver_at"), ("due", "deliver_at")):
        if later in known:
            known.setdefault(early, known[later])
        elif early in known:
            known.setdefault(later, known[early])
    if "deliver_at" in known:
        known.setdefault("accepted_at", known["deliver_at"])
    if name == "deliveries":
        known.setdefault("settled_at", known["claimed_at"])
        known.setdefault("ended_at", known["settled_at"] or known["claimed_at"])
    return {field.name: known.get(field.name, 0 if not field.nullable else None) for field in TABLES[name].fields}


def _value(field: Any, row: Literal) -> Any:
    value = row.get(field.name)
    return moment(value) if isinstance(field.dataType, TimestampType) and isinstance(value, int) else value


def moment(milliseconds: int) -> datetime:
    """The moment of a time of the store, in milliseconds."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _plain(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    local = value.astimezone(UTC) if value.tzinfo is None else value  # Spark gives local time
    return (local - _EPOCH) // timedelta(milliseconds=1)
