"""How long does a report over a long history take, and how much memory does the driver need for it?

    python -m tarry.bench.report_job --rows 2000000
    python -m tarry.bench.report_job --rows 50000000

Spark makes the history: Parquet files with the schemas of the lake, every value computed from its row number. Nine of
ten deliveries are first attempts; two groups read each topic. Then the report runs in the same process. The memory is
that of the driver's Python.
"""

import argparse
import os
import tempfile
from pathlib import Path
from time import monotonic

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation has it

from ..pipeline.columns import frame
from ..pipeline.report.job import make_report
from ..pipeline.report.output import open_folder
from ..pipeline.report.page import Known
from ..pipeline.schemas import IN_LAKE, TABLES, Tables, lake_schema
from ..pipeline.session import open_session
from . import databases
from .report import say, show
from .usage import forget_peak, peak_of

_MASTER = "local[2]"
_START = 1_735_689_600_000
"""New Year 2025."""
_SPAN = 24 * 3_600_000
_END = _START + _SPAN
_GROUPS = 2
_TOPICS = 20
_QUEUES = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tarry.bench.report_job", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rows", type=databases.count, default=200_000, help="deliveries, about (default: 200000)")
    rows: int = parser.parse_args().rows
    spark = open_session("bench", _MASTER)
    try:
        with tempfile.TemporaryDirectory(prefix="tarry-report-") as folder:
            report_on(spark, rows, Path(folder))
    finally:
        spark.stop()


