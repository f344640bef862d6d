"""Compares messages that are in the store and in the lake: both copies must be equal, byte by byte."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ...store.content import ATTRIBUTES
from .. import schemas
from .findings import finding, together

_PLACE = ("queue_id", "offset")
_CONTENT = (*ATTRIBUTES, "accepted_at", "deliver_at", "streamed_at")


def check(store: DataFrame, lake: DataFrame) -> DataFrame:
    """Copies that differ; `store` and `lake` have the schema of messages. A message of only one side is not compared.

    A message of the store whose neighbours on both sides are in the lake must be there too.
    """
    mine, theirs = _sums(store), _sums(lake)
    archived = theirs.groupBy("queue_id").agg(f.min("offset").alias("first"), f.max("offset").alias("last"))
    other = theirs.select(*_PLACE, *(f.col(name).alias(f"lake_{name}") for name in ("id", "body_sum", "content_sum")))
    both = mine.join(other, [*_PLACE], "left")
    what = f.when(f.col("id") != f.col("lake_id"), f.format_string("id %d in the lake", "lake_id")).when(
        f.col("body_sum") != f.col("lake_body_sum"),
        f.format_string("body %s in the store, %s in the lake", "body_sum", "lake_body_sum"),
    )
    what = what.when(
        f.col("content_sum") != f.col("lake_content_sum"), f.lit("same body, other key, tag, headers or times")
    )
    absent = both.where("lake_id IS NULL AND id >= 0").join(f.broadcast(archived), "queue_id")
    return together(
        finding(both.where(what.isNotNull()), "copy_differs", what),
        finding(
            absent.where("offset > first AND offset < last"),
            "not_in_lake",
            f.format_string("offsets %d to %d are archived", "first", "last"),
        ),
    )


def _sums(messages: DataFrame) -> DataFrame:
    """The place of each message, and hashes of its content; the bytes themselves stay where they are."""
    assert set(_CONTENT) < set(schemas.MESSAGES.names)  # noqa: S101
    return messages.select(
        "topic",
        "queue_id",
        "offset",
        "id",
        "streamed_at",
        f.substring(f.sha2(f.col("body"), 256), 1, 16).alias("body_sum"),
        f.xxhash64(*(f.coalesce(f.col(name).cast("string"), f.lit("\0")) for name in _CONTENT)).alias("content_sum"),
    )
