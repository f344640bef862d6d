"""One promotion per message: an id is at one place of the stream, and nowhere else besides."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from .evidence import Evidence
from .findings import finding, together

_PLACES = ("times", "waiting", "gone")
"""How often an id is in the stream, among the timers and among the cancelled."""


def check(evidence: Evidence) -> DataFrame:
    """Ids twice in the stream, and ids in the stream, among the timers and among the cancelled at once."""
    messages = evidence.messages.where("id >= 0")  # a tombstone has no message
    seen = [
        rows.select("id", *(f.lit(int(name == place)).alias(name) for name in _PLACES))
        for place, rows in zip(_PLACES, (messages, evidence.timers, evidence.cancelled), strict=True)
    ]
    times = together(*seen).groupBy("id").agg(*(f.sum(name).alias(name) for name in _PLACES))
    wrong = evidence.keep(times.where("times > 1 OR times + waiting + gone > greatest(times, waiting, gone)"))
    streamed, waits = messages.join(wrong, "id"), evidence.timers.join(wrong, "id")
    return together(
        finding(streamed.where("times > 1"), "streamed_twice", f.format_string("%d times in the stream", "times")),
        finding(streamed.where("waiting > 0"), "waiting_and_streamed", f.lit("in the stream and among the timers")),
        finding(streamed.where("gone > 0"), "cancelled_and_streamed", f.lit("in the stream and among the cancelled")),
        finding(waits.where("gone > 0"), "cancelled_and_waiting", f.lit("among the timers and among the cancelled")),
    )
