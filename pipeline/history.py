"""All that is known, from the lake and the live store together, each row once.

What lies below the lake's position is read from the lake, though the store may have it still; the rest from the store.
"""

import json
from collections.abc import Collection, Mapping

from attrs import frozen
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from .errors import LakeError, NotFound
from .lake.archive import RANGED, TIMED
from .lake.lake import Lake, Snapshot
from .link import Link
from .schemas import IN_LAKE, TABLES
from .source import source
from .source.facts import Facts, read_facts
from .source.spans import ends, plan
from .tables import Tables, no_rows

MANY = 1_000_000
"""What a file of the lake counts for, of which the table does not tell how many rows it has."""


def open_tables(
    spark: SparkSession,
    dsn: str | None,
    lake: str | None,
    *,
    topics: Collection[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    moving: bool = False,
) -> Tables:
    """The tables of a store, of a lake, or of both.

    Each claim is among the claims or among the deliveries, as it was at this moment, however long the job takes, unless
    the tables are to be `moving`: then each is as it is when it is read, and the open claims are to be read first.
    `topics` leaves out all others. `since` and `until` are Unix milliseconds, the latter not included, and go by the
    time that `schemas.LAKE_DAYS` names; tables that are not archived are as they are now, without regard to them.
    Raises `LakeError`, `StoreAway`, `NotFound` for a topic that is in neither, or ValueError when neither is named.
    """
    reads = _Reads(spark, dsn, lake, topics, since, until)
    reads.places.check_topics(topics)
    if dsn is not None and not moving:
        reads.stand_still()
    return Tables(**{table: reads.whole(table) for table in TABLES})


def open_table(
    spark: SparkSession,
    dsn: str | None,
    lake: str | None,
    table: str,
    *,
    topics: Collection[str] | None = None,
    since: int | None = None,
) -> DataFrame:
    """One of them alone, likewise."""
    return _Reads(spark, dsn, lake, topics, since, None).whole(table)


def open_live(
    spark: SparkSession, dsn: str, table: str, *columns: str, topics: Collection[str] | None = None
) -> DataFrame:
    """These columns of what the store has of a table, whatever of it is in a lake."""
    return _Reads(spark, dsn, None, topics, None, None).live(table, None, *columns)


def check(dsn: str | None, lake: str | None, topics: Collection[str] | None = None) -> int:
    """Whether store, lake and topics are there, told before Spark starts; about how many rows there are at the most.

    Raises as `open_tables` does.
    """
    places = _Places(dsn, lake)
    places.check_topics(topics)
    return places.rows()


class _Places:
    """A store, a lake or both, as they are now, without Spark."""

    def __init__(self, dsn: str | None, lake: str | None) -> None:
        if dsn is None and lake is None:
            raise ValueError("name a store with --dsn, a lake with --lake, or both")
        self.dsn = dsn
        self.snapshots = _snapshots(Lake(lake), alone=dsn is None) if lake is not None else {}
        self.facts: Facts | None = None
        if dsn is not None:
            with Link(dsn) as link:
                self.facts = read_facts(link)

    def rows(self) -> int:
        """About, and of all topics."""
        archived = sum(
            row.get("num_records") or MANY for snapshot in self.snapshots.values() for row in snapshot.added()
        )
        if self.facts is None:
            return archived
        waiting = sum(scheduled for scheduled, _ in self.facts.tallies.values())
        live = sum(span.weight for table in RANGED for span in plan(table, self.facts))
        return archived + waiting + live

    def check_topics(self, topics: Collection[str] | None) -> None:
        """A topic that nothing knows is a slip of the pen, and not a topic without messages. Raises `NotFound`."""
        known: Collection[str] = () if self.facts is None else self.facts.topics.values()
        for topic in topics or ():
            if topic not in known and not any(snapshot.files({topic}) for snapshot in self.snapshots.values()):
                places = [name for name, there in (("the store", self.dsn), ("the lake", self.snapshots)) if there]
                raise NotFound(f"--topic {topic}: there is no such topic in {' or '.join(places)}")


@frozen
class Twofold:
    """What the store has of the tables that are archived, and what the lake has of them."""

    store: Mapping[str, DataFrame]
    lake: Mapping[str, DataFrame]
    snapshots: Mapping[str, Snapshot]
    """Of the lake, by table; opened before the store was read."""
    facts: Facts


def open_twofold(
    spark: SparkSession, dsn: str, lake: str, since: Mapping[str, int | None], *, topics: Collection[str] | None = None
) -> Twofold:
    """Both sides of each table, from a time of its own on."""
    reads = _Reads(spark, dsn, lake, topics, None, None)
    return Twofold(
        {table: reads.live(table, None, since=since.get(table)) for table in IN_LAKE},
        {table: reads.archived(table, since=since.get(table)) for table in IN_LAKE},
        reads.places.snapshots,
        reads.facts,
    )


class _Reads:
    """What is read of the lake, and of the live store."""

    def __init__(
        self,
        spark: SparkSession,
        dsn: str | None,
        lake: str | None,
        topics: Collection[str] | None,
        since: int | None,
        until: int | None,
    ) -> None:
        self._spark, self._dsn, self._topics, self._since, self._until = spark, dsn, topics, since, until
        self.places = _Places(dsn, lake)
        if dsn is not None:
            source.register(spark)
        self._upto: dict[str, int] | None = None
        self._claims: DataFrame | None = None

    def stand_still(self) -> None:
        """From now on claims and deliveries are those of this moment: a claim that ends later counts as open."""
        begin = ends("deliveries", self.facts)
        claims = self.live("claims", None).localCheckpoint()
        with Link(self._dsn or "") as link:
            self._upto = ends("deliveries", read_facts(link))
        lately = self._reader("deliveries").option("after", json.dumps(begin)).option("upto", json.dumps(self._upto))
        key = ["group_id", "queue_id", "claim"]
        self._claims = claims.join(lately.load().select(*key), key, "left_anti").select(*TABLES["claims"].names)

    @property
    def facts(self) -> Facts:
        assert self.places.facts is not None  # noqa: S101  # asked for only where there is a store
        return self.places.facts

    def whole(self, table: str) -> DataFrame:
        """Each row once."""
        lake = self.places.snapshots.get(table)
        old = None if lake is None else lake.frame(self._spark, self._topics, self._since, self._until)
        new = no_rows(self._spark, TABLES[table]) if self._dsn is None else self.live(table, lake)
        if old is None:
            return new
        old = old.select(*TABLES[table].names)
        if self._dsn is None:
            return old
        if table in TIMED:
            keys = list(TIMED[table])
            new = new.join(old.select(*keys), keys, "left_anti").select(*TABLES[table].names)
        return old.unionByName(new)

    def archived(self, table: str, *, since: int | None) -> DataFrame:
        """What the lake has."""
        lake = self.places.snapshots.get(table)
        if lake is None:
            return no_rows(self._spark, TABLES[table])
        return lake.frame(self._spark, self._topics, since).select(*TABLES[table].names)

    def live(self, table: str, lake: Snapshot | None, *columns: str, since: int | None = None) -> DataFrame:
        """What lies behind the lake's position; of all columns, or of these."""
        if table == "claims" and self._claims is not None:
            return self._claims
        reader = self._reader(table).option("columns", ",".join(columns))
        if table == "deliveries" and self._upto is not None:
            reader = reader.option("upto", json.dumps(self._upto))
        if self._topics is not None:
            reader = reader.option("topics", json.dumps(sorted(self._topics)))
        if table in IN_LAKE:
            since = self._since if since is None else since
            if since is not None:
                reader = reader.option("since", str(since))
            if self._until is not None:
                reader = reader.option("until", str(self._until))
        if lake is not None and table in RANGED:
            reader = reader.option("after", json.dumps(lake.positions(ends(table, self.facts))))
        return reader.load()

    def _reader(self, table: str) -> DataFrameReader:
        return self._spark.read.format("tarry").option("dsn", self._dsn).option("table", table)


def _snapshots(lake: Lake, *, alone: bool) -> dict[str, Snapshot]:
    found = {table: lake.open(table) for table in IN_LAKE}
    opened = {table: snapshot for table, snapshot in found.items() if snapshot is not None}
    if alone and not opened:
        raise LakeError(f"there is no lake at {lake.place}: archive something to it first, or correct --lake")
    return opened
