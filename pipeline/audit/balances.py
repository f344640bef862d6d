"""The equations of promise I14: counters against counters, and counters against rows.

Each holds at any moment, but its parts are read one after another. So a part that is counted in rows is compared with
what its counters allow between their two readings: exactly, if nothing moved meanwhile.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from .evidence import OUTCOMES, Evidence, Scope
from .findings import finding, together

_SETTLED = ("acked", "dead", "retried", "expired", "skipped", "parked")
_COUNTED = ("acked", "dead", "retried")
"""Counters whose every count has a row in the log; the others count messages without a row, too."""
_CURSOR = ["group_id", "queue_id"]


def check(evidence: Evidence, scope: Scope) -> DataFrame:
    """Equations that do not hold."""
    of_topic, of_group = topics(evidence), groups(evidence)
    return together(
        finding(
            of_topic.where("NOT holds"),
            "topic_counters",
            f.format_string(
                "accepted %d is not streamed %d + cancelled %d + replaced %d + suppressed %d + expired %d + pending %d",
                "accepted",
                "streamed",
                "cancelled",
                "replaced",
                "suppressed",
                "expired",
                "waiting",
            ),
        ),
        finding(
            of_group.where("NOT holds"),
            "group_counters",
            f.format_string(
                "moves %d are not acked %d + dead %d + retried %d + parked %d + claimed %d + expired %d + skipped %d"
                " + sought %d",
                "moves",
                "acked",
                "dead",
                "retried",
                "parked",
                "claimed",
                "expired",
                "skipped",
                "sought",
            ),
        ),
        _rows(evidence),
        gaps(evidence),
        _ladder(evidence),
        _letters(evidence),
        _deaths(evidence, scope),
    )


def topics(evidence: Evidence) -> DataFrame:
    """By topic: accepted = streamed + cancelled + replaced + suppressed + expired + pending. `waiting` is rows."""
    before, after = _topic_counters(evidence.tallies, evidence.queues, evidence.outbox), "after"
    later = _topic_counters(evidence.tallies_after, evidence.queues_after, evidence.outbox_after)
    later = later.select("topic_id", *(f.col(name).alias(f"{name}_{after}") for name in _TOPIC))
    waiting = evidence.timers.groupBy("topic_id").agg(f.count("*").alias("waiting"))
    rows = before.join(later, "topic_id").join(waiting, "topic_id", "left").na.fill(0, ["waiting"])
    grown = {name: f.greatest(f.col(f"{name}_after") - f.col(name), f.lit(0)) for name in _TOPIC}
    pending = f.col("accepted") - _sum(_LEFT)
    low = reduce(lambda left, name: left - grown[name], _LEFT, pending)
    high = pending + grown["accepted"]
    return rows.select(
        "topic",
        "topic_id",
        *_TOPIC,
        f.lit(0).cast("long").alias("expired"),
        pending.alias("pending"),
        "waiting",
        f.col("waiting").between(low, high).alias("holds"),
        (low != high).alias("busy"),
    ).orderBy("topic")


_LEFT = ("streamed", "cancelled", "replaced", "suppressed")
"""The ways in which a message ceases to be pending."""
_TOPIC = ("accepted", *_LEFT)


def _topic_counters(tallies: DataFrame, queues: DataFrame, outbox: DataFrame) -> DataFrame:
    streams = (
        queues.where("group_id = 0")
        .groupBy("topic", "topic_id")
        .agg(f.sum(f.col("next_offset") - f.col("holes")).alias("in_stream"), f.sum("straight").alias("straight"))
    )
    ends = _LEFT[1:]
    tally = tallies.groupBy("topic_id").agg(
        f.sum("scheduled").alias("timers"), *(f.sum(name).alias(f"counted_{name}") for name in ends)
    )
    outside = outbox.groupBy("topic_id").agg(
        (f.sum("uncounted") + f.sum("scheduled")).alias("more"), *(f.sum(name).alias(f"more_{name}") for name in ends)
    )
    rows = streams.join(tally, "topic_id", "left").join(outside, "topic_id", "left")
    rows = rows.na.fill(0, ["timers", "more", *(f"{part}_{name}" for part in ("counted", "more") for name in ends)])
    return rows.select(
        "topic",
        "topic_id",
        (f.col("timers") + f.col("straight") + f.col("more")).alias("accepted"),
        f.col("in_stream").alias("streamed"),
        *((f.col(f"counted_{name}") + f.col(f"more_{name}")).alias(name) for name in ends),
    )


def groups(evidence: Evidence) -> DataFrame:
    """By group and queue: cursor moves = acked + dead + retried + parked + claimed + expired + skipped + sought.

    `retry`: whether it is the group's retry queue; a message on the ladder was claimed from either kind of queue, and
    counts as retried.
    """
    claimed = evidence.ledger.select(*_CURSOR, "claimed")
    later = evidence.cursors_after.select(
        *_CURSOR, *(f.col(name).alias(f"{name}_after") for name in ("position", "sought", *_SETTLED))
    )
    kinds = evidence.queues.select("queue_id", (f.col("group_id") != 0).alias("retry"), "queue")
    rows = evidence.cursors.join(later, _CURSOR).join(claimed, _CURSOR, "left").na.fill(0, ["claimed"])
    rows = rows.join(f.broadcast(kinds), "queue_id")
    moves = f.col("position") - f.col("origin")
    settled, settled_after = _sum(_SETTLED), _sum([f"{name}_after" for name in _SETTLED])
    due = moves - settled - f.col("sought")
    low = due - (settled_after - settled)
    high = due + f.greatest(f.col("position_after") - f.col("position"), f.lit(0))
    # A seek between the two readings moves both: the next audit tells.
    still = f.col("sought") == f.col("sought_after")
    return rows.select(
        "topic",
        "group",
        "group_id",
        "queue_id",
        "queue",
        "retry",
        moves.alias("moves"),
        *_SETTLED,
        "sought",
        "claimed",
        (~still | f.col("claimed").between(low, high)).alias("holds"),
        (~still | (low != high)).alias("busy"),
    ).orderBy("topic", "group", "retry", "queue")


def _sum(names: tuple[str, ...] | list[str]) -> Column:
    return sum((f.col(name) for name in names), f.lit(0))


def _rows(evidence: Evidence) -> DataFrame:
    """Every count of acked, dead and retried has its row, as long as the log is whole; and no counter is below its
    rows."""
    later = evidence.cursors_after.select(*_CURSOR, *(f.col(name).alias(f"{name}_after") for name in OUTCOMES))
    rows = [f"{name}_rows" for name in OUTCOMES]
    both = evidence.cursors.join(later, _CURSOR).join(
        evidence.ledger.select(*_CURSOR, "entries", *rows), _CURSOR, "left"
    )
    both = both.na.fill(0, ["entries", *rows])
    both = both.join(evidence.blind.withColumn("blind", f.lit(True)), _CURSOR, "left")
    whole = (f.col("entries") == f.col("next_delivery")) & f.col("blind").isNull()
    found: list[Column] = []
    for name in OUTCOMES:
        wrong = f.col(f"{name}_rows") > f.col(f"{name}_after")
        if name in _COUNTED:
            wrong |= whole & (f.col(f"{name}_rows") < f.col(name))
        found.append(f.when(wrong, f.format_string(f"{name} counts %d, and has %d rows", name, f"{name}_rows")))
    offences = both.withColumn("detail", f.explode(f.array_compact(f.array(*found))))
    return finding(offences, "group_rows", f.col("detail"))


def gaps(evidence: Evidence) -> DataFrame:
    """Entries that are missing between the first that is left and the last that was written."""
    end = f.col("next_delivery")
    log = evidence.cursors.join(evidence.ledger.select(*_CURSOR, "entries", "first"), _CURSOR)
    torn = log.where(f.col("entries") < end - f.col("first")).join(evidence.blind, _CURSOR, "left_anti")
    return finding(torn, "log_gap", f.format_string("%d entries from number %d to %d", "entries", "first", end - 1))


def _ladder(evidence: Evidence) -> DataFrame:
    """By group: retried + redriven + parked = resting or parked now + all that ever came back."""
    ups = ("retried", "redriven", "parked")

    def read(cursors: DataFrame, queues: DataFrame, mark: str) -> DataFrame:
        back = queues.where("group_id > 0").groupBy("group_id").agg(f.sum("next_offset").alias(f"back{mark}"))
        up = f.sum(_sum(ups)).alias(f"up{mark}")
        moved = (f.count_if(f.col("sought") != 0) > 0) & (f.sum("parked") > 0)
        sums = cursors.groupBy("topic", "group", "group_id").agg(up, moved.alias(f"moved{mark}"))
        return sums.join(back, "group_id")

    before, after = (
        read(evidence.cursors, evidence.queues, ""),
        read(evidence.cursors_after, evidence.queues_after, "_after"),
    )
    resting = evidence.retries.groupBy("group_id").agg(f.count("*").alias("resting"))
    rows = (
        before.join(after.drop("topic", "group"), "group_id").join(resting, "group_id", "left").na.fill(0, ["resting"])
    )
    due = f.col("up") - f.col("back")
    low, high = due - (f.col("back_after") - f.col("back")), due + (f.col("up_after") - f.col("up"))
    # Of an ordered topic that was sought, a message may be parked where it lay parked already: one row, counted twice.
    wrong = rows.where(
        f.when(f.col("moved_after"), f.col("resting") > high).otherwise(~f.col("resting").between(low, high))
    )
    detail = f.format_string("%d went onto the ladder, %d came back, %d are there", "up", "back", "resting")
    return finding(wrong, "ladder_rows", detail)


def letters(evidence: Evidence) -> DataFrame:
    """By group: the letters there, and how many there are at least (`low`) and at most (`high`).

    Dead letters there = all that died - all that were redriven, purged, replaced or cleaned. They are of the store
    alone and of all times, as the counters are: a lake keeps redriven letters, and lost ones.
    """
    counters = ("dead", "cleared")

    def read(cursors: DataFrame, mark: str) -> DataFrame:
        return cursors.groupBy("topic", "group", "group_id").agg(
            *(f.sum(name).alias(f"{name}{mark}") for name in counters)
        )

    rows = read(evidence.cursors, "").join(read(evidence.cursors_after, "_after").drop("topic", "group"), "group_id")
    rows = rows.join(evidence.letters, "group_id", "left").na.fill(0, ["letters"])
    return rows.withColumns(
        {"low": f.col("dead") - f.col("cleared_after"), "high": f.col("dead_after") - f.col("cleared")}
    )


def _letters(evidence: Evidence) -> DataFrame:
    wrong = letters(evidence).where("letters NOT BETWEEN low AND high")
    detail = f.format_string(
        "%d died, %d of them were cleared since, %d letters are there", "dead", "cleared", "letters"
    )
    return finding(wrong, "letter_rows", detail)


def _deaths(evidence: Evidence, scope: Scope) -> DataFrame:
    """Deaths in the log without a letter: no more than were redriven, purged, replaced or cleaned."""
    deaths = evidence.handed.where("outcome IN ('dead', 'lost_dead') AND message_offset IS NOT NULL").select(
        "topic",
        "group",
        "group_id",
        f.col("message_queue_id").alias("queue_id"),
        f.col("message_offset").alias("offset"),
        f.col("settled_at").alias("dead_at"),
    )
    place = ["group_id", "queue_id", "offset", "dead_at"]
    without = deaths.join(evidence.dead.select(*place), place, "left_anti").where(f.col("dead_at") < f.lit(scope.until))
    cleared = evidence.cursors_after.groupBy("group_id").agg(f.sum("cleared").alias("cleared"))
    sums = without.groupBy("group_id").agg(f.count("*").alias("without")).join(cleared, "group_id")
    messages = evidence.messages.select("queue_id", "offset", "id", "streamed_at")
    offences = without.join(f.broadcast(sums.where("without > cleared")), "group_id")
    offences = offences.join(messages, ["queue_id", "offset"], "left")
    detail = f.format_string("%d deaths without a letter, %d letters cleared", "without", "cleared")
    return finding(offences, "no_letter", detail)
