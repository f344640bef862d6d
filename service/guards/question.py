"""Builds the queries to a guard's table, and interprets their rows. Pure.

Every row of a key is fetched, not only those that fulfil the condition: if a key has two rows nobody knows which is
meant, whatever the condition says of them.
"""

import re
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from ...store.mysql.literals import Sql, literal
from .declared import Guard

_WHOLE = re.compile("-?(0|[1-9][0-9]{0,18})")
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "binary", "varbinary"})

TWO_ROWS = "there are two rows for one key"
NO_NUMBER = "its key is no whole number as the column holds them"


@frozen
class Trial:
    """The result of trying a guard, without contents of its table."""

    numbers: bool
    """Whether keys are whole numbers in the table; else they are texts."""
    took: int
    """Milliseconds for the answer, without the login."""
    said: bool | None
    """Whether messages of the tried key would be sent; None if that is not clear, see `unclear`, or there is no row."""
    unclear: str | None
    """Why the answer for that key is not clear."""
    indexed: bool
    """Whether an index begins with the column, as far as the guard's user may see; else each query reads the whole
    table. Also true for a view, which has no index of its own."""


class NoAnswer(Exception):
    """The guard could not be asked, or did not answer. The messages asked about are held."""

    def __init__(self, why: str, *, of_all: bool) -> None:
        super().__init__(why)
        self.of_all = of_all
        """Whether it would not answer for any key; else a single key may be the reason."""


@frozen
class Answers:
    said: dict[str, bool] = field(factory=dict[str, bool])
    """Whether the messages of a key are to be sent, by key."""
    unclear: dict[str, str] = field(factory=dict[str, str])
    """Why the answer for a key is not clear, by key."""
    alone: list[str] = field(factory=list[str])
    """Keys that must be asked about one at a time, because some rows spell their key differently."""


def about_column(guard: Guard) -> bytes:
    """Query for the type of the key column: one row, if the user may see the column."""
    return f"SELECT LOWER(DATA_TYPE) FROM information_schema.COLUMNS WHERE {_column(guard)}".encode()  # noqa: S608  # literals


def about_index(guard: Guard) -> bytes:
    """Query with a row for each index that begins with the column, and one for a view, which has no index of its
    own."""
    indexes = f"SELECT 1 FROM information_schema.STATISTICS WHERE {_column(guard)} AND SEQ_IN_INDEX = 1"  # noqa: S608  # literals
    views = f"SELECT 1 FROM information_schema.VIEWS WHERE {_table(guard)}"  # noqa: S608  # literals
    return f"{indexes} UNION ALL {views}".encode()


def _table(guard: Guard) -> str:
    schema, _, table = guard.table.rpartition(".")
    where = "DATABASE()" if not schema else literal(schema)
    return f"TABLE_SCHEMA = {where} AND TABLE_NAME = {literal(table)}"


def _column(guard: Guard) -> str:
    return f"{_table(guard)} AND COLUMN_NAME = {literal(guard.key_column)}"


def holds_numbers(guard: Guard, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether the column holds numbers. Raises `NoAnswer` if it holds neither whole numbers nor texts."""
    if not rows:
        table = f"{guard.table}.{guard.key_column}"
        raise NoAnswer(f"there is no column {table}, or its user may not read it", of_all=True)
    kind = str(rows[0][0])
    if kind not in _WHOLE_NUMBERS | _TEXTS:
        why = f"{guard.table}.{guard.key_column} is of type {kind}: a key is looked up among texts or whole numbers"
        raise NoAnswer(why, of_all=True)
    return kind in _WHOLE_NUMBERS


def question(guard: Guard, keys: Sequence[str], *, numbers: bool) -> bytes:
    """Query for each row of these keys and whether it fulfils the condition, which may end in a comment."""
    table, column = guard.quoted
    some = ",".join(literal(Sql(key) if numbers else key) for key in keys)
    said = f"(\n{guard.condition}\n) IS TRUE"
    return f"SELECT {column}, {said} FROM {table} WHERE {column} IN ({some})".encode()  # noqa: S608  # the operator's


def any_key(guard: Guard) -> bytes:
    """Query for any key in the table."""
    table, column = guard.quoted
    return f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL LIMIT 1".encode()  # noqa: S608  # the operator's


def without_strangers(keys: Sequence[str], *, numbers: bool) -> tuple[list[str], Answers]:
    """The keys that can be asked about, without duplicates; and answers for the others."""
    asked = list(dict.fromkeys(keys))
    if not numbers:
        return asked, Answers()
    fit = [key for key in asked if _WHOLE.fullmatch(key)]
    return fit, Answers(unclear={key: NO_NUMBER for key in asked if not _WHOLE.fullmatch(key)})


def answers(keys: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Answers:
    """The answers for these keys according to the rows. The column's collation decides which texts are equal, so a row
    may spell its key differently from the one asked about; which key it belongs to shows only when each key is asked
    about alone."""
    if len(keys) > 1 and not {as_text(row[0]) for row in rows} <= set(keys):
        return Answers(alone=list(keys))
    found = Answers(said=dict.fromkeys(keys, False))
    met = set[str]()
    for value, fulfilled in rows:
        key = keys[0] if len(keys) == 1 else as_text(value)
        if key in met:
            found.unclear[key] = TWO_ROWS
            found.said.pop(key, None)
        else:
            met.add(key)
            found.said[key] = bool(fulfilled)
    return found


def as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
