"""The store's queries as MySQL and MariaDB read them (see `store.queries` for the notation)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, TypeAlias, cast

from ..ids import by_shard
from ..ports import Bound, Value
from ..queries import load_queries
from .errors import too_long
from .literals import Sql, Statement

_LIST = re.compile(r"\((?P<columns>[^()?]+)\) (?:(?<=\(shard, id\) )(?:IN|AT)|(?P<within>WITHIN)) \(\?\*\)")
_TABLE = re.compile(r"\b(FROM|JOIN|INTO|(?<!KEY )UPDATE) (?=`?[a-z])")
_UPDATE = re.compile(r"UPDATE (?P<table>\w+) SET (?P<sets>\w+ = \?(?:, \w+ = \?)*) WHERE (?P<key>\w+) = \?")
_TOGETHER = 1000
"""Rows of an UPDATE at the most."""
Writer: TypeAlias = Callable[[Any], Sql]


@cache
def statement(query: str, database: str | None = None) -> tuple[Statement, Mapping[int, Writer]]:
    """The query, and which of its placeholders take lists that are written in a way of their own.

    Its tables are those of `database`, or of the session's own.
    """
    text = load_queries()[query]
    if database is not None:
        quoted = database.replace("`", "``")
        text = _TABLE.sub(lambda match: f"{match[1]} `{quoted}`.", text)
    writers: dict[int, Writer] = {}
    for match in _LIST.finditer(text):
        columns = [column.strip() for column in match["columns"].split(",")]
        writers[text[: match.start()].count("?")] = partial(_within, columns) if match["within"] else _by_shard
    return Statement(_LIST.sub("?", text)), writers


def bind(query: str, values: Sequence[Bound], database: str | None = None) -> bytes:
    """The bytes of a query with its values."""
    prepared, writers = statement(query, database)
    bound: list[Any] = list(values)
    for place, some in enumerate(bound):
        bound[place] = writers[place](some) if place in writers else _twice(some)
    return prepared.bind(*bound)


def _twice(value: Any) -> Any:
    """A list of one row has it two times: else MariaDB sees no range, and reads the whole table."""
    kind = cast("type[object]", type(value))
    return value * 2 if kind is list and len(value) == 1 and isinstance(value[0], tuple) else value


def exactly(many: int) -> bytes:
    """A statement that fails, as `errors` knows, unless the one before it has matched so many rows.

    Not DO, which on MariaDB keeps an error to itself.
    """
    return b"SET @exactly=IF(ROW_COUNT()=%d,0,EXP(999))" % many


def bind_each(query: str, rows: Sequence[Sequence[Value]], *, max_bytes: int) -> list[tuple[int, bytes]]:
    """An `UPDATE table SET a = ?, b = ? WHERE id = ?` for many rows: of how many each statement is, and its bytes.

    The rows are joined with the table, and come first, so that each finds its own by the key.
    """
    text = load_queries()[query]
    match = _UPDATE.fullmatch(text)
    if match is None:
        raise TypeError(f"bind_each wants an UPDATE by a key: {text}")
    columns = [*re.findall(r"(\w+) = \?", match["sets"]), match["key"]]
    first = Statement("SELECT " + ", ".join(f"? AS {column}" for column in columns))
    other = Statement(" UNION ALL SELECT " + ", ".join("?" * len(columns)))
    sets = ", ".join(f"{match['table']}.{column} = given.{column}" for column in columns[:-1])
    # With sql_safe_updates MariaDB refuses whatever reads a table whole, even if it is the one of the given rows.
    opening = b"/*M! SET STATEMENT sql_safe_updates = 0 FOR */ UPDATE ("
    closing = (
        f") given STRAIGHT_JOIN {match['table']} FORCE INDEX (PRIMARY)"
        f" ON {match['table']}.{match['key']} = given.{match['key']} SET {sets}"
    ).encode()
    statements: list[tuple[int, bytes]] = []
    pieces: list[bytes] = []
    left = 0
    for row in rows:
        piece = (other if pieces else first).bind(*row)
        if pieces and (len(piece) > left or len(pieces) == _TOGETHER):
            statements.append((len(pieces), opening + b"".join(pieces) + closing))
            pieces, piece = [], first.bind(*row)
        if not pieces:
            left = max_bytes - len(opening) - len(closing)
            if len(piece) > left:
                raise too_long("a row", len(piece), left)
        pieces.append(piece)
        left -= len(piece)
    if pieces:
        statements.append((len(pieces), opening + b"".join(pieces) + closing))
    return statements


def _by_shard(places: Iterable[int]) -> Sql:
    """A list for each shard: it costs MySQL a sixth less in a promotion than one list of pairs. An id is a place."""
    return _lists(frozenset(places))


@lru_cache(maxsize=4)
def _lists(places: frozenset[int]) -> Sql:
    """Kept, since promotion asks for the same places to lock, to copy and to remove them."""
    lists = [
        f"shard = {shard} AND id IN ({','.join(map(int.__repr__, sorted(ids)))})"
        for shard, ids in enumerate(by_shard(places))
        if ids
    ]
    if not lists:
        raise ValueError("no ids: leave the statement out")
    return Sql(f"({' OR '.join(lists)})")


def _within(columns: Sequence[str], spans: Iterable[Sequence[int]]) -> Sql:
    """A range of the index for each stretch."""
    *leading, last = columns
    ranges = [
        " AND ".join(
            [
                *(f"{column} = {value:d}" for column, value in zip(leading, some, strict=True)),
                f"{last} >= {since:d} AND {last} < {until:d}",
            ]
        )
        for *some, since, until in spans
    ]
    if not ranges:
        raise ValueError("no stretches: leave the statement out")
    return Sql(f"({' OR '.join(ranges)})")
