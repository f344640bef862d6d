"""The source as a stream: rows of messages, returns or deliveries in the order of commits, or only their ranges.

Its offsets are marks as in `spans`. A batch holds what came since the last one, `rows` at most.
"""

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from ..arrow import Batch, pa
from ..columns import arrow_schema
from ..schemas import LONG, TEXT, schema_of
from .facts import facts_of
from .pages import read_spans
from .spans import Span, bundle, head, plan

STREAMED = ("messages", "returns", "deliveries")
RANGES = schema_of(("table", TEXT), ("mark", TEXT), ("first", LONG), ("last", LONG))
"""The schema of `option("as", "ranges")`."""

_CAP = 1_000_000


class StreamReader(DataSourceStreamReader):
    """Follows one table of the store."""

    def __init__(
        self, dsn: str, table: str, schema: StructType, after: Mapping[str, int], *, ranges: bool, rows: int | None
    ) -> None:
        if table not in STREAMED:
            raise ValueError(f"table {table!r} is no stream: one of {', '.join(STREAMED)}")
        self.dsn, self.table, self.schema, self.ranges = dsn, table, schema, ranges
        self.after, self.rows = dict(after), rows or _CAP

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name, as those below
        return dict(self.after)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.rows)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        spans = plan(self.table, facts_of(self.dsn), start)
        if not isinstance(limit, ReadAllAvailable):
            spans = head(spans, min(self.rows, limit.max_rows) if isinstance(limit, ReadMaxRows) else self.rows)
        return start | {span.mark: span.last for span in spans}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        spans = plan(self.table, facts_of(self.dsn), start, end)
        return [InputPartition(some) for some in bundle(spans)] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        spans: Sequence[Span] = partition.value
        if not self.ranges:
            return read_spans(self.dsn, spans, self.schema)
        rows = [{"table": s.table, "mark": s.mark, "first": s.first, "last": s.last} for s in spans]
        return iter([pa.RecordBatch.from_pylist(rows, schema=arrow_schema(self.schema))])
