"""The audit: every check over the evidence of one look at the tables, and what could be checked by counters only."""

from collections.abc import Callable, Sequence

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from . import balances, copies, earliness, fates, holes, log_copies, promotions
from .evidence import Evidence, Scope
from .findings import again, together
from .pairs import Pairs


@frozen
class Audit:
    """One look at the tables, and what it says."""

    evidence: Evidence
    scope: Scope
    lives: DataFrame
    """See `fates.lives`."""
    pairs: Pairs | None = None
    """What the store and the lake both have, where there is a lake."""

    @classmethod
    def of(cls, evidence: Evidence, scope: Scope, pairs: Pairs | None = None) -> "Audit":
        return cls(evidence, scope, evidence.keep(fates.lives(evidence, scope)), pairs)

    def findings(self) -> DataFrame:
        """All that is wrong, with the schema `findings.FINDINGS`; empty when all is well. It has been worked out.

        One check after the other: Spark plans a query anew whenever a stage of it is over, and all in one took longer
        to plan than to run.
        """
        checks = [
            balances.check(self.evidence, self.scope),
            fates.check(self.evidence, self.scope, self.lives),
            holes.check(self.evidence, self.scope),
            promotions.check(self.evidence),
            earliness.check(self.evidence, self.lives),
        ]
        if self.pairs is not None:
            messages = self.pairs.store["messages"], self.pairs.lake["messages"]
            checks += [
                copies.check(*messages),
                holes.lost(self.evidence, self.scope, *messages),
                log_copies.check(self.pairs, self.evidence, self.lives),
            ]
        return together(*(check.localCheckpoint() for check in checks))

    def unchecked(self) -> DataFrame:
        """(topic, group, what, count): messages that only counters tell of; `group` may be null.

        `below_floor`: gone from the store, and not in the lake. `before_log`: older than what is left of the log.
        `within_clocks`: claimed before their time, by no more than the clocks of two nodes may differ.
        """
        lowest = self.evidence.messages.groupBy("queue_id").agg(f.min("offset").alias("lowest"))
        own = self.evidence.queues.where("group_id = 0 AND floor > 0").join(lowest, "queue_id", "left")
        begin = f.coalesce("lowest", "next_offset") if self.scope.archived else f.col("floor")
        below = own.groupBy("topic").agg(f.sum(f.least("next_offset", begin)).alias("count")).where("count > 0")
        older = self.lives.where("before_log").groupBy("topic", "group").agg(f.count("*").alias("count"))
        columns = ("topic", "group", "what", "count")
        no_group = f.lit(None).cast("string")
        floor = below.select("topic", no_group.alias("group"), f.lit("below_floor").alias("what"), "count")
        older = older.withColumn("what", f.lit("before_log")).select(*columns)
        clocks = earliness.within_clocks(self.lives).groupBy("topic", "group").agg(f.count("*").alias("count"))
        clocks = clocks.withColumn("what", f.lit("within_clocks")).select(*columns)
        return together(floor, older, clocks).orderBy(*columns[:3])


_TOPICS = 100
"""As many are named when a second look is limited to them; beyond that it looks at all."""


def confirmed(first: Audit, look_again: Callable[[Sequence[str] | None], Audit]) -> DataFrame:
    """What two looks agree on. The second is at the topics that the first found something in, and only then."""
    suspects = first.findings()
    topics = [row.topic for row in suspects.select("topic").distinct().limit(_TOPICS + 1).collect()]
    if not topics:
        return suspects
    second = look_again(None if len(topics) > _TOPICS or None in topics else topics)
    return again(suspects, second.findings())
