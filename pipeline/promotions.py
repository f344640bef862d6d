"""One promotion per message: an id is at one place of the stream, and nowhere else besides."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from .findings import finding, together
from .sight import Sight


def check(sight: Sight) -> DataFrame:
    """Ids twice in the stream, and ids in the stream, among the timers and among the cancelled at once."""
    messages = sight.messages.where("id >= 0")  # a tombstone has no message
    twice = messages.groupBy("id").agg(f.count("*").alias("times")).where("times > 1")
    timers, cancelled = sight.timers.select("id"), sight.cancelled.select("id")
    streamed_at = f.col("streamed_at")
    return together(
        finding(
            messages.join(twice, "id"),
            "streamed_twice",
            f.format_string("%d times in the stream", "times"),
            streamed_at=streamed_at,
        ),
        finding(
            messages.join(timers, "id", "left_semi"),
            "waiting_and_streamed",
            f.lit("in the stream and among the timers"),
            streamed_at=streamed_at,
        ),
        finding(
            messages.join(cancelled, "id", "left_semi"),
            "cancelled_and_streamed",
            f.lit("in the stream and among the cancelled"),
            streamed_at=streamed_at,
        ),
        finding(
            sight.timers.join(cancelled, "id", "left_semi"),
            "cancelled_and_waiting",
            f.lit("among the timers and among the cancelled"),
        ),
    )
