"""import: rows of files become messages, each once while it is remembered, however often the job is run or killed.

A row is known by the name of the import, by its content (or its `--id` columns) and by its number among equal rows.
That is its idempotency key; a run that finds it passes the row over, so a file may grow and be imported again.
"""

import hashlib
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Any

from attrs import asdict, field, frozen
from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType

from ...client.coroutines import drive
from ...client.outbox.cursors import CursorTransaction
from ...store.catalogue import find_topics
from ...store.content import ATTRIBUTES
from .. import sinks
from ..errors import NotFound
from ..spark_errors import translated
from ..times import moment, time_text
from . import http_import, mysql_import, progress
from .column_mapping import ColumnMapping
from .import_drafts import Limits, drafts
from .import_marks import PARTS
from .input_files import Rows
from .mysql_import import Written
from .row_counts import Address

_DAY = 86_400_000
WINDOW = 7 * _DAY
"""How long a row is remembered by default, milliseconds."""


@frozen
class Summary:
    """The result of an import, or of its dry run."""

    name: str
    topic: str
    read: int
    imported: int
    skipped: int
    """Rows that were imported before."""
    bad: int
    errors: str | None = None
    """Where the bad rows are."""
    earliest: str | None = None
    latest: str | None = None
    seconds: float = 0
    dry_run: bool = False

    @property
    def rate(self) -> int:
        """Good rows a second."""
        return round((self.imported + self.skipped) / self.seconds) if self.seconds else 0

    def figures(self) -> dict[str, Any]:
        """The figures as they are shown."""
        figures = asdict(self) | {"rows_per_second": self.rate}
        imported = "would_import" if figures.pop("dry_run") else "imported"
        return {imported if name == "imported" else name: value for name, value in figures.items()}


@frozen(kw_only=True)
class Job:
    """An import: its rows, and its target."""

    rows: Rows
    mapping: ColumnMapping
    topic: str
    name: str
    dsn: str = ""
    server: str = ""
    """Either `dsn` or `server` is given."""
    rate: float | None = None
    """Rows a second, of all tasks together."""
    window: int = WINDOW
    errors: str | None = None
    """The folder for bad rows."""
    dry_run: bool = False
    limits: Limits = field(factory=Limits)

    @property
    def binary_body(self) -> bool:
        """Whether bodies are bytes of a column, and have a content type of their own."""
        body = self.mapping.body
        return body != "*" and isinstance(self.rows.type_of(body), BinaryType)


def name_of(files: Sequence[str]) -> str:
    """The default name of an import: that of its files, without their folders."""
    names = ",".join(sorted(file.rstrip("/").rpartition("/")[2] for file in files))
    if len(names.encode()) <= 100 and names.isascii() and names.isprintable():
        return names
    return hashlib.sha256(names.encode()).hexdigest()[:32]


def checked_name(name: str) -> str:
    """The name, if it may be one. Raises ValueError."""
    if not 0 < len(name) <= 100 or not name.isascii() or not name.isprintable():
        raise ValueError("--name: 1 to 100 printable ASCII characters")
    return name


def parted(good: DataFrame, tasks: int, *, by_key: bool) -> DataFrame:
    """Adds `part`, which depends on the row alone, so that a row meets its mark whatever else is in the files; and puts
    the rows of a part into one partition. `by_key`: all rows of an ordering key are of one part."""
    lane = fn.coalesce("ordering_key", "identity") if by_key else fn.col("identity")
    part = fn.pmod(fn.crc32(lane.cast("binary")), fn.lit(PARTS)).cast("int")
    return good.withColumn("part", part).repartitionById(tasks, "part")


def numbered(good: DataFrame) -> DataFrame:
    """Adds `number`, that of a row among those of the same identity, from 0 on in the order of the files; the rows come
    by part and identity."""
    among = Window.partitionBy("part", "identity").orderBy("file", "block", "line")
    return good.withColumn("number", fn.row_number().over(among) - 1)


def _figures() -> tuple[Column, ...]:
    """The counts of the checked rows."""
    good = fn.when(fn.col("reason").isNull(), fn.col("deliver_at"))
    return (
        fn.count(fn.lit(1)).alias("read"),
        fn.count("reason").alias("bad"),
        fn.min(good).alias("earliest"),
        fn.max(good).alias("latest"),
    )


def check_topic(topic: str, *, dsn: str, server: str) -> None:
    """Checks that the topic is there, before Spark starts. Raises `NotFound` and `StoreAway`."""
    _Topic.find(topic, dsn=dsn, server=server)


