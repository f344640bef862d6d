"""Makes the rows of a trace from rows by table."""

from collections.abc import Mapping, Sequence
from typing import Any

from tarry.pipeline.trace.timeline import Row, Rows


def rows_by_table(tables: Mapping[str, Sequence[Row]]) -> Rows:
    """The rows of a trace, without duplicates, from rows by the names of their tables."""
    made = Rows()
    for name, rows in tables.items():
        place: dict[Any, Row] | list[Row] = getattr(made, name)
        if isinstance(place, list):
            place += rows
        else:
            place.update(enumerate(rows))
    return made