def report_on(spark: SparkSession, rows: int, place: Path) -> None:
    """Makes a history of so many rows of deliveries, and a report over it."""
    say(f"making {rows} rows")
    began = monotonic()
    _make(spark, rows * 9 // (10 * _GROUPS), place)
    show({"bench": "report", "what": "history", "rows": rows, "seconds": round(monotonic() - began, 1)})
    say(f"reporting on {rows} rows")
    forget_peak(os.getpid())
    began = monotonic()
    report = make_report(_tables(spark, place), Known(store=False, lake=str(place), now=_END), title="Bench")
    with open_folder(spark, str(place / "report")) as output:
        report.write(output)
    took = monotonic() - began
    show(
        {
            "bench": "report",
            "what": "report",
            "rows": rows,
            "messages": report.messages,
            "master": _MASTER,
            "seconds": round(took, 1),
            "rows_per_s": round(rows / took),
            "driver_python_peak_mb": peak_of(os.getpid()) // 1_000_000,
        }
    )


def _make(spark: SparkSession, messages: int, place: Path) -> None:
    placed = _placed(spark.range(messages).withColumnRenamed("id", "n"), messages)
    made = {"messages": _messages(placed), "deliveries": _deliveries(placed)}
    made["dead"] = _dead(made["deliveries"])
    for name in ("cancelled", "fires"):
        made[name] = frame(spark, [], lake_schema(name))
    for name in IN_LAKE:
        rows = made[name].select(*(F.col(f"`{field.name}`").cast(field.dataType) for field in lake_schema(name).fields))
        rows.write.partitionBy("topic", "day").parquet(str(place / name))


def _tables(spark: SparkSession, place: Path) -> Tables:
    frames: dict[str, DataFrame] = {name: frame(spark, [], schema) for name, schema in TABLES.items()}
    for name in IN_LAKE:
        read = spark.read.schema(lake_schema(name)).parquet(str(place / name))
        frames[name] = read.select(*(f"`{column}`" for column in TABLES[name].names))
    return Tables(**frames)


def _dice(*of: Column | str) -> Column:
    """A pseudo-random number from 0 to 1, always the same for the same columns."""
    return F.pmod(F.xxhash64(*of), F.lit(1_000_000)) / 1_000_000


def _time(ms: Column) -> Column:
    return F.timestamp_millis(ms.cast("long"))


def _placed(numbers: DataFrame, messages: int) -> DataFrame:
    """Gives each message its topic, queue, offset and times. The first topics are the biggest."""
    topic = F.floor(_dice(F.lit("topic"), "n") ** 2 * _TOPICS).cast("int")
    return (
        numbers.withColumn("topic_id", topic)
        .withColumn("topic", F.format_string("topic-%02d", "topic_id"))
        .withColumn("queue", F.pmod("n", F.lit(_QUEUES)).cast("int"))
        .withColumn("queue_id", F.col("topic_id") * _QUEUES + F.col("queue"))
        .withColumn("offset", F.col("n"))  # rising in each queue, with holes
        .withColumn("due", (F.lit(_START) + F.col("n") * (_SPAN / messages)).cast("long"))
        .withColumn("streamed", F.col("due") + F.floor(_dice(F.lit("streamed"), "n") ** 4 * 40))
    )


def _messages(placed: DataFrame) -> DataFrame:
    nothing = F.lit(None)
    return placed.select(
        "topic",
        "topic_id",
        "queue_id",
        "queue",
        "offset",
        (F.col("due") * 2_097_152 + F.pmod("n", F.lit(1_000_000))).alias("id"),
        F.concat(F.lit("key-"), F.col("n").cast("string")).alias("key"),
        *(nothing.alias(name) for name in ("ordering_key", "tag", "headers", "content_type")),
        F.rpad(F.col("n").cast("string"), 200, "x").cast("binary").alias("body"),
        _time(F.col("due") - 3_600_000).alias("accepted_at"),
        _time(F.col("due")).alias("deliver_at"),
        _time(F.col("streamed")).alias("streamed_at"),
        _day(F.col("streamed")),
    )


def _day(ms: Column) -> Column:
    return F.to_date(_time(ms)).alias("day")


def _deliveries(placed: DataFrame) -> DataFrame:
    """Delivers each message once to each group, and one in nine of these deliveries a second time."""
    groups = F.array(*(F.lit(group) for group in range(_GROUPS)))
    each = placed.withColumn("g", F.explode(groups))
    again = F.when(F.pmod(F.xxhash64("n", "g"), F.lit(9)) == 0, F.array(F.lit(1), F.lit(2))).otherwise(
        F.array(F.lit(1))
    )
    rows = each.withColumn("attempts", F.size(again)).withColumn("attempt", F.explode(again))
    claimed = (
        F.col("streamed") + F.floor(F.pow(_dice("n", "g", "attempt"), 6) * 20_000) + 10_000 * (F.col("attempt") - 1)
    )
    took = F.floor(F.pow(_dice("n", "attempt", "g"), 4) * 5_000)
    failed = F.when(_dice("n", F.lit("how")) < 0.1, "lost").otherwise("retried")
    last = F.when(_dice("n", F.lit("end")) < 0.02, "dead").otherwise("acked")
    outcome = F.when(F.col("attempt") < F.col("attempts"), failed).otherwise(
        F.when(F.col("attempts") > 1, last).otherwise("acked")
    )
    retry = F.col("queue_id") + 100_000 * (F.col("g") + 1)
    client = F.format_string("10.0.0.%d-100-abc-1", F.pmod(F.xxhash64("n"), F.lit(40)) + 1)
    rows = rows.withColumn("claimed", claimed).withColumn("settled", F.col("claimed") + took)
    return rows.select(
        "topic",
        F.format_string("group-%d", "g").alias("group"),
        (F.col("topic_id") * _GROUPS + F.col("g")).alias("group_id"),
        F.when(F.col("attempt") == 1, F.col("queue_id")).otherwise(retry).alias("queue_id"),
        "queue",
        F.floor(F.col("n") / 100).alias("number"),
        F.floor(F.col("n") / 100).alias("claim"),
        client.alias("client"),
        "offset",
        F.col("queue_id").alias("message_queue_id"),
        F.col("offset").alias("message_offset"),
        "attempt",
        F.when(F.col("attempt") > 1, '[{"at":1735689600000,"client":"c","reason":"HTTP 503"}]').alias("history"),
        outcome.alias("outcome"),
        _time(F.col("claimed")).alias("claimed_at"),
        _time(F.col("settled")).alias("settled_at"),
        _time(F.col("settled")).alias("ended_at"),
        _day(F.col("settled")),
    )


def _dead(deliveries: DataFrame) -> DataFrame:
    reason = F.concat(F.lit("HTTP "), (F.floor(_dice("offset") * 20) + 500).cast("string"))
    entry = F.struct(F.lit(_START).alias("at"), F.col("client"), reason.alias("reason"))
    nothing = F.lit(None)
    return deliveries.where("outcome = 'dead'").select(
        "topic",
        "group",
        "group_id",
        "offset",
        F.col("offset").alias("id"),
        F.col("settled_at").alias("dead_at"),
        F.to_json(F.array(entry)).alias("history"),
        F.col("message_queue_id").alias("queue_id"),
        *(nothing.alias(name) for name in ("key", "ordering_key", "tag", "headers", "content_type")),
        F.lit(b"").alias("body"),
        F.col("claimed_at").alias("accepted_at"),
        F.col("claimed_at").alias("deliver_at"),
        F.to_date("settled_at").alias("day"),
    )


if __name__ == "__main__":
    main()