def run(spark: SparkSession, job: Job) -> Summary:
    """Runs an import. Raises `NotFound` for a missing topic, `StoreAway`, and ValueError for a mapping that does not
    fit."""
    began = time.monotonic()
    checked = drafts(job.rows, job.mapping, time.time_ns() // 1_000_000, job.limits)
    topic = _Topic.find(job.topic, dsn=job.dsn, server=job.server)
    done: list[Written] = []
    count: dict[str, Any] | None = None
    if not job.dry_run:
        # Counted on the way, and not in a pass of its own.
        observed = Observation()
        good = checked.observe(observed, *_figures()).where("reason IS NULL").drop("row", "reason")
        with progress.shown_by_rows(spark, "importing") as rows:
            done = _write(spark, job, topic, good, _tasks(spark, job.rows.frame), rows.address)
        if any(one.imported + one.skipped + one.refused for one in done):
            count = observed.get
    if count is None:  # Spark leaves the counting out of a plan without any row
        with translated(), progress.shown(spark, "reading"):
            (row,) = checked.agg(*_figures()).collect()
        count = row.asDict()
    errors = None
    if count["bad"] and job.errors:
        with translated(), progress.shown(spark, "bad rows"):
            errors = _put_away(checked, job.errors)
    refused = sum(one.refused for one in done)
    return Summary(
        name=job.name,
        topic=job.topic,
        read=count["read"],
        imported=count["read"] - count["bad"] if job.dry_run else sum(one.imported for one in done),
        skipped=sum(one.skipped for one in done),
        bad=count["bad"] + refused,
        seconds=round(time.monotonic() - began, 3),
        errors=errors,
        earliest=_time(count["earliest"]),
        latest=_time(count["latest"]),
        dry_run=job.dry_run,
    )


@frozen
class _Topic:
    id: int
    queues: tuple[int, ...]
    ordered: bool
    began: int = 0
    """When the import began, by the store's clock; only over HTTP."""

    @classmethod
    def find(cls, topic: str, *, dsn: str, server: str) -> "_Topic":
        """Looks the topic up. Raises `NotFound`."""
        if server:
            ordered = bool(http_import.check_topic(server, topic).get("ordered"))
            return cls(0, (), ordered, http_import.clock_of(server, topic))
        with closing(mysql_import.connect(dsn)) as connection:
            found = drive(find_topics(CursorTransaction(connection.cursor(), None), [topic]))
        if not found:
            raise NotFound(http_import.NO_TOPIC.format(topic=topic))
        return cls(found[0].id, tuple(queue.id for queue in found[0].queues), found[0].ordered)


def _tasks(spark: SparkSession, frame: DataFrame) -> int:
    """How many tasks write: a multiple of the partitions in which Spark reads the files, which go by size."""
    return min(PARTS, max(spark.sparkContext.defaultParallelism, 4 * frame.rdd.getNumPartitions()))


def _write(
    spark: SparkSession, job: Job, topic: _Topic, good: DataFrame, tasks: int, watcher: Address | None
) -> list[Written]:
    rows = numbered(parted(good, tasks, by_key=topic.ordered and not job.mapping.id))
    if topic.ordered:
        # The rows of an ordering key by their times, those of one time in the order of the files.
        if job.mapping.id:
            # Rows are told apart by other columns than their keys: one task has them all.
            tasks = 1
            rows = rows.repartition(tasks)
        rows = rows.sortWithinPartitions(
            *(() if job.mapping.id else ("part",)), fn.col("deliver_at").asc_nulls_last(), "file", "block", "line"
        )
    at_a_time = min(tasks, spark.sparkContext.defaultParallelism)
    rate = None if job.rate is None else job.rate / at_a_time
    name = fn.concat(fn.col("identity"), fn.lit(":"), fn.col("number").cast("string"))
    if job.server:
        marked = rows.withColumn("mark", fn.concat(fn.lit(f"import:{job.name}:"), name))
        server = http_import.Target(job.server, job.topic, topic.ordered, rate, topic.began, watcher)
        return list(sinks.drain(http_import.columns(marked), partial(http_import.write, server)))
    marked = rows.withColumn("mark", fn.unhex(fn.md5(name)))
    bare = not any(getattr(job.mapping, name) for name in ATTRIBUTES) and not job.binary_body
    target = mysql_import.Target(job.dsn, topic.id, job.name, job.window, topic.ordered, rate, bare, watcher)
    return list(sinks.drain(_columns(marked, topic, bare), partial(mysql_import.write, target)))


def _columns(marked: DataFrame, topic: _Topic, bare: bool) -> DataFrame:
    """The columns that a task of `mysql_import` takes."""
    number = fn.pmod(
        fn.coalesce(fn.crc32(fn.col("ordering_key").cast("binary")), fn.xxhash64("identity")), fn.lit(len(topic.queues))
    )
    queue = fn.element_at(fn.array(*[fn.lit(id_) for id_ in topic.queues]), number.cast("int") + 1)
    details = () if bare else ATTRIBUTES
    rows = marked.withColumn("headers", fn.col("headers").cast("binary"))
    return rows.select("part", "mark", "deliver_at", "delay", queue.alias("queue_id"), "body", *details)


def _put_away(checked: DataFrame, errors: str) -> str:
    """Writes the bad rows with their reasons, as NDJSON in a folder of this run; returns the folder."""
    folder = f"{errors.rstrip('/')}/{datetime.now(UTC):%Y%m%dT%H%M%S}-{time.time_ns() % 1_000_000:06}"
    checked.where("reason IS NOT NULL").select("file", "row", "reason").write.mode("errorifexists").json(folder)
    return folder


def _time(ms: int | None) -> str | None:
    return None if ms is None else time_text(moment(ms))
