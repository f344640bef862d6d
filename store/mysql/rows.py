"""Decodes the answer to one statement: bytes in, rows out. Pure: only `wire` reads the socket.

The text protocol, as MySQL 8+ and MariaDB 10.6+ use it with the capabilities that `wire` asks for. An answer is

    OK | ERR | column count, column definitions, [EOF,] rows, (EOF or OK) | ERR

in packets of a 3-byte length, a sequence number and the payload; a payload of 16 MB - 1 or more continues in the next
packet. Statements that were sent as one are answered one after the other; each answer says whether another follows, and
the sequence numbers go on. After an ERR nothing follows.

Python values by column type, the same for both servers:

    integers, YEAR, BIT      int                    CHAR, TEXT, ENUM, SET, JSON           str
    FLOAT, DOUBLE            float                  BINARY, BLOB, GEOMETRY, VECTOR        bytes
    DECIMAL (SUM of ints)    int, or Decimal if it has a fraction
    DATE, TIME, DATETIME     str, as the server writes it          NULL                   None
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import repeat
from typing import Any

import attrs
import msgspec

from .alike import FEWEST, Column, read_alike

Row = tuple[Any, ...]

HEADER = 4
MAX_PAYLOAD = 0xFFFFFF
_LENGTH = 0xFFFFFF
_REST = 16
"""How many rows are decoded one by one after rows turned out not to be alike."""
_PEEK = HEADER + 1
"""A header and the byte that distinguishes a row from the end; in an answer only a continuation packet is shorter."""

_OK, _LOCAL_FILE, _END, _ERR = 0x00, 0xFB, 0xFE, 0xFF
_NULL = 251
_MORE_RESULTS = 0x0008
_MORE_THAN_ONE = "more than one result: the statement calls a procedure"
_BINARY = 63

_length_and_number = struct.Struct("<I").unpack_from
_definition = struct.Struct("<xHIBHB").unpack_from
_two_shorts = struct.Struct("<HH").unpack_from
_integers = msgspec.json.Decoder(list[int]).decode


class ProtocolError(Exception):
    """The bytes are not a valid answer to what was asked. The connection cannot be used any more."""


@attrs.frozen
class ServerError:
    """The contents of an ERR packet."""

    code: int
    message: str
    unasked: bool
    """It is not an answer: the server sent it by itself before it hung up, and has not read the statement."""


class Answer:
    """Takes bytes from the socket, in pieces of any size, until `feed` returns True: then the answer is complete.

    Then either `error` is set, or `rows` for a statement that returns rows (`columns` > 0), or `affected`.
    """

    def __init__(
        self, *, sequence: int = 1, deprecate_eof: bool = False, followed: bool = False, more: bool = False
    ) -> None:
        """`followed`: other bytes come after the answer. `more`: these are the answer to a statement that was sent
        together with this one."""
        self.rows: list[Row] = []
        self.columns = 0
        self.affected = 0
        self.last_insert_id = 0
        self.error: ServerError | None = None
        self._sequence = sequence
        self._deprecate_eof = deprecate_eof
        self._followed = followed or more
        self._more = more
        self._unasked = False
        # Takes the next packet; None when the answer is complete.
        self._expect: Callable[[bytes], None] | None = self._first
        self._converters: list[Callable[[Any], Any] | None] = []
        # Pieces that are not decoded yet, their length, and the length at which decoding can go on.
        self._pieces: list[bytes] = []
        self._held = 0
        self._wanted = HEADER
        # The 16 MB packets of a payload whose last packet is still to come.
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> bool:
        """Takes bytes; returns True when the answer is complete. Raises ProtocolError for invalid bytes, and for bytes
        after the end of the last answer."""
        try:
            return self._take_ok(data) or self._feed(data)
        except (IndexError, ValueError, ArithmeticError, struct.error) as error:
            raise ProtocolError("an answer that cannot be read") from error

    def take_rest(self) -> bytes:
        """Returns the bytes after an answer that is `followed` by another, and forgets them."""
        rest, self._pieces, self._held = b"".join(self._pieces), [], 0
        return rest

    def _take_ok(self, data: bytes) -> bool:
        """Takes an OK that is complete in the first piece, as the answers to most writes are; False if it is not."""
        if self._pieces or len(data) <= HEADER or data[HEADER] != _OK or data[HEADER - 1] != self._sequence:
            return False
        length = _length_and_number(data)[0] & _LENGTH
        end = HEADER + length
        if length == MAX_PAYLOAD or end > len(data):
            return False
        self._first(data[HEADER:end])
        self._keep(data[end:])
        return True

    def _keep(self, rest: bytes) -> None:
        self._pieces = [rest]
        self._held = len(rest)
        if self._expect is None and rest and not self._followed:
            raise ProtocolError(f"{len(rest)} bytes after the answer")

    def _feed(self, data: bytes) -> bool:
        self._pieces.append(data)
        self._held += len(data)
        if self._held < self._wanted:
            return False
        # Joined only when a packet is complete, so that a long one is not copied again with each piece.
        data = b"".join(self._pieces) if len(self._pieces) > 1 else data
        position = 0
        while self._expect is not None:
            if self._expect == self._row and not self._parts:
                position = self._plain_rows(data, position)
            start = position + HEADER
            if start > len(data):
                self._wanted = HEADER
                break
            length = _length_and_number(data, position)[0] & _LENGTH
            if start + length > len(data):
                self._wanted = HEADER + length
                break
            if self._expect == self._first and not self._parts:
                self._check_number(data[position + 3], data[start])
            position = start + length
            self._parts.append(data[start:position])
            if length < MAX_PAYLOAD:
                payload = b"".join(self._parts)
                self._parts.clear()
                self._take(payload)
        self._keep(data[position:])
        return self._expect is None

    def _check_number(self, number: int, kind: int) -> None:
        # MySQL (idle too long) and MariaDB (killed, shutting down) say why they hang up in a packet numbered 0.
        if number != self._sequence:
            if number != 0 or kind != _ERR:
                raise ProtocolError(f"packet {number} where {self._sequence} was due")
            self._unasked = True

    def _take(self, payload: bytes) -> None:
        if payload[0] == _ERR:
            self.error = read_error(payload, self._unasked)
            self._expect = None
        elif self._expect is not None:
            self._expect(payload)

    def _first(self, payload: bytes) -> None:
        if payload[0] == _OK:
            self.affected, position = _read_length(payload, 1)
            self.last_insert_id, position = _read_length(payload, position)
            self._end(_two_shorts(payload, position)[0])
        elif payload[0] == _LOCAL_FILE:
            raise ProtocolError("the server asks for a file of this machine")
        else:
            self.columns, _ = _read_length(payload, 0)
            self._expect = self._column

    def _column(self, payload: bytes) -> None:
        self._converters.append(_converter_of(payload))
        if len(self._converters) == self.columns:
            self._expect = self._row if self._deprecate_eof else self._end_of_columns

    def _end_of_columns(self, payload: bytes) -> None:
        if payload[0] != _END or len(payload) != 5:
            raise ProtocolError(f"no end of the columns: {payload[:32]!r}")
        self._expect = self._row

    def _row(self, payload: bytes) -> None:
        """Takes a row of 16 MB or more, or the end. All other rows go through `_plain_rows`."""
        if payload[0] == _END and len(payload) < (MAX_PAYLOAD if self._deprecate_eof else 9):
            if self._deprecate_eof:
                _, position = _read_length(payload, 1)
                _, position = _read_length(payload, position)
                self._end(_two_shorts(payload, position)[0])
            else:
                self._end(_two_shorts(payload, 1)[1])
            return
        cells: list[bytes | None] = []
        position = 0
        while position < len(payload):
            position = _read_cell(payload, position, cells)
        if position != len(payload) or len(cells) != self.columns:
            raise ProtocolError(f"a row of {len(cells)} cells for {self.columns} columns")
        self._convert(cells, nulls=None in cells)

    def _plain_rows(self, data: bytes, position: int) -> int:
        """Decodes the complete rows from `position` on that are one packet each; returns where anything else begins.

        The inner loop of every read. It only slices cells: values are made column by column, with the loops in C. Rows
        with the layout of the row before them are not even sliced here (see `alike`).
        """
        cells: list[bytes | None] = []
        add = cells.append
        held = len(data)
        columns = self.columns
        expected = 0
        nulls = False
        rest = 0
        while position + _PEEK <= held:
            at = position + HEADER
            length = _length_and_number(data, position)[0] & _LENGTH
            end = at + length
            if end > held or data[at] >= _END or length == MAX_PAYLOAD:
                break
            while at < end:
                size = data[at]
                at += 1
                if size < _NULL:
                    add(data[at : at + size])
                    at += size
                elif size == _NULL:
                    add(None)
                    nulls = True
                else:
                    at = _read_cell(data, at - 1, cells)
            expected += columns
            if at != end or len(cells) != expected:
                raise ProtocolError(f"a row that does not fill its packet with {columns} cells")
            model, position = position, end
            if rest:
                rest -= 1
            elif end + FEWEST * (end - model) <= held and data[model : model + 3] == data[end : end + 3]:
                many, alike = read_alike(data, model, end)
                if many < FEWEST:
                    rest = _REST
                    continue
                self._convert(cells, nulls=nulls)
                self._add([_same(many, convert, some) for convert, some in zip(self._converters, alike, strict=True)])
                position += many * (end - model)
                cells.clear()
                expected = 0
                nulls = False
        self._convert(cells, nulls=nulls)
        return position

    def _convert(self, cells: list[bytes | None], *, nulls: bool) -> None:
        if not cells:
            return
        columns: list[Iterable[Any]] = []
        for index, convert in enumerate(self._converters):
            column: Any = cells[index :: self.columns]
            if nulls and convert is not None:
                columns.append([None if cell is None else convert(cell) for cell in column])
            else:
                columns.append(_values(convert, column))
        self._add(columns)

    def _add(self, columns: Sequence[Iterable[Any]]) -> None:
        self.rows.extend(zip(*columns, strict=True))

    def _end(self, status: int) -> None:
        if bool(status & _MORE_RESULTS) != self._more:
            raise ProtocolError("fewer results than statements" if self._more else _MORE_THAN_ONE)
        self._expect = None


def _same(many: int, convert: Callable[[Any], Any] | None, column: Column) -> Iterable[Any]:
    return repeat(None, many) if column is None else _values(convert, column)


def _values(convert: Callable[[Any], Any] | None, column: Sequence[bytes]) -> Iterable[Any]:
    """The values of a column without NULL."""
    if convert is int:
        try:
            return _integers(b"[%b]" % b",".join(column))  # takes a quarter of the time of converting one by one
        except msgspec.DecodeError:  # ZEROFILL
            pass
    return column if convert is None else map(convert, column)


def _read_length(data: bytes, position: int) -> tuple[int, int]:
    """A length-encoded integer, and where it ends."""
    first = data[position]
    if first < _NULL:
        return first, position + 1
    if first in (_NULL, _ERR):
        raise ValueError(f"{first} is no length")
    end = position + 1 + (2, 3, 8)[first - 252]
    if end > len(data):
        raise IndexError(end)
    return int.from_bytes(data[position + 1 : end], "little"), end


def _read_cell(data: bytes, position: int, cells: list[bytes | None]) -> int:
    if data[position] == _NULL:
        cells.append(None)
        return position + 1
    length, position = _read_length(data, position)
    cells.append(data[position : position + length])
    return position + length


def read_error(payload: bytes, unasked: bool = False) -> ServerError:
    """Reads an ERR packet."""
    # A server that refuses a connection before the handshake leaves the SQL state out.
    text = payload[9:] if payload[3:4] == b"#" else payload[3:]
    return ServerError(int.from_bytes(payload[1:3], "little"), text.decode("utf-8", "replace"), unasked)


@lru_cache(maxsize=4096)
def _converter_of(definition: bytes) -> Callable[[Any], Any] | None:
    """The converter for a column, by its definition; cached, since there are few definitions in Tarry's queries."""
    position = 0
    for _ in ("catalog", "schema", "table", "original table", "name", "original name"):
        length, position = _read_length(definition, position)
        position += length
    charset, _, kind, _, decimals = _definition(definition, position)
    return _converter(kind, charset, decimals)


_INTEGERS = frozenset({1, 2, 3, 8, 9, 13})
_FLOATS = frozenset({4, 5})
_DECIMALS = frozenset({0, 246})
_BIT, _JSON = 16, 245
_STRINGS = frozenset({15, 242, 247, 248, 249, 250, 251, 252, 253, 254, 255})


def _converter(kind: int, charset: int, decimals: int) -> Callable[[Any], Any] | None:
    """The converter for a type; None leaves the bytes as they are."""
    if kind in _INTEGERS or (kind in _DECIMALS and decimals == 0):
        return int
    if kind in _FLOATS:
        return float
    if kind in _DECIMALS:
        return lambda cell: Decimal(cell.decode())
    if kind == _BIT:
        return lambda cell: int.from_bytes(cell, "big")
    if kind in _STRINGS and charset == _BINARY:
        return None
    # Dates carry the binary character set too, and so does MySQL's JSON: both are text.
    return bytes.decode
