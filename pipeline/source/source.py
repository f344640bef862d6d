"""The store as a Spark data source, without a jar.

    session.register(spark)
    spark.read.format("tarry").option("dsn", DSN).option("table", "messages").load()

Options: `dsn`; `table`, one of `schemas.TABLES`; `after` and `upto`, JSON marks as in `spans`; `topics`, a JSON list;
`since`, Unix milliseconds of the table's time; `columns`, those to be read, with commas (Spark does not tell a Python
source which columns a query wants; `.schema(...)` does the same). With `spark.sql.python.filterPushdown.enabled` set,
equality on columns and ranges on the table's time go to the store.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import asdict
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ..arrow import Batch, pa
from ..columns import arrow_schema
from ..schemas import TABLES
from ..store_connection import absolute
from .facts import Facts, facts_of
from .pages import read_spans
from .pushing import Pushed
from .shapes import TIMES
from .spans import bundle, marks_of, plan
from .stream import RANGES, StreamReader

SMALL = ("queues", "cursors", "tallies")
"""Tables that are facts, read at once."""


def register(spark: SparkSession) -> None:
    """Makes `format("tarry")` known to a session."""
    spark.dataSource.register(Source)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


class Source(DataSource):
    """`format("tarry")`."""

    @classmethod
    def name(cls) -> str:
        return "tarry"

    def schema(self) -> StructType:
        if self._ranges():
            return RANGES
        schema = TABLES[self._table()]
        wanted = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()]
        return part_of(schema, wanted or schema.names)

    def reader(self, schema: StructType) -> "Reader":
        return Reader(self._table(), part_of(TABLES[self._table()], schema.names), dict(self.options))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  # Spark's name
        options = self.options
        return StreamReader(
            absolute(_dsn(options)),
            self._table(),
            schema,
            marks_of(options.get("after"), "after"),
            ranges=self._ranges(),
            rows=int(options["rows"]) if "rows" in options else None,
        )

    def _ranges(self) -> bool:
        shown = self.options.get("as", "rows")
        if shown not in ("rows", "ranges"):
            raise ValueError(f"as: rows, or ranges for those of a stream, not {shown!r}")
        return shown == "ranges"

    def _table(self) -> str:
        table = self.options.get("table", "")
        if table not in TABLES:
            raise ValueError(f"table: one of {', '.join(TABLES)}, not {table!r}")
        return table


def part_of(schema: StructType, names: Sequence[str]) -> StructType:
    """These columns of a schema. Raises ValueError when there is no such column."""
    for name in names:
        if name not in schema.names:
            raise ValueError(f"there is no column {name!r}: there are {', '.join(schema.names)}")
    return StructType([schema[name] for name in names])


def _dsn(options: Mapping[str, str]) -> str:
    if "dsn" not in options:
        raise ValueError("dsn: sqlite:///FILE or mysql://USER:PASSWORD@HOST/DATABASE")
    return options["dsn"]


class Reader(DataSourceReader):
    """Plans on the driver, reads in the tasks."""

    def __init__(self, table: str, schema: StructType, options: Mapping[str, str]) -> None:
        self.table, self.schema = table, schema
        self.dsn = absolute(_dsn(options))
        self.after = marks_of(options.get("after"), "after")
        self.upto = marks_of(options["upto"], "upto") if "upto" in options else None
        topics = json.loads(options["topics"]) if options.get("topics") else None
        self.pushed = Pushed(table, set(topics) if topics is not None else None)
        for option, operator in (("since", ">="), ("until", "<")):
            if options.get(option):
                self.pushed.conditions.append(f"{TIMES[table]} {operator} {int(options[option])}")

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Lets the store leave out what it can; Spark filters again all the same."""
        for one in filters:
            self.pushed.take(one)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        facts = facts_of(self.dsn)
        if self.table in SMALL:
            return [InputPartition(_rows(self.table, facts, self.pushed.topics))]
        spans = plan(self.table, facts, self.after, self.upto, self.pushed.topics)
        return [InputPartition(some) for some in bundle(spans)] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        if self.table in SMALL:
            whole = pa.Table.from_pylist(partition.value, arrow_schema(TABLES[self.table]))
            return iter(whole.select(self.schema.names).to_batches())
        return read_spans(self.dsn, partition.value, self.schema, self.pushed.conditions)


def _rows(table: str, facts: Facts, topics: set[str] | None) -> list[dict[str, Any]]:
    """The rows of a small table."""
    rows: list[dict[str, Any]]
    if table == "queues":
        rows = [
            asdict(q) | {"topic": facts.topics[q.topic_id], "queue_id": q.id, "queue": q.number}
            for q in facts.queues.values()
        ]
    elif table == "cursors":
        rows = [
            {"topic": facts.topic_of(c.queue_id), "group": facts.groups[c.group_id][1], **asdict(c), **c.counters}
            for c in facts.cursors
        ]
    else:
        rows = [
            {"topic": facts.topics[id_], "topic_id": id_, **counts}
            for id_, counts in sorted(facts.tallies.items())
            if id_ in facts.topics
        ]
    return [row for row in rows if topics is None or row["topic"] in topics]
