"""Makes the bytes of a statement from SQL text and Python values. Pure: no connection is needed.

Values are written without quotes or escapes, so nothing can be injected, whatever the character set and sql_mode:

    None    NULL                    int     decimal digits
    bool    1 or 0                  float   repr with an exponent: a DOUBLE, no DECIMAL; nan and inf refused
    bytes   x'6869', also x''       str     _utf8mb4 x'6869', the hex of its UTF-8: text to the server, not binary

In the text of a `Statement`

    ?       is one value; a tuple or list there is a row, `(1,x'6869')`, which is how `VALUES ?` is meant
    (?*)    takes a sequence of values, `id IN (?*)`, or of rows, `(shard, id) IN (?*)`; an empty one is an error

but not within quotes or comments. Executable comments, `/*! FOR UPDATE */` and `/*M! ... */`, are SQL, not comments.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from ..errors import Refused
from .errors import too_long


class Sql:
    """A piece of SQL in place of a value. Made only of Tarry's own words and numbers, never of text from outside."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


Scalar = int | float | str | bytes | Sql | None
Value = Scalar | Sequence[Scalar] | Sequence[Sequence[Scalar]]

_TOKEN = re.compile(
    r"""
      (?P<passed> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `[^`]*`
                | /\*M?![0-9]*                  # opens an executable comment; what is in it counts
                | /\*.*?\*/ | --(?=[\s\x00-\x1f]|$)[^\n]* | \#[^\n]* )
    | (?P<hole> \?\*? )
    """,
    re.VERBOSE | re.DOTALL,
)
_VALUES = re.compile(r"\bVALUES\s*$", re.IGNORECASE)


def literal(value: Scalar) -> str:
    """The SQL of one value."""
    write = _LITERALS.get(type(value))
    if write is None:
        # For subclasses, such as IntEnum. bool comes before int, since it is a subclass of int.
        for kind in (bool, int, float, str, bytes):
            if isinstance(value, kind):
                return _LITERALS[kind](value)
        raise TypeError(f"no literal for {type(value).__name__}: give int, float, str, bytes, bool or None")
    return write(value)


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise Refused(f"{value} is not a number that SQL knows", 1367)
    text = float.__repr__(value)
    return text if "e" in text else text + "e0"


def _text(value: str) -> str:
    try:
        return f"_utf8mb4 x'{value.encode().hex()}'"
    except UnicodeEncodeError as error:
        raise Refused("the text holds half a surrogate pair, which UTF-8 cannot carry", 1366) from error


_LITERALS: dict[type, Callable[[Any], str]] = {
    int: int.__repr__,
    bytes: lambda value: f"x'{value.hex()}'",
    str: _text,
    type(None): lambda _: "NULL",
    bool: lambda value: "1" if value else "0",
    float: _float,
    Sql: lambda piece: piece.text,
}


def _row(values: Iterable[Scalar]) -> str:
    try:
        return "(" + ",".join([_LITERALS[type(value)](value) for value in values]) + ")"
    except KeyError:
        return "(" + ",".join([literal(value) for value in values]) + ")"


def _one(value: Any) -> str:
    kind = cast("type[object]", type(value))
    if kind in _LITERALS:
        return _LITERALS[kind](value)
    return _row(value) if kind in (tuple, list) else literal(value)


def _list(values: Any) -> str:
    if isinstance(values, str | bytes):
        raise TypeError("?* takes a sequence of values, not a single one")
    text = ",".join([_one(value) for value in values])
    if not text:
        raise ValueError("?* with an empty sequence: IN () is no SQL, leave the statement out")
    return text


class Statement:
    """A statement, split at its placeholders once; `bind` returns the bytes to send.

    `bind_many` is for an INSERT whose only placeholder is that of `VALUES ?`: it writes many rows into as few
    statements as possible.
    """

    def __init__(self, sql: str) -> None:
        self.sql = sql
        # The text around the placeholders: always one item more than `_writers`.
        self._texts: list[str] = []
        self._writers: list[Callable[[Any], str]] = []
        start = 0
        for token in _TOKEN.finditer(sql):
            if token["hole"]:
                self._texts.append(sql[start : token.start()])
                self._writers.append(_list if token["hole"] == "?*" else _one)
                start = token.end()
        self._texts.append(sql[start:])
        self._takes_rows = self._writers == [_one] and _VALUES.search(self._texts[0]) is not None

    def __repr__(self) -> str:
        return f"Statement({self.sql!r})"

    def bind(self, *values: Value) -> bytes:
        """The statement with these values, one for each placeholder."""
        if len(values) != len(self._writers):
            raise TypeError(f"{len(values)} values for {len(self._writers)} placeholders: {self.sql}")
        pieces = [self._texts[0]]
        for write, value, text in zip(self._writers, values, self._texts[1:], strict=True):
            pieces.append(write(value))
            pieces.append(text)
        return "".join(pieces).encode()

    def bind_many(self, rows: Iterable[Sequence[Scalar]], *, max_bytes: int) -> list[bytes]:
        """Statements of at most `max_bytes` each that insert the rows; none if there are no rows.

        Raises `Unfit` for a row that is too long by itself: the server would cut the connection.
        """
        if not self._takes_rows:
            raise TypeError(f"bind_many wants VALUES ? and no other placeholder: {self.sql}")
        opening, closing = [text.encode() for text in self._texts]
        width: int | None = None
        room = max_bytes - len(opening) - len(closing)
        statements: list[bytes] = []
        batch: list[bytes] = []
        size = 0
        for row in rows:
            width = len(row) if width is None else width
            if len(row) != width:
                raise TypeError(f"a row of {len(row)} values among rows of {width}: {self.sql}")
            text = _row(row).encode()
            if size + len(text) > room:
                if len(text) > room:
                    raise too_long("a row", len(text), room)
                statements.append(opening + b",".join(batch) + closing)
                batch = []
                size = 0
            batch.append(text)
            size += len(text) + 1
        if batch:
            statements.append(opening + b",".join(batch) + closing)
        return statements
