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
"""How many rows an UPDATE has at most."""
Writer: TypeAlias = Callable[[Any], Sql]


@cache
def statement(query: str, database: str | None = None) -> tuple[Statement, Mapping[int, Writer]]:
    """The query as a statement, and by number those placeholders whose lists are written in a special way.

    Its tables are those of `database`, or of the session's database.
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
    """A list of one row, with that row twice: otherwise MariaDB uses no range and reads the whole table. Other values
    are left as they are."""
    kind = cast("type[object]", type(value))
    return value * 2 if kind is list and len(value) == 1 and isinstance(value[0], tuple) else value


def exactly(many: int) -> bytes:
    """A statement that fails, with an error that `errors` recognizes, unless the one before it has matched `many` rows.

    Not DO, which ignores errors on MariaDB.
    """
    return b"SET @exactly=IF(ROW_COUNT()=%d,0,EXP(999))" % many


def bind_each(query: str, rows: Sequence[Sequence[Value]], *, max_bytes: int) -> list[tuple[int, bytes]]:
    """Runs an `UPDATE table SET a = ?, b = ? WHERE id = ?` for many rows: returns statements, each as the number of its
    rows and its bytes.

    The given rows are joined with the table. They come first in the join, so that the table is read by its key.
    """
    text = load_queries()[query]
    match = _UPDATE.fullmatch(text)
    if match is None:
        raise TypeError(f"bind_each wants an UPDATE by a key: {text}")
    columns = [*re.findall(r"(\w+) = \?", match["sets"]), match["key"]]
    first = Statement("SELECT " + ", ".join(f"? AS {column}" for column in columns))
    other = Statement(" UNION ALL SELECT " + ", ".join("?" * len(columns)))
    sets = ", ".join(f"{match['table']}.{column} = given.{column}" for column in columns[:-1])
    # With sql_safe_updates MariaDB refuses statements that read a whole table, even the derived one of the given rows.
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
    """A list of ids for each shard: in a promotion it costs MySQL a sixth less than one list of pairs. Plain ids are
    places, too."""
    return _lists(frozenset(places))


@lru_cache(maxsize=4)
def _lists(places: frozenset[int]) -> Sql:
    """Cached, since promotion uses the same places to lock, to copy and to remove rows."""
    lists = [
        f"shard = {shard} AND id IN ({','.join(map(int.__repr__, sorted(ids)))})"
        for shard, ids in enumerate(by_shard(places))
        if ids
    ]
    if not lists:
        raise ValueError("no ids: leave the statement out")
    return Sql(f"({' OR '.join(lists)})")


def _within(columns: Sequence[str], spans: Iterable[Sequence[int]]) -> Sql:
    """A condition with a range of the index for each of these spans."""
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
