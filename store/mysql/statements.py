"""The store's queries as MySQL and MariaDB read them (see `store.queries` for the notation)."""

from collections.abc import Sequence
from functools import cache
from typing import Any

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
    bound: list[Any] = list(values)
    if place is not None:
        pairs = sorted((shard_of(id_), id_) for id_ in bound[place])
        # MariaDB looks for one pair by reading the whole table in a DELETE, and finds two in the key.
        bound[place] = pairs * 2 if len(pairs) == 1 else pairs
    return prepared.bind(*bound)
