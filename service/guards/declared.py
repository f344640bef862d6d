"""Reads and checks the guards that `tarry.toml` declares. Pure, except for reading the files of their secrets.

    [guards.unpaid]
    table = "shop.orders"
    key_column = "number"
    condition = "status = 'UNPAID'"
    dsn = "mysql://guard:password@db.example/shop"

A wrong value raises ValueError, which says what to write instead.
"""

import re
from collections.abc import Mapping
from typing import cast

from attrs import evolve, field, frozen

from ...store.environment import FILE, secret
from ...store.mysql.dsn import Dsn
from ...store.named_files import text_of
from ..durations import format_duration, parse_duration
from ..places import masked

_NAME = re.compile("[a-z][a-z0-9_]{0,63}")
_IDENTIFIER = re.compile(r"[\w$-]{1,64}")
_FIELDS = ("table", "key_column", "condition", "dsn", "dsn_file", "timeout")
_NEEDED = ("table", "key_column", "condition")
_VARIABLE = re.compile(r"TARRY_GUARDS_([A-Z0-9_]+)_DSN(_FILE)?")
_TIMEOUT, _SHORTEST, _LONGEST = 1_000, 50, 30_000
"""The default and the bounds of a time-out, in milliseconds."""


@frozen
class Guard:
    """A guard: a message is sent if the table's row for its key fulfils the condition."""

    name: str
    table: str
    key_column: str
    condition: str
    """The operator's SQL, unchanged."""
    dsn: str = field(repr=masked)
    """The DSN of a user who may only read that table; empty until it is known."""
    timeout: int = _TIMEOUT
    """Milliseconds for an answer."""

    @property
    def quoted(self) -> tuple[str, str]:
        """The table and the column, quoted for SQL."""
        return ".".join(f"`{part}`" for part in self.table.split(".")), f"`{self.key_column}`"


Guards = tuple[Guard, ...]


def read(value: object) -> Guards:
    """The guards of the file, sorted by name; guards that were read before are returned unchanged."""
    if isinstance(value, tuple):
        return cast(Guards, value)
    if not isinstance(value, dict):
        raise ValueError("a guard is a table of its own in the file, such as [guards.unpaid]")
    return tuple(_guard(str(name), table) for name, table in sorted(cast("dict[str, object]", value).items()))


def show(guards: Guards) -> str:
    return ",".join(guard.name for guard in guards) or "none"


def with_secrets(guards: Guards, environment: Mapping[str, str]) -> Guards:
    """The guards with DSNs from the environment: TARRY_GUARDS_UNPAID_DSN, or the file in
    TARRY_GUARDS_UNPAID_DSN_FILE."""
    names = {guard.name.upper(): guard for guard in guards}
    for variable in environment:
        if (match := _VARIABLE.fullmatch(variable)) and match[1] not in names:
            raise ValueError(f"{variable}: no guard {match[1].lower()!r} is declared in the file")
    found: list[Guard] = []
    for name, guard in names.items():
        given = secret(f"TARRY_GUARDS_{name}_DSN", environment)
        dsn = guard.dsn if given is None else _dsn(f"{guard.name} ({given[1]})", given[0])
        if not dsn:
            raise ValueError(f"{guard.name}: dsn is missing: of a user who may read {guard.table}, and no more")
        found.append(evolve(guard, dsn=dsn))
    return tuple(found)


def is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def _guard(name: str, value: object) -> Guard:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: a small letter, then small letters, digits and underscores, 64 at most")
    if not isinstance(value, dict):
        raise ValueError(f"{name} is a table with {', '.join(_NEEDED)} and dsn")
    given = cast("dict[str, object]", value)
    for key in given:
        if key not in _FIELDS:
            raise ValueError(f"{name}: unknown {key!r}: there are {', '.join(_FIELDS)}")
    for key in _NEEDED:
        if not isinstance(given.get(key), str) or not str(given[key]).strip():
            raise ValueError(f"{name}: {key} is missing, or is no text")
    table, column = str(given["table"]), str(given["key_column"])
    parts = table.split(".")
    if len(parts) > 2 or not all(map(_IDENTIFIER.fullmatch, parts)):
        raise ValueError(f"{name}: table {table!r} is no name of a table, such as orders or shop.orders")
    if not _IDENTIFIER.fullmatch(column):
        raise ValueError(f"{name}: key_column {column!r} is no name of a column")
    if "\0" in (condition := str(given["condition"])):
        raise ValueError(f"{name}: condition holds a NUL")
    return Guard(name, table, column, condition, _given_dsn(name, given), _timeout(name, given.get("timeout")))


def _given_dsn(name: str, given: Mapping[str, object]) -> str:
    if "dsn" in given and "dsn_file" in given:
        raise ValueError(f"{name}: dsn and dsn_file: leave one of them out")
    if "dsn_file" in given:
        try:
            text = text_of(str(given["dsn_file"]))
        except ValueError as error:
            raise ValueError(f"{name}: dsn{FILE.lower()}: {error}") from None
        return _dsn(f"{name} (dsn_file)", text.strip())
    return _dsn(name, given["dsn"]) if "dsn" in given else ""


def _dsn(name: str, text: object) -> str:
    try:
        Dsn.parse(str(text))
    except ValueError as error:
        raise ValueError(f"{name}: dsn: {error}") from None
    return str(text)


def _timeout(name: str, value: object) -> int:
    if value is None:
        return _TIMEOUT
    if not isinstance(value, int | str):
        raise ValueError(f'{name}: timeout {value!r} is not a duration: write "1s", or milliseconds')
    try:
        ms = parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{name}: timeout: {error}") from None
    if not _SHORTEST <= ms <= _LONGEST:
        raise ValueError(f"{name}: timeout lies between {format_duration(_SHORTEST)} and {format_duration(_LONGEST)}")
    return ms
