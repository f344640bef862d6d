"""replay: sends messages that a predicate selects from the history to a topic as new ones, or to one group once more.

To a topic each message is published with an idempotency key of the replay's name and its own id, so a replay that is
run again under its name goes on where it stopped and adds nothing twice. To a group it goes through the service's own
replay, in runs of neighbouring offsets, each queue's one after the other; the service knows how far a name has come.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import frozen
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as fn

from ...store.content import LABELS
from ...store.erased import MARK
from .. import sinks
from ..errors import PipelineError
from ..schemas import LONG, TEXT, TIME, Tables, schema_of
from . import http_import, http_replay, progress

ORIGIN = "tarry-replay-of"
"""The header that holds the id of the message that was replayed."""

HISTORY = schema_of(
    *((name, TEXT, True) for name in ("topic", "id", *LABELS, "headers", "body")),
    ("queue", LONG, True),
    ("offset", LONG, True),
    *((name, TIME, True) for name in ("accepted_at", "deliver_at", "expires_at", "streamed_at")),
    *((name, TEXT, True) for name in ("group", "outcome")),  # null: no group was handed it
    ("attempt", LONG, True),
    *((name, TEXT, True) for name in ("client", "reason")),
    ("settled_at", TIME, True),
)
"""The columns that a predicate may name: a row per delivery of a message, and one for a message without any. `id` is
text, as everywhere outside the store, `body` the bytes as UTF-8."""

_PLACE = ("_queue_id", "_offset")
_MOST_SHOWN = 1000


@frozen
class Forecast:
    """The result of a dry run of a replay."""

    count: int
    topics: dict[str, int]
    """How many messages of each topic, for the thousand topics that have most."""
    oldest: str | None
    newest: str | None
    gone: int
    """How many are no longer in the store."""
    seconds: float | None = None
    """How long it takes at the given rate."""

    def figures(self) -> dict[str, Any]:
        """The figures as they are shown."""
        return {
            "would_replay": self.count,
            "topics": self.topics,
            "oldest": self.oldest,
            "newest": self.newest,
            "no_longer_in_the_store": self.gone,
            "seconds_at_this_rate": self.seconds,
        }


@frozen
class Replayed:
    """The result of a replay."""

    replayed: int
    skipped: int
    """Replayed before, under the same name."""
    refused: int


def history(tables: Tables) -> DataFrame:
    """`HISTORY`, and where each message is."""
    last = fn.try_element_at(fn.from_json("history", "array<struct<reason string>>"), fn.lit(-1))["reason"]
    # A message may die more than once, when it was redriven: its last reason counts.
    places = [fn.col(name).alias(f"_{name}") for name in ("group_id", "queue_id", "offset")]
    died = tables.dead.groupBy(*places).agg(fn.max_by(last, "dead_at").alias("_died_of"))
    outcomes = tables.handled.select(
        fn.col("message_queue_id").alias("_queue_id"),
        fn.col("message_offset").alias("_offset"),
        fn.col("group_id").alias("_group_id"),
        "group",
        "outcome",
        "attempt",
        "client",
        "settled_at",
        last.alias("_before"),
    )
    joined = (
        tables.messages.withColumnsRenamed({"queue_id": "_queue_id"})
        .withColumn("_offset", fn.col("offset"))
        .join(outcomes, list(_PLACE), "left")
        .join(died, ["_group_id", *_PLACE], "left")
    )
    died_of = fn.when(fn.col("outcome").isin("dead", "lost_dead"), fn.col("_died_of"))
    columns = {
        "id": fn.col("id").cast("string"),
        "body": fn.decode("body", "UTF-8"),
        "queue": fn.col("queue").cast("long"),
        "attempt": fn.col("attempt").cast("long"),
        "reason": fn.coalesce(died_of, "_before"),
    }
    return joined.select(*(columns.get(n, fn.col(f"`{n}`")).alias(n) for n in HISTORY.names), *_PLACE)


def selected(tables: Tables, predicate: str) -> DataFrame:
    """The messages of which a row of the history fits the predicate, each once, as they are in `messages`.

    Raises ValueError with one sentence for an invalid predicate.
    """
    try:
        rows = history(tables).where(predicate)
        places = rows.select(*(fn.col(name).alias(name[1:]) for name in _PLACE)).distinct()
        return tables.messages.join(places, ["queue_id", "offset"], "left_semi").select(*tables.messages.columns)
    except (AnalysisException, ParseException) as error:
        raise ValueError(f"--where: {_sentence(error)}; the columns are {', '.join(HISTORY.names)}") from error


def _sentence(error: AnalysisException) -> str:
    first = str(error).strip().partition("\n")[0].partition(" SQLSTATE")[0]
    text = first.partition("] ")[2] or first
    return text.partition(" Did you mean")[0].rstrip(". ")


def standing(chosen: DataFrame, there: DataFrame | None) -> DataFrame:
    """The chosen messages with `gone`: whether they are no longer in the store. `there`: (queue_id, offset) of those
    that are.

    They are looked up one by one: above the floor of a queue, too, retention takes messages between those that are
    held.
    """
    if there is None:
        return chosen.withColumn("gone", fn.lit(True))
    places = there.select("queue_id", "offset", fn.lit(True).alias("_there"))
    gone = fn.col("_there").isNull()
    return chosen.join(places, ["queue_id", "offset"], "left").withColumn("gone", gone).drop("_there")


def unerased(chosen: DataFrame, pending: Sequence[int] = ()) -> DataFrame:
    """The chosen messages that are not erased. `pending` are erased in the store, and not yet in the lake."""
    kept = chosen.where(fn.col("content_type").isNull() | ~fn.col("content_type").startswith(MARK))
    return kept.where(~fn.col("id").isin(list(pending))) if pending else kept


def forecast(chosen: DataFrame, rate: float | None) -> Forecast:
    """The forecast for messages that `standing` gives."""
    rows = (
        chosen.groupBy("topic")
        .agg(
            fn.count(fn.lit(1)).alias("count"),
            fn.count_if("gone").alias("gone"),
            fn.date_format(fn.min("streamed_at"), _FORM).alias("oldest"),
            fn.date_format(fn.max("streamed_at"), _FORM).alias("newest"),
        )
        .orderBy(fn.desc("count"), "topic")
        .limit(_MOST_SHOWN)
        .collect()
    )
    count = sum(row["count"] for row in rows)
    return Forecast(
        count=count,
        topics={row["topic"]: row["count"] for row in rows},
        oldest=min((row["oldest"] for row in rows), default=None),
        newest=max((row["newest"] for row in rows), default=None),
        gone=sum(row["gone"] for row in rows),
        seconds=None if rate is None else round(count / rate, 1),
    )


_FORM = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def to_topic(
    spark: SparkSession, chosen: DataFrame, server: str, topic: str, name: str, rate: float | None
) -> Replayed:
    """Publishes the messages to a topic, at once; those of an ordering key one after the other, as they were in the
    stream.

    They keep the times at which they expire: the server refuses those that have expired.

    Raises `NotFound` for a missing topic, and `StoreAway`.
    """
    http_import.check_topic(server, topic)
    tasks = spark.sparkContext.defaultParallelism
    drafts = chosen.select(
        fn.concat(fn.lit(f"replay:{name}:"), fn.col("id").cast("string")).alias("mark"),
        *LABELS,
        "content_type",
        "body",
        "queue_id",
        "offset",
        "topic",
        _with_origin().alias("headers"),
        fn.lit(None).cast("long").alias("delay"),
        fn.lit(None).cast("long").alias("deliver_at"),
        fn.unix_millis("expires_at").alias("expires_at"),
    )
    parted = drafts.repartition(tasks, fn.coalesce("ordering_key", "mark")).sortWithinPartitions(
        "topic", "queue_id", "offset"
    )
    with progress.shown_by_rows(spark, "replaying") as rows:
        began = http_import.clock_of(server, topic)
        target = http_import.Target(server, topic, True, None if rate is None else rate / tasks, began, rows.address)
        done = sinks.drain(http_import.columns(parted), partial(http_import.write, target))
    return Replayed(
        sum(one.imported for one in done), sum(one.skipped for one in done), sum(one.refused for one in done)
    )


def _with_origin() -> Column:
    read = fn.coalesce(fn.from_json("headers", "map<string,string>"), fn.expr("map()").cast("map<string,string>"))
    kept = fn.map_filter(read, lambda name, _: name != ORIGIN)
    return fn.to_json(fn.map_concat(kept, fn.create_map(fn.lit(ORIGIN), fn.col("id").cast("string"))))


def runs(chosen: DataFrame) -> DataFrame:
    """Neighbouring offsets of a queue as (queue, begin, end), without `end`."""
    along = Window.partitionBy("queue_id").orderBy("offset")
    island = fn.col("offset") - fn.row_number().over(along)
    return (
        chosen.select("queue_id", "queue", "offset", island.alias("_island"))
        .groupBy("queue_id", "queue", "_island")
        .agg(fn.min("offset").alias("begin"), (fn.max("offset") + 1).alias("end"))
        .select("queue", "begin", "end")
    )


def to_group(
    spark: SparkSession, chosen: DataFrame, server: str, topic: str, group: str, name: str, rate: float | None
) -> Replayed:
    """Has the messages handed to the group once more, as they were in the stream.

    Raises `PipelineError` if the store does not have all of them any more.
    """
    plan = forecast(chosen, rate)
    if plan.gone:
        raise PipelineError(
            f"{plan.gone} of {plan.count} messages are no longer in the store, and a group can only be given what is: "
            "narrow --from or --where, or replay them with --to-topic"
        )
    others = sorted(set(plan.topics) - {topic})
    if others:
        raise PipelineError(f"the group is of topic {topic!r}, and there are messages of {', '.join(others[:5])} too")
    http_import.check_topic(server, topic)
    tasks = spark.sparkContext.defaultParallelism
    parted = runs(chosen).repartition(tasks, "queue").sortWithinPartitions("queue", "begin")
    with progress.shown_by_rows(spark, "replaying") as rows:
        target = http_replay.Target(server, topic, group, name, None if rate is None else rate / tasks, rows.address)
        done = sinks.drain(parted, partial(http_replay.write, target))
    count = sum(one for one, _ in done)
    return Replayed(count, sum(wanted for _, wanted in done) - count, 0)
