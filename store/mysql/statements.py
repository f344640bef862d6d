"""The store's queries as MySQL and MariaDB read them (see `store.queries` for the notation)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, TypeAlias

from ..ids import by_shard
from ..ports import Bound
from ..queries import load_queries
from .literals import Sql, Statement

_LIST = re.compile(r"\((?P<columns>[^()?]+)\) (?:(?<=\(shard, id\) )(?:IN|AT)|(?P<within>WITHIN)) \(\?\*\)")
_TABLE = re.compile(r"\b(FROM|JOIN|INTO|(?<!KEY )UPDATE) (?=`?[a-z])")
Writer: TypeAlias = Callable[[Any], Sql]


@cache
def statement(query: str, database: str | None = None) -> tuple[Statement, Mapping[int, Writer]]:
    """The query, and which of its placeholders take lists that are written in a way of their own.

    Its tables are those of `database`, a checked identifier, or of the session's own.
    """
    text = load_queries()[query]
    if database is not None:
        text = _TABLE.sub(rf"\1 `{database}`.", text)
    writers: dict[int, Writer] = {}
    for match in _LIST.finditer(text):
        columns = [column.strip() for column in match["columns"].split(",")]
        writers[text[: match.start()].count("?")] = partial(_within, columns) if match["within"] else _by_shard
    return Statement(_LIST.sub("?", text)), writers


def bind(query: str, values: Sequence[Bound], database: str | None = None) -> bytes:
    """The bytes of a query with its values."""
    prepared, writers = statement(query, database)
    bound: list[Any] = list(values)
    for place, write in writers.items():
        bound[place] = write(bound[place])
    return prepared.bind(*bound)


def exactly(many: int) -> bytes:
    """A statement that fails, as `errors` knows, unless the one before it has matched so many rows.

    Not DO, which on MariaDB keeps an error to itself.
    """
    return b"SET @exactly=IF(ROW_COUNT()=%d,0,EXP(999))" % many


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
