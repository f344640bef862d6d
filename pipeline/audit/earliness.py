"""Never early (I2, I6): nothing is in the stream before its time, nothing handed out before it, no rung cut short. Nor
is anything handed out past the end of its time.

A message goes into the stream in a transaction that knows its time: there not a millisecond is allowed. A claim carries
the clock of the node that gave it, which may be behind that of the node that promoted the message.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from .evidence import Evidence
from .findings import finding, together

CLOCKS = 1_000
"""Milliseconds by which two nodes may read their database's clock differently: an answer was on its way, or waited for
a busy machine. A claim that is early by less follows a promotion that was not early, and is only counted."""


def check(evidence: Evidence, lived: DataFrame) -> DataFrame:
    """Messages that came early; `lived` are the `fates.lives` of this evidence."""
    streamed_at = f.col("streamed_at")
    streamed, claimed = _before(streamed_at), _before(f.col("claimed_at"))
    return together(
        finding(
            evidence.messages.where("id >= 0 AND streamed_at < due"),
            "early",
            f.format_string("in the stream %d ms before its time", streamed),
        ),
        finding(lived.where(claimed >= CLOCKS), "early", f.format_string("claimed %d ms before its time", claimed)),
        _rungs(evidence),
        _expired(evidence),
    )


def within_clocks(lived: DataFrame) -> DataFrame:
    """Claims whose time lies before that of their message, by no more than clocks may differ."""
    before = _before(f.col("claimed_at"))
    return lived.where((before > 0) & (before < CLOCKS))


def _rungs(evidence: Evidence) -> DataFrame:
    """Messages that came back from the ladder before their rung was over, and were handed out.

    Retention brings messages that it takes away back early; they expire when they are claimed, and nobody is given
    them.
    """
    back = evidence.returns.select("queue_id", "offset", f.col("streamed_at").alias("back_at"), "due")
    claimed = evidence.handed.where("NOT own AND outcome NOT IN ('expired', 'skipped')").join(
        back.where("due IS NOT NULL"), ["queue_id", "offset"]
    )
    early = _before(f.col("back_at"))
    early = f.when(early > 0, early).otherwise(_before(f.col("claimed_at")))
    offences = claimed.where((f.col("back_at") < f.col("due")) | (early >= CLOCKS)).select(
        "topic",
        "group",
        early.alias("early"),
        "attempt",
        *(f.col(f"message_{name}").alias(name) for name in ("queue_id", "offset")),
    )
    messages = evidence.messages.select("queue_id", "offset", "id", "streamed_at")
    offences = messages.join(f.broadcast(offences), ["queue_id", "offset"], "right")
    detail = f.format_string("attempt %d began %d ms before its rung was over", "attempt", "early")
    return finding(offences, "early", detail)


def _expired(evidence: Evidence) -> DataFrame:
    """Messages that were handed out from their `expires_at` on: by the clock of the claim, so to the millisecond."""
    ending = evidence.messages.where("expires_at IS NOT NULL").drop("topic")
    handed = evidence.handed.where("message_offset IS NOT NULL").select(
        "topic",
        "group",
        "outcome",
        "claimed_at",
        "settled_at",
        f.col("message_queue_id").alias("queue_id"),
        f.col("message_offset").alias("offset"),
    )
    never = f.col("outcome").isin("expired", "skipped", "parked") & f.col("settled_at").isNull()
    late = handed.join(ending, ["queue_id", "offset"]).where(~never & (f.col("claimed_at") >= f.col("expires_at")))
    past = f.unix_millis("claimed_at") - f.unix_millis("expires_at")
    return finding(late, "past_its_time", f.format_string("claimed %d ms after it had expired", past))


def _before(at: Column) -> Column:
    """Milliseconds by which a time is before `due`."""
    return f.unix_millis("due") - f.unix_millis(at)
