"""The lake: a folder, or a URL, with a Delta table each in `messages/`, `deliveries/`, `dead/`, `cancelled/`, `fires/`.

Other engines read the same tables; Spark reads the files that a snapshot lists, and needs no jar for it. A commit adds
files and moves positions in one entry of the table's log: both, or neither. A position is a Delta application
transaction, `tarry:messages:QUEUE` or `tarry:deliveries:GROUP:QUEUE`, with the first offset or number not archived yet
as its version; `tarry:dead`, `tarry:cancelled` and `tarry:fires` have the time up to which these are looked for no
more, and `tarry:cancelled:TOPIC` how many rows of a topic were ever written.
"""

import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from attrs import frozen
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import Field, PrimitiveType
from deltalake.transaction import AddAction
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, lit

from ..arrow import pa
from ..columns import arrow_schema, frame
from ..errors import LakeError
from ..schemas import IN_LAKE, LAKE_DAYS, VERSION, lake_schema
from ..times import moment
from . import worker_reads
from .file_errors import missing
from .lake_writer import Added, sync
from .object_store import Access, in_object_store, quoted

_SCHEMA = "tarry.schema"
_PARTS = ["topic", "day"]
_TRIES = 5
_MANY = 1 << 62
_NULL_TO_SPARK = "__HIVE_DEFAULT_PARTITION__"


class Overtaken(LakeError):
    """Another writer has moved a position since it was read; nothing of this commit is in the lake."""


@frozen
class Snapshot:
    """A table as it was at one version."""

    table: str
    place: str
    delta: DeltaTable
    version: int = VERSION
    """Of the schema that it was last written with."""

    def position(self, mark: str) -> int | None:
        """The first offset, number or time that is not archived; None when nothing of it ever was."""
        return self.delta.transaction_version(app_id(self.table, mark))

    def positions(self, marks: Iterable[str]) -> dict[str, int]:
        """Those of these marks that have one."""
        found = {mark: self.position(mark) for mark in marks}
        return {mark: position for mark, position in found.items() if position is not None}

    def identity(self) -> str:
        """Which table this is, wherever it is mounted."""
        return str(self.delta.metadata().id)

    def rows(self) -> dict[str, int]:
        """How many rows the listed files have, by topic; of files that others wrote without saying, very many."""
        counts: dict[str, int] = {}
        for row in self.added():
            topic, rows = row["partition.topic"], row.get("num_records")
            counts[topic] = counts.get(topic, 0) + (_MANY if rows is None else rows)
        return counts

    def files(
        self, topics: Collection[str] | None = None, since: date | None = None, until: date | None = None
    ) -> list[str]:
        """The files that may hold rows of these topics and days (both included), as Spark finds them."""
        return [f"{self.place}/{row['path']}" for row in self._listed(topics, since, until)]

    def _listed(self, topics: Collection[str] | None, since: date | None, until: date | None) -> list[dict[str, Any]]:
        rows = self.added("path", "size_bytes", "partition.topic", "partition.day", topics=topics, since=since)
        return [row for row in rows if until is None or row["partition.day"] <= until]

    def added(
        self, *names: str, topics: Collection[str] | None = None, since: date | None = None
    ) -> list[dict[str, Any]]:
        """What the table's log says of each file, or these parts of it: path, partition, number of rows, bounds.

        Of files that may hold rows of these topics, and of this day or later.
        """
        with _plainly(self.place):
            listed = pa.table(self.delta.get_add_actions(flatten=True))
        if not listed.num_rows:
            return []
        rows: list[dict[str, Any]] = listed.select(names or listed.column_names).to_pylist()
        for row in rows:
            row["path"] = unquote(row["path"])
        return [
            row
            for row in rows
            if (topics is None or row["partition.topic"] in topics) and (since is None or row["partition.day"] >= since)
        ]

    def frame(
        self,
        spark: SparkSession,
        topics: Collection[str] | None = None,
        since: int | None = None,
        until: int | None = None,
        unread: Collection[str] = (),
    ) -> DataFrame:
        """Its rows, with `day`; of these topics, and whose time is in [since, until), Unix milliseconds.

        Columns that are `unread` may be null or empty: whoever asks does not look at them.
        """
        schema = lake_schema(self.table)
        if in_object_store(self.place):
            listed = self._listed(topics, _day(since), _day(until))
            if not listed:
                return frame(spark, [], schema)
            return worker_reads.frame(spark, self.place, self.table, listed, since=since, until=until, unread=unread)
        files = self.files(topics, _day(since), _day(until))
        if not files:
            return frame(spark, [], schema)
        reader = spark.read.schema(schema).option("basePath", self.place).option("__globPaths__", "false")
        try:
            rows = reader.parquet(*files)
        except PySparkException as error:
            if "PATH_NOT_FOUND" in str(error):
                raise missing(self.place, quoted(error)) from error
            raise
        # Spark takes the folder of a topic of this name for one of rows that have no topic.
        rows = rows.withColumn("topic", coalesce(col("topic"), lit(_NULL_TO_SPARK))).select(*schema.names)
        if topics is not None:
            rows = rows.where(col("topic").isin(sorted(topics)))
        at = col(LAKE_DAYS[self.table])
        if since is not None:
            rows = rows.where(at >= lit(moment(since)))
        if until is not None:
            rows = rows.where(at < lit(moment(until)))
        return rows


