"""The store's SQL: one `.sql` file per table in `sql/`, each query with a name and a sentence.

    -- name: lock
    -- The claims named, for update, in key order.
    SELECT ...

A query is called `table.name`. `?` takes a value, `(?*)` a list for IN, `VALUES ?` in an INSERT a row (many with
`execute_many`), and `(shard, id) IN (?*)` a list of ids, each looked up under its own shard; `(shard, id) AT (?*)`
takes places in `delay` (`ids.place_of`). `(a, b) WITHIN (?*)` takes a list of ranges of an index, each (a, from b, to
b), the end not included; it is the first placeholder of its SELECT, and the index is named. Text for MySQL and MariaDB
alone is in their executable comments, `/*! FOR UPDATE */`, which SQLite ignores. The columns of a SELECT have the names
of the fields of its record (see `rows`). `{content}` stands for the columns of a message's content, `{m.content}` for
the same with the prefix `m.`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from .content import Content

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_REMARK = re.compile(r"^--.*\n", re.MULTILINE)


def _listed(names: Iterable[str], of: str = "") -> str:
    return ", ".join([of + ("`key`" if name == "key" else name) for name in names])


_CONTENT = {
    "{content}": _listed(Content.__struct_fields__),
    "{m.content}": _listed(Content.__struct_fields__, "m."),
}
_STANDS_FOR = re.compile("|".join(map(re.escape, _CONTENT)))


@cache
def load_queries() -> Mapping[str, str]:
    """All queries by `table.name`."""
    queries: dict[str, str] = {}
    for path in files(__package__ or "").joinpath("sql").iterdir():
        table, _, kind = path.name.partition(".")
        if kind != "sql":
            continue
        parts = _NAME.split(path.read_text("utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if f"{table}.{name}" in queries:
                raise ValueError(f"{path.name} has two queries with the name {name}")
            plain = _REMARK.sub("", text.lstrip("\n")).strip().rstrip(";")
            queries[f"{table}.{name}"] = _STANDS_FOR.sub(lambda found: _CONTENT[found[0]], plain)
    return MappingProxyType(queries)
