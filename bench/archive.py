"""How fast does the archive read MySQL, next to Spark's own JDBC source, and what do publishers feel of it?

    python -m tarry.bench.archive --dsn mysql://root@127.0.0.1:3306/any [--rows 5000000] [--seconds 10] [--rate 50000]
    python -m tarry.bench.archive --dsn mariadb --rows 1000000 --lake s3://history/lake --master spark://127.0.0.1:7077

A stream of messages of 200 bytes is written by bulk SQL. The archive takes it to a lake; Spark's JDBC source, with 8
partitions of the offset, takes the same columns to Parquet files of the same kind, parted in the same way, without
positions and a table's log, which is less work. `rows_per_s` and `times_jdbc` go by `messages_s`, from the beginning to
the last commit of messages; `s` is the whole run, deliveries, dead letters and cancelled messages too. JDBC wants
Debian's libmariadb-java, and is left out without it.

Then 1 % more messages come, and the archive runs again in the same session. At last publishers work for a while with
nobody archiving, and then while all of it is archived anew by a process of its own. Ratios are within one run.

With `--lake` it asks something else: what a row costs when there are many. All is archived to that place, in which no
lake may be yet, and then report and audit read it back, each command as a process of its own, its start included.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import trio
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, timestamp_millis, to_date

from ..pipeline import session
from ..pipeline.lake.archive import Archiver
from ..pipeline.lake.archiver_lease import ArchiverLease
from ..pipeline.lake.lake import Lake
from ..pipeline.session import Later
from ..store import catalogue
from ..store.mysql.dsn import Dsn
from . import databases
from .report import Figures, say, show
from .subject import add_topic, bulk_sql, now, opened, publish_beside

_JAR = Path("/usr/share/java/mariadb-java-client.jar")
_PARTITIONS = 8
_AGO = 24 * 3600 * 1000


def main() -> None:
    parser = databases.options("archive", __doc__, "mysql")
    parser.add_argument("--rows", type=databases.count, default=500_000, help="messages; the goal is 5000000")
    parser.add_argument("--seconds", type=databases.seconds, default=5, help="of a window that p99 is taken of")
    parser.add_argument("--master", default="local[2]", help="Spark's")
    parser.add_argument("--rate", type=float, help="of the archive beside publishers; else as fast as it goes")
    parser.add_argument("--lake", help="archive, report and audit there and nothing else: a new folder or a URL")
    arguments = parser.parse_args()
    with (
        databases.server(arguments.dsn) as dsn,
        databases.scratch(dsn) as scratch,
        tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder,
    ):
        settings = databases.durability(dsn)
        begun = trio.run(_begin, scratch)
        fill(scratch, begun, 0, arguments.rows)
        if arguments.lake is not None:
            figures = costs(scratch, arguments.lake, Path(folder), arguments.rows, arguments.master)
            show({"bench": "archive", "rows": arguments.rows, "master": arguments.master, **settings, **figures})
            return
        figures = measure(scratch, Path(folder), arguments.rows, arguments.master)
        figures |= _publishers(scratch, Path(folder), arguments)
    show({"bench": "archive", "rows": arguments.rows, "master": arguments.master, **settings, **figures})


async def _begin(dsn: str) -> int:
    """The id of the one queue of a new topic."""
    async with opened(dsn) as store:
        topic = await add_topic(store)
    return topic.queues[0].id


def fill(dsn: str, queue: int, begin: int, rows: int) -> None:
    """Messages of some time ago, at the end of the queue."""
    with databases.bulk(dsn) as execute:
        bulk_sql(execute, queue, begin, rows, now() - _AGO, "CONCAT('k-', {})")


def measure(dsn: str, folder: Path, rows: int, master: str) -> Figures:
    """The archive, JDBC, and the archive once more with a hundredth added."""
    spark = _session(master)
    spark.sparkContext.parallelize(range(2), 2).map(str).collect()  # workers and all
    say("archiving")
    first = run(spark, dsn, folder / "lake")
    figures: Figures = {
        "archive": {
            "s": round(first["s"], 2),
            "messages_s": round(first["messages_s"], 2),
            "rows_per_s": round(rows / first["messages_s"]),
        }
    }
    if first["rows"] != rows:
        raise AssertionError(f"{rows} messages, of which {first['rows']} were archived")
    if _JAR.exists():
        say("reading by JDBC")
        took = _jdbc(spark, dsn, folder / "jdbc", rows)
        figures["jdbc"] = {"s": round(took, 2), "rows_per_s": round(rows / took), "partitions": _PARTITIONS}
        figures["times_jdbc"] = round(took / first["messages_s"], 2)
    else:
        figures["jdbc"] = f"left out: no {_JAR} (Debian: libmariadb-java)"
    more = max(1, rows // 100)
    ((queue,),) = databases.ask(dsn, "SELECT MAX(id) FROM queue WHERE group_id = 0")
    fill(dsn, queue, rows, more)
    say("archiving a hundredth more")
    again = run(spark, dsn, folder / "lake")
    figures["incremental"] = {
        "new_rows": more,
        "rows": again["rows"],
        "times_new_rows": round(again["rows"] / more, 2),
        "s": round(again["s"], 2),
        "share_of_first": round(again["s"] / first["s"], 3),
    }
    spark.stop()
    return figures


def costs(dsn: str, lake: str, folder: Path, rows: int, master: str) -> Figures:
    """What archive, report and audit of so many messages take."""
    figures: Figures = {}
    for job, options in (
        ("archive", ["--json"]),
        ("report", ["--output", str(folder / "report")]),
        ("audit", ["--json"]),
    ):
        say(job)
        began = time.perf_counter()
        command = [sys.executable, "-P", "-m", "tarry.pipeline", job, "--dsn", dsn, "--lake", lake, "--master", master]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
        if done.returncode:
            raise AssertionError(f"{job} ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        figures[job] = {
            "s": round(took, 1),
            "rows_per_s": round(rows / took),
            "us_per_row": round(1e6 * took / rows, 1),
        }
    return figures


def _session(master: str) -> SparkSession:
    if _JAR.exists():
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {_JAR} pyspark-shell"
    return session.open_session("bench", master)


def run(spark: SparkSession, dsn: str, lake: Path) -> dict[str, float]:
    """All that is there: `rows`, seconds until its messages were in the lake, `messages_s`, and all else, `s`."""
    with ArchiverLease(dsn) as lease:
        began = time.perf_counter()
        until = 0.0

        def note(table: str, _rows: int) -> None:
            nonlocal until
            if table == "messages":
                until = time.perf_counter() - began

        archiver = Archiver(Later.opened(spark), dsn, Lake(str(lake)), lease, progress=note)
        archiver.begin()
        archiver.run()
        whole = time.perf_counter() - began
        return {"s": whole, "messages_s": until, "rows": sum(archiver.rows.values())}


def _jdbc(spark: SparkSession, dsn: str, place: Path, rows: int) -> float:
    to = Dsn.parse(dsn)
    # Called mysql, so that Spark quotes names with backticks; the driver takes both.
    url = f"jdbc:mysql://{to.host}:{to.port}/{to.database}?allowPublicKeyRetrieval=true&useSSL=false"
    began = time.perf_counter()
    reader = spark.read.format("jdbc").option("url", url).option("driver", "org.mariadb.jdbc.Driver")
    reader = reader.option("user", to.user).option("password", to.password)
    query = (
        "(SELECT m.queue_id, m.`offset`, m.id, m.`key`, m.ordering_key, m.tag, m.headers, m.content_type, m.body,"
        " m.accepted_at, m.deliver_at, m.streamed_at FROM message m WHERE m.id >= 0) AS m"
    )
    reader = reader.option("dbtable", query).option("partitionColumn", "offset").option("fetchsize", 20_000)
    reader = reader.option("lowerBound", 0).option("upperBound", rows).option("numPartitions", _PARTITIONS)
    _written(reader.load(), place)
    return time.perf_counter() - began


def _written(frame: DataFrame, place: Path) -> None:
    texts = ("key", "ordering_key", "tag", "headers", "content_type")
    times = ("accepted_at", "deliver_at", "streamed_at")
    for name in texts:
        frame = frame.withColumn(name, col(name).cast("string"))
    for name in times:
        frame = frame.withColumn(name, timestamp_millis(col(name)))
    frame = frame.withColumn("topic", lit("bench")).withColumn("day", to_date(col("streamed_at")))
    frame.write.option("compression", "zstd").partitionBy("topic", "day").parquet(str(place))


def forget(dsn: str) -> None:
    """The store knows of no lake any more."""
    databases.ask(dsn, "DELETE FROM lease")
    databases.ask(dsn, "DELETE FROM archived")


def _publishers(dsn: str, folder: Path, arguments: Any) -> Figures:
    """What a publish takes with nobody archiving, and while the archive begins anew in a process of its own."""
    forget(dsn)
    shutil.rmtree(folder / "lake")
    command = [sys.executable, "-P", "-m", "tarry.pipeline", "archive", "--dsn", dsn, "--master", arguments.master]
    command += ["--lake", str(folder / "again")]
    if arguments.rate:
        command += ["--rate", str(arguments.rate)]
    before, during = trio.run(_publish, dsn, arguments.seconds, command)
    p99 = median(window["p99_ms"] for window in during)
    return {
        "rate": arguments.rate,
        "publish_p99_ms": {"before": before["p99_ms"], "archiving": p99, "times": round(p99 / before["p99_ms"], 2)},
        "publish_per_s": {"before": before["per_s"], "archiving": round(median(w["per_s"] for w in during))},
    }


async def _publish(dsn: str, seconds: float, command: list[str]) -> tuple[Figures, list[Figures]]:
    async def archive() -> None:
        await trio.run_process(command, capture_stdout=True, capture_stderr=True)

    async with opened(dsn) as store:
        topic = (await store.read(catalogue.topics))[0]
        return await publish_beside(store, topic, seconds, archive)


if __name__ == "__main__":
    main()