class Lake:
    """A lake at a path or URL. Every error is a `LakeError`."""

    def __init__(self, place: str) -> None:
        self.place = absolute(place)

    def place_of(self, table: str) -> str:
        return f"{self.place}/{table}"

    def open(self, table: str) -> Snapshot | None:
        """The table as it is now; None where there is none yet."""
        place = self.place_of(table)
        try:
            with _plainly(place):
                delta = DeltaTable(place, storage_options=Access.here().options(place))
        except _Missing:
            return None
        version = delta.metadata().configuration.get(_SCHEMA)
        if version is None or not version.isdigit():
            raise LakeError(f"{place} is a Delta table, and not of Tarry's: it has no property {_SCHEMA}")
        if int(version) > VERSION:
            raise LakeError(
                f"{place} has schema {version}, and this version of Tarry knows {VERSION}: upgrade tarry and try again"
            )
        return Snapshot(table, place, delta, int(version))

    def tables(self, *, alone: bool) -> dict[str, Snapshot]:
        """Those that are there. Raises `LakeError` when there is none, and nothing else to look at: it is `alone`."""
        opened = {table: snapshot for table in IN_LAKE if (snapshot := self.open(table)) is not None}
        if alone and not opened:
            raise LakeError(f"there is no lake at {self.place}: archive something to it first, or correct --lake")
        return opened

    def ensure(self, table: str) -> Snapshot:
        """The table, made where it is missing, with all columns that this version knows."""
        found = self.open(table)
        if found is not None:
            return found if found.version == VERSION else self._widened(found)
        place = self.place_of(table)
        with _plainly(place):
            if "://" not in place:
                Path(place).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                place,
                arrow_schema(lake_schema(table)),
                mode="ignore",
                partition_by=_PARTS,
                name=f"tarry_{table}",
                configuration={_SCHEMA: str(VERSION)},
                raise_if_key_not_exists=False,
                storage_options=Access.here().options(place),
            )
        made = self.open(table)
        assert made is not None  # noqa: S101  # just made
        return made

    def _widened(self, old: Snapshot) -> Snapshot:
        """A table of an older schema is given the columns that it lacks; in the rows that it has they are null.

        The columns first: killed between the two, the next run finds them there.
        """
        delta, wanted = old.delta, lake_schema(old.table)
        there = {one.name for one in delta.schema().fields}
        lacks = [one for one in wanted.fields if one.name not in there]
        with _plainly(old.place):
            if lacks:
                delta.alter.add_columns(
                    [Field(one.name, PrimitiveType(one.dataType.typeName()), nullable=True) for one in lacks]
                )
            delta.alter.set_table_properties({_SCHEMA: str(VERSION)}, raise_if_not_exists=False)
        made = self.open(old.table)
        assert made is not None  # noqa: S101  # just changed
        _secure(old.place, made.delta.version())
        return made

    def identity(self) -> str:
        """Which lake this is, wherever it is mounted."""
        return self.ensure(IN_LAKE[0]).identity()

    def commit(
        self, table: str, files: Sequence[Added], before: Mapping[str, int | None], after: Mapping[str, int]
    ) -> int:
        """Adds the files and moves positions from `before` to `after`, all or nothing; the table's version.

        Raises `Overtaken` when a position is no longer what it was.
        """
        written = round(time.time() * 1000)
        actions = [
            AddAction(one.path, one.size, {"topic": one.topic, "day": one.day}, written, True, one.stats)
            for one in files
        ]
        moved = [Transaction(app_id(table, mark), position, written) for mark, position in after.items()]
        place = self.place_of(table)
        for left in reversed(range(_TRIES)):
            snapshot = self.ensure(table)
            for mark in after:
                if snapshot.position(mark) != before.get(mark):
                    raise Overtaken(f"{place}: another archiver has written there; run it again")
            delta = snapshot.delta
            try:
                with _plainly(place):
                    delta.create_write_transaction(
                        list(actions),
                        mode="append",
                        schema=delta.schema(),
                        partition_by=_PARTS,
                        commit_properties=CommitProperties(app_transactions=moved, max_commit_retries=0),
                    )
            except _Conflict:
                if not left:
                    raise
                continue  # a compaction, or another archiver: look again
            version = delta.version() + 1
            _secure(place, version)
            return version
        raise AssertionError("unreachable")

    def rewrite(self, snapshot: Snapshot, updates: Mapping[str, str], where: str) -> int:
        """Gives columns of the rows that fit other values, both in the table format's SQL; how many rows these are.

        The files that have such rows are written anew, and take the place of the old ones all or nothing.
        """
        place = snapshot.place
        before = {row["path"] for row in snapshot.added("path")}
        with _plainly(place):
            done = snapshot.delta.update(
                updates=dict(updates), predicate=where, writer_properties=WriterProperties(compression="ZSTD")
            )
        after = self.ensure(snapshot.table)
        if "://" not in place:
            for row in after.added("path"):
                if row["path"] not in before:
                    sync(Path(place, row["path"]))
        _secure(place, after.delta.version())
        return int(done["num_updated_rows"])


