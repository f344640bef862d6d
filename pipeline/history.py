"""All that is known, from the lake and the live store together, each row once.

What lies below the lake's position is read from the lake, though the store may have it still; the rest from the store.
"""

import json
from collections.abc import Collection

from attrs import define, field
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from .columns import frame
from .errors import no_such_topic
from .lake.archive import RANGED, TIMED
from .lake.lake import Lake, Snapshot
from .schemas import IN_LAKE, TABLES, Tables
from .source import source
from .source.facts import Facts, facts_of
from .source.spans import ends, plan

MANY = 1_000_000
"""What a file of the lake counts for, of which the table does not tell how many rows it has."""


_BODIES = ("body", "headers")


def open_tables(
    spark: SparkSession,
    dsn: str | None,
    lake: str | None,
    *,
    topics: Collection[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    limited: Collection[str] = IN_LAKE,
    moving: bool = False,
    bodies: bool = True,
) -> Tables:
    """The tables of a store, of a lake, or of both.

    Each claim is among the claims or among the deliveries, as it was at this moment, however long the job takes, unless
    the tables are to be `moving`: then each is as it is when it is read, and the open claims are to be read first.
    `topics` leaves out all others. `since` and `until` are Unix milliseconds, the latter not included, and go by the
    time that `schemas.LAKE_DAYS` names; they are for tables that are archived, all or those that are to be `limited`.
    Without `bodies`, these and headers may be empty: whoever asks does not look at them.
    Raises `LakeError`, `StoreAway`, `NotFound` for a topic that is in neither, or ValueError when neither is named.
    """
    reads = Reads(spark, dsn, lake, topics, since, until, limited, bodies)
    reads.places.check_topics(topics)
    if dsn is not None and not moving:
        reads.stand_still()
    return Tables(**{table: reads.whole(table) for table in TABLES})


def open_live(
    spark: SparkSession, dsn: str, table: str, *columns: str, topics: Collection[str] | None = None
) -> DataFrame:
    """These columns of what the store has of a table, whatever of it is in a lake."""
    return Reads(spark, dsn, None, topics).live(table, None, *columns)


def check(dsn: str | None, lake: str | None, topics: Collection[str] | None = None) -> int:
    """Whether store, lake and topics are there, asked before Spark starts; about how many rows there are at the most.

    Raises as `open_tables` does.
    """
    places = _Sources(dsn, lake)
    places.check_topics(topics)
    return places.rows()


class _Sources:
    """A store, a lake or both, as they are now, without Spark."""

    def __init__(self, dsn: str | None, lake: str | None) -> None:
        if dsn is None and lake is None:
            raise ValueError("name a store with --dsn, a lake with --lake, or both")
        self.dsn = dsn
        self.snapshots = {} if lake is None else Lake(lake).tables(alone=dsn is None)
        self.facts = None if dsn is None else facts_of(dsn)

    def rows(self) -> int:
        """About, and of all topics."""
        archived = sum(
            row.get("num_records") or MANY for snapshot in self.snapshots.values() for row in snapshot.added()
        )
        if self.facts is None:
            return archived
        waiting = sum(counts["scheduled"] for counts in self.facts.tallies.values())
        live = sum(span.weight for table in RANGED for span in plan(table, self.facts))
        return archived + waiting + live

    def check_topics(self, topics: Collection[str] | None) -> None:
        """A topic that nothing knows is a slip of the pen, and not a topic without messages. Raises `NotFound`."""
        known: Collection[str] = () if self.facts is None else self.facts.topics.values()
        for topic in topics or ():
            if topic not in known and not any(snapshot.files({topic}) for snapshot in self.snapshots.values()):
                raise no_such_topic(topic, store=self.dsn is not None, lake=bool(self.snapshots))


@define
class Reads:
    """What is read of the lake, opened first, and of the live store."""

    spark: SparkSession
    dsn: str | None
    lake: str | None
    topics: Collection[str] | None = None
    since: int | None = None
    until: int | None = None
    limited: Collection[str] = IN_LAKE
    """The tables that `since` and `until` are for."""
    bodies: bool = True
    """Without, these and headers may be empty."""
    places: _Sources = field(init=False)
    _upto: dict[str, int] | None = field(default=None, init=False)
    _claims: DataFrame | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.places = _Sources(self.dsn, self.lake)
        if self.dsn is not None:
            source.register(self.spark)

    def stand_still(self) -> None:
        """From now on claims and deliveries are those of this moment: a claim that ends later counts as open."""
        begin = ends("deliveries", self.facts)
        claims = self.live("claims", None).localCheckpoint()
        self._upto = ends("deliveries", facts_of(self.dsn or ""))
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
        window = (self.since, self.until) if table in self.limited else (None, None)
        old = (
            None
            if lake is None
            else lake.frame(self.spark, self.topics, *window, unread=() if self.bodies else _BODIES)
        )
        new = frame(self.spark, [], TABLES[table]) if self.dsn is None else self.live(table, lake)
        if old is None:
            return new
        old = old.select(*TABLES[table].names)
        if self.dsn is None:
            return old
        if table in TIMED:
            keys = list(TIMED[table])
            new = new.join(old.select(*keys), keys, "left_anti").select(*TABLES[table].names)
        return old.unionByName(new)

    def archived(self, table: str, *, since: int | None) -> DataFrame:
        """What the lake has."""
        lake = self.places.snapshots.get(table)
        if lake is None:
            return frame(self.spark, [], TABLES[table])
        return lake.frame(self.spark, self.topics, since).select(*TABLES[table].names)

    def live(self, table: str, lake: Snapshot | None, *columns: str, since: int | None = None) -> DataFrame:
        """What lies behind the lake's position; of all columns, or of these."""
        if table == "claims" and self._claims is not None:
            return self._claims
        options = {"columns": ",".join(columns)}
        if table == "deliveries" and self._upto is not None:
            options["upto"] = json.dumps(self._upto)
        if self.topics is not None:
            options["topics"] = json.dumps(sorted(self.topics))
        times = {"since": self.since if since is None else since, "until": self.until} if table in self.limited else {}
        options |= {name: str(at) for name, at in times.items() if at is not None}
        if lake is not None and table in RANGED:
            options["after"] = json.dumps(lake.positions(ends(table, self.facts)))
        return self._reader(table).options(**options).load()

    def _reader(self, table: str) -> DataFrameReader:
        return self.spark.read.format("tarry").option("dsn", self.dsn).option("table", table)
