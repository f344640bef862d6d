"""The columns and indexes that Tarry's tables must have, read from the migrations; and which deviations do no harm.

Columns and indexes are written as in CREATE TABLE, in the same words for both servers. So actual and required ones are
compared as text, and the required text is a part of the statement that repairs the table. A test checks that both
servers make of the migrations what is read from them here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from attrs import field, frozen

from ..migrations import Migration

_CREATE = re.compile(r"CREATE TABLE IF NOT EXISTS `?(\w+)`? \((.*)\) ENGINE=InnoDB", re.DOTALL)
_ALTER = re.compile(r"ALTER TABLE `?(\w+)`? ")
_DEFINITION = r"(\w+(?:\(\d+\))?(?: UNSIGNED)? (?:NOT )?NULL(?: AUTO_INCREMENT| DEFAULT \w+)?)"
_INDEX = r"((?:PRIMARY |UNIQUE )?(?:KEY|INDEX))(?: (\w+))? \(([^)]*)\)"
_COLUMN = re.compile(rf"^  `?(\w+)`? {_DEFINITION}", re.MULTILINE)
_KEY = re.compile(rf"^  {_INDEX}", re.MULTILINE)
_CHANGE = re.compile(rf"\b(ADD|DROP) COLUMN `?(\w+)`?(?: {_DEFINITION})?")
_ADD_KEY = re.compile(rf"\bADD {_INDEX}")

_WHOLE_PART = re.compile(r"`([^`]+)`(?=,| DESC|\))")
_FORM = re.compile(r"(\w+)(?:\((\d+)\))?( UNSIGNED)?( .*)")
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_BLOBS = ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")
_NO_MATTER = re.compile(r"(?<=INT)\(\d+\)|\s*/\*.*?\*/")
"""Ignored: the display width of an integer, and how MariaDB compresses a column."""


@frozen
class Made:
    """A table as the migrations make it."""

    columns: dict[str, str] = field(factory=dict[str, str])
    """The definition of each column, as after its name in CREATE TABLE."""
    indexes: dict[str, str] = field(factory=dict[str, str])
    """The definition of each index, as in CREATE TABLE."""


Shape = Mapping[str, Made]


def shape_of(migrations: Iterable[Migration]) -> Shape:
    """The tables that these migrations make, applied in order; tables that other migrations make are left out."""
    return shape_of_statements(text for migration in migrations for text in migration.statements)


def shape_of_statements(statements: Iterable[str]) -> Shape:
    """The tables that these statements make."""
    shape: dict[str, Made] = {}
    for text in statements:
        if created := _CREATE.match(text):
            made = shape[created[1]] = Made(dict(_COLUMN.findall(created[2])))
            made.indexes.update(_read_indexes(_KEY.findall(created[2])))
        elif (changed := _ALTER.match(text)) and changed[1] in shape:
            made = shape[changed[1]]
            for what, name, definition in _CHANGE.findall(text):
                if what == "ADD":
                    made.columns[name] = definition
                else:
                    made.columns.pop(name, None)
            made.indexes.update(_read_indexes(_ADD_KEY.findall(text)))
    return shape


def dropped_from(table: str, migrations: Iterable[Migration]) -> frozenset[str]:
    """The columns of a table that these migrations drop."""
    return frozenset(
        name
        for migration in migrations
        for text in migration.statements
        if (changed := _ALTER.match(text)) and changed[1] == table
        for what, name, _ in _CHANGE.findall(text)
        if what == "DROP"
    )


def _read_indexes(found: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    indexes: dict[str, str] = {}
    for kind, name, columns in found:
        parts = [f"`{column.strip('` ')}`" for column in columns.split(",")]
        indexes[name or "PRIMARY"] = index(name or "PRIMARY", parts, unique=kind.startswith(("PRIMARY", "UNIQUE")))
    return indexes


def index(name: str, parts: Sequence[str], *, unique: bool, kind: str = "BTREE") -> str:
    """The definition of an index, as in CREATE TABLE."""
    columns = ", ".join(parts)
    if name == "PRIMARY":
        return f"PRIMARY KEY ({columns})"
    what = f"{kind} " if kind != "BTREE" else "UNIQUE " if unique else ""
    return f"{what}KEY `{name}` ({columns})"


def column(type_: str, collation: str | None, default: str | None, extra: str, *, null: bool) -> str:
    """The definition of a column, as after its name in CREATE TABLE, made from a row of
    `information_schema.COLUMNS`."""
    words = [_NO_MATTER.sub("", type_ if "'" in type_ else type_.upper())]  # the words of an ENUM stay
    if collation is not None:
        words.append(f"COLLATE {collation}")
    words.append("NULL" if null else "NOT NULL")
    if "auto_increment" in extra.lower():
        words.append("AUTO_INCREMENT")
    if "GENERATED" in extra.upper().replace("DEFAULT_GENERATED", ""):
        words.append("GENERATED")
    if default not in (None, "NULL"):
        words.append(f"DEFAULT {default}")
    return " ".join(words)


def takes_all(theirs: str, ours: str) -> bool:
    """Whether a column takes all values that ours takes, and in the same way: it is equal, or a wider one of the same
    kind."""
    there, needed = _FORM.fullmatch(theirs), _FORM.fullmatch(ours)
    if theirs == ours or there is None or needed is None:
        return theirs == ours
    if there[4] != needed[4] and not there[4].startswith(f"{needed[4]} DEFAULT "):
        return False
    (kind, low, high), (our_kind, our_low, our_high) = _room(there), _room(needed)
    return kind == our_kind and low <= our_low and our_high <= high


def may_refuse(there: str, made: Made, columns: Mapping[str, str]) -> bool:
    """Whether an index that somebody added refuses rows that our indexes accept. One that has all columns of a unique
    index of ours does not; nor does one with an added column that is NULL or numbered, since no two rows are equal
    then."""
    if not there.startswith("UNIQUE "):
        return False
    whole = set(_WHOLE_PART.findall(there))
    ours = (set(_WHOLE_PART.findall(one)) for one in made.indexes.values() if one.startswith(("PRIMARY ", "UNIQUE ")))
    theirs = [columns[one] for one in whole if one in columns and one not in made.columns]
    empty = any(one.endswith((" AUTO_INCREMENT", " NULL")) and not one.endswith(" NOT NULL") for one in theirs)
    return not empty and not any(one <= whole for one in ours)


def _room(form: re.Match[str]) -> tuple[str, int, int]:
    """The kind of a column, and the range of the values that it takes."""
    name, size, unsigned = form[1], form[2], form[3]
    if bits := _INTEGERS.get(name):
        return ("integer", 0, 2**bits) if unsigned else ("integer", -(2 ** (bits - 1)), 2 ** (bits - 1))
    if name in _BLOBS:
        return "blob", 0, _BLOBS.index(name)
    if name == "VARBINARY":
        return name, 0, int(size)
    # All others must be equal, BINARY too: a longer one pads shorter values with zeros.
    return f"{name}({size})", 0, 0