def app_id(table: str, mark: str) -> str:
    return f"tarry:{table}:{mark}" if mark else f"tarry:{table}"


def absolute(place: str) -> str:
    """A path as an absolute one; a URL without its last slash."""
    if place.startswith("file://"):
        place = unquote(urlsplit(place).path)
    if "://" in place:
        return place.replace("s3a://", "s3://", 1).rstrip("/")
    return str(Path(place).expanduser().absolute())


class _Missing(LakeError):
    pass


class _Conflict(LakeError):
    pass


@contextmanager
def _plainly(place: str) -> Generator[None, None, None]:
    """Errors of the table format as a sentence."""
    try:
        yield
    except TableNotFoundError as error:
        if "Unknown scheme" in str(error):
            raise LakeError(f"the lake at {place} cannot be used: {Access.here().meant(error, place)}") from error
        raise _Missing(f"there is no table at {place}") from error
    except CommitFailedError as error:
        if "ransaction" in str(error) and "enied" not in str(error):
            raise _Conflict(f"{place}: others write there all the time; run it again") from error
        raise LakeError(f"the lake at {place} cannot be written: {Access.here().meant(error, place)}") from error
    except (DeltaError, OSError) as error:
        raise LakeError(f"the lake at {place} cannot be used: {Access.here().meant(error, place)}") from error


def _day(at: int | None) -> date | None:
    return None if at is None else moment(at).date()


def _secure(place: str, version: int) -> None:
    """The entry of the log survives a loss of power, before the store hears that it may delete."""
    if "://" in place:
        return
    log = Path(place) / "_delta_log"
    for path in (log / f"{version:020}.json", log, Path(place)):
        sync(path)
