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

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ..arrow import Batch, Table, pa
from ..columns import arrow_schema
from ..link import Link, absolute
from ..schemas import TABLES
from .facts import COUNTERS, Facts, read_facts
from .pages import read_span
from .pushing import Pushed
from .reads import fetcher
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
            *(absolute(_dsn(options)), self._table(), schema, marks_of(options.get("after"), "after")),
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
        self.after, self.upto = marks_of(options.get("after"), "after"), marks_of(options.get("upto"), "upto")
        self.capped = "upto" in options
        topics = json.loads(options["topics"]) if options.get("topics") else None
        self.pushed = Pushed(table, set(topics) if topics is not None else None)
        for option, operator in (("since", ">="), ("until", "<")):
            if options.get(option):
                self.pushed.conditions.append(f"{TIMES[table]} {operator} {int(options[option])}")

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """The store leaves out what it can; Spark looks again all the same."""
        for one in filters:
            self.pushed.take(one)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        with Link(self.dsn) as link:
            facts = read_facts(link)
        if self.table in SMALL:
            return [InputPartition(_rows(self.table, facts, self.pushed.topics))]
        spans = plan(self.table, facts, self.after, self.upto if self.capped else None, self.pushed.topics)
        return [InputPartition(some) for some in bundle(spans)] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        if self.table in SMALL:
            return iter(_small(self.table, partition.value, self.schema).to_batches())
        return self._read(partition.value)

    def _read(self, spans: Sequence[Any]) -> Iterator[Batch]:
        fetch = fetcher(self.dsn)
        yield pa.RecordBatch.from_pylist([], schema=arrow_schema(self.schema))
        for span in spans:
            for table in read_span(fetch, span, self.schema, self.pushed.conditions):
                yield from table.combine_chunks().to_batches()


def _rows(table: str, facts: Facts, topics: set[str] | None) -> list[tuple[object, ...]]:
    """The rows of a small table, in the order of its whole schema."""
    rows: list[tuple[object, ...]] = []
    if table == "queues":
        rows = [
            (
                *(facts.topics[q.topic_id], q.topic_id, q.id, q.number, q.group_id),
                *(q.next_offset, q.straight, q.holes, q.floor),
            )
            for q in facts.queues.values()
        ]
    elif table == "cursors":
        rows = [
            (facts.topic_of(c.queue_id), facts.groups[c.group_id][1], c.group_id, c.queue_id, *c.counters)
            for c in facts.cursors
        ]
    else:
        rows = [(facts.topics[id_], id_, *told) for id_, told in sorted(facts.tallies.items()) if id_ in facts.topics]
    return [row for row in rows if topics is None or row[0] in topics]


def _small(table: str, rows: Sequence[tuple[object, ...]], schema: StructType) -> Table:
    whole = arrow_schema(TABLES[table])
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(whole)
    made = pa.table([pa.array(list(c), f.type) for c, f in zip(columns, whole, strict=True)], schema=whole)
    return made.select(schema.names)


assert len(COUNTERS) + 4 == len(TABLES["cursors"].names), "the counters of a cursor are its columns"  # noqa: S101
