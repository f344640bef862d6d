"""The store's queries as MySQL and MariaDB read them (see `store.queries` for the notation)."""

from collections.abc import Sequence
from functools import cache

from ..ids import shard_of
from ..ports import Value
from ..queries import load_queries
from .literals import Statement

_IDS = "(shard, id) IN (?*)"


@cache
def statement(query: str) -> tuple[Statement, int | None]:
    """The query, and which of its placeholders takes ids to be looked up each under its own shard."""
    text = load_queries()[query]
    before, found, _ = text.partition(_IDS)
    return Statement(text), before.count("?") if found else None


def bind(query: str, values: Sequence[Value | Sequence[Value]]) -> bytes:
    """The bytes of a query with its values."""
    prepared, place = statement(query)
    if place is None:
        return prepared.bind(*values)
    bound = list(values)
    ids = bound[place]
    assert isinstance(ids, (list, tuple))
    bound[place] = [(shard_of(id_), id_) for id_ in sorted(ids, key=_by_key)]  # type: ignore[type-var,arg-type]
    return prepared.bind(*bound)  # type: ignore[arg-type]  # rows of integers are what the placeholder takes


def _by_key(id_: int) -> tuple[int, int]:
    return shard_of(id_), id_
