"""Filters of a query that the store can apply: it may return more rows than match, since Spark filters again.

Equality and IN on the topic decide which ranges are read; on other columns they become conditions of every statement,
as do ranges of the table's time.
"""

from datetime import datetime

from attrs import define, field
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from ..schemas import TABLES
from ..times import milliseconds_of
from .shapes import SHAPES, SOURCES, TIMES

_EXACT = ("long", "integer", "string")


@define
class Pushed:
    """The filters of a query of a table that the store applies."""

    table: str
    topics: set[str] | None = None
    """None: every topic."""
    conditions: list[str] = field(factory=list[str])
    """In SQL; all of them must hold."""

    def take(self, one: Filter) -> None:
        """Notes a filter if the store can apply it."""
        if isinstance(one, EqualTo):
            self._among(one.attribute, (one.value,))
        elif isinstance(one, In):
            self._among(one.attribute, one.value)
        elif isinstance(one, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
            time = TIMES.get(self.table)
            if one.attribute == (time,) and isinstance(one.value, datetime):
                operator = "<=" if isinstance(one, LessThan | LessThanOrEqual) else ">="
                self.conditions.append(f"{time} {operator} {milliseconds_of(one.value)}")

    def _among(self, attribute: tuple[str, ...], values: tuple[object, ...]) -> None:
        if len(attribute) != 1 or any(value is None for value in values) or len(values) > 1000:
            return
        name = attribute[0]
        if name == "topic":
            found = {str(value) for value in values}
            self.topics = found if self.topics is None else self.topics & found
            return
        column = _column(self.table, name)
        literals = [_literal(value) for value in values]
        if column is not None and all(literal is not None for literal in literals):
            self.conditions.append(f"{column} IN ({', '.join(str(literal) for literal in literals)})")


def _column(table: str, name: str) -> str | None:
    """The store's column, if it holds the same value in each of the table's sources; else None."""
    if table in ("deliveries", "claims") or table not in SOURCES or name not in TABLES[table].names:
        return None  # a row of the store is many of these rows; or they are facts, and read already
    if TABLES[table][name].dataType.typeName() not in _EXACT:
        return None
    found = {SHAPES[source].columns.get(name) for source in SOURCES[table]}
    return found.pop() if len(found) == 1 else None


def _literal(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f"X'{value.encode().hex()}'"
    return None
