"""The decoder alone, against an encoder written from the protocol's description."""

import struct
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarry.store.mysql import rows as module
from tarry.store.mysql.rows import Answer, ProtocolError, ServerError

INT, DOUBLE, DECIMAL, TEXT, BLOB = (8, 63, 0), (5, 63, 31), (246, 63, 0), (253, 45, 31), (252, 63, 31)
VALUES: dict[tuple[int, int, int], st.SearchStrategy[Any]] = {
    INT: st.integers(-(2**63), 2**64 - 1),
    DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    DECIMAL: st.integers(-(10**60), 10**60),
    TEXT: st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    BLOB: st.binary(max_size=300),
}


def length(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    for mark, size in ((b"\xfc", 2), (b"\xfd", 3)):
        if number < 1 << 8 * size:
            return mark + number.to_bytes(size, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def cell(value: Any) -> bytes:
    if value is None:
        return b"\xfb"
    text = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else repr(value).encode()
    return length(len(text)) + text


def packets(*payloads: bytes, first: int = 1) -> bytes:
    wire = b""
    number = first
    for payload in payloads:
        while True:
            part, payload = payload[: module.MAX_PAYLOAD], payload[module.MAX_PAYLOAD :]
            wire += len(part).to_bytes(3, "little") + bytes([number % 256]) + part
            number += 1
            if len(part) < module.MAX_PAYLOAD:
                break
    return wire


def column(kind: tuple[int, int, int]) -> bytes:
    type_, charset, decimals = kind
    names = b"".join(length(len(name)) + name for name in (b"def", b"", b"t", b"t", b"a", b"a"))
    return names + b"\x0c" + struct.pack("<HIBHB", charset, 99, type_, 0, decimals) + b"\0\0"


def end(deprecate_eof: bool, status: int = 2) -> bytes:
    if deprecate_eof:
        return b"\xfe\x00\x00" + struct.pack("<HH", status, 0)
    return b"\xfe" + struct.pack("<HH", 0, status)


def result(
    kinds: list[tuple[int, int, int]], rows: list[Any], deprecate_eof: bool, last: bytes | None = None, first: int = 1
) -> bytes:
    return packets(
        length(len(kinds)),
        *[column(kind) for kind in kinds],
        *([] if deprecate_eof else [end(False)]),
        *[b"".join(map(cell, row)) for row in rows],
        end(deprecate_eof) if last is None else last,
        first=first,
    )


def ok(affected: int, status: int = 2, last_insert_id: int = 0) -> bytes:
    return b"\x00" + length(affected) + length(last_insert_id) + struct.pack("<HH", status, 0)


def error(code: int, text: str) -> bytes:
    return b"\xff" + code.to_bytes(2, "little") + b"#HY000" + text.encode()


def feed(answer: Answer, wire: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    pieces = [wire[a:b] for a, b in pairwise(edges) if a < b]
    assert [answer.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=5))
    return kinds, draw(st.lists(st.tuples(*[st.none() | VALUES[kind] for kind in kinds]), max_size=20))


cuts = st.lists(st.integers(0, 10**6), max_size=30)


@given(table=tables(), deprecate_eof=st.booleans(), cuts=cuts, limit=st.sampled_from([0xFFFFFF, 90]))
def test_any_result_in_any_pieces(
    table: tuple[list[tuple[int, int, int]], list[tuple[Any, ...]]], deprecate_eof: bool, cuts: list[int], limit: int
) -> None:
    kinds, rows = table
    with pytest.MonkeyPatch.context() as patch:
        # A packet of 90 bytes stands in for one of 16 MB.
        patch.setattr(module, "MAX_PAYLOAD", limit)
        answer = Answer(deprecate_eof=deprecate_eof)
        feed(answer, result(kinds, rows, deprecate_eof), cuts)
    assert answer.rows == rows
    assert answer.columns == len(kinds)
    assert answer.error is None


@st.composite
def alike(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], list[tuple[Any, ...]]]:
    """Stretches of rows whose cells are as long as their neighbours', some long, some NULL; and others between them."""
    kinds = draw(st.lists(st.sampled_from([INT, TEXT, BLOB, DECIMAL]), min_size=1, max_size=4))
    rows: list[tuple[Any, ...]] = []
    for many in draw(st.lists(st.integers(1, 150), min_size=1, max_size=5)):
        digits = [draw(st.integers(0, 18)) for _ in kinds]
        sizes = [draw(st.sampled_from([0, 1, 9, 250, 251, 300, 70_000 if many < 40 else 400])) for _ in kinds]
        nulls = [draw(st.booleans()) and draw(st.booleans()) for _ in kinds]
        signs = [draw(st.sampled_from([1, 1, -1])) for _ in kinds]
        for number in range(many):
            row: list[Any] = []
            for kind, digit, size, null, sign in zip(kinds, digits, sizes, nulls, signs, strict=True):
                if null:
                    row.append(None)
                elif kind in (INT, DECIMAL):
                    row.append(sign * (10**digit + number % max(1, 9 * 10**digit)))
                else:
                    text = f"{number:09}"[:size].ljust(size, "x")
                    row.append(text if kind == TEXT else text.encode())
            rows.append(tuple(row))
    return kinds, rows


@settings(deadline=None)
@given(table=alike(), deprecate_eof=st.booleans(), cuts=st.lists(st.integers(0, 10**6), max_size=3))
def test_rows_that_are_alike(
    table: tuple[list[tuple[int, int, int]], list[tuple[Any, ...]]], deprecate_eof: bool, cuts: list[int]
) -> None:
    kinds, rows = table
    answer = Answer(deprecate_eof=deprecate_eof)
    feed(answer, result(kinds, rows, deprecate_eof), cuts)
    assert answer.rows == rows


def test_numbers_with_zeros_before_them() -> None:
    wire = result([INT, BLOB], [(b"%05d" % number, b"x") for number in range(100)], True)
    answer = Answer(deprecate_eof=True)
    assert answer.feed(wire)
    assert answer.rows == [(number, b"x") for number in range(100)]


def test_a_cell_of_numbers_is_one_number() -> None:
    """Nothing that a server sends becomes more cells than it sent."""
    wire = result([INT, BLOB], [(b"1,2,3", b"x")] * 100, True)
    with pytest.raises(ProtocolError):
        Answer(deprecate_eof=True).feed(wire)


@given(affected=st.integers(0, 2**40), cuts=cuts, sequence=st.integers(1, 5))
def test_ok(affected: int, cuts: list[int], sequence: int) -> None:
    answer = Answer(sequence=sequence)
    feed(answer, packets(ok(affected, last_insert_id=affected * 3), first=sequence), cuts)
    assert (answer.affected, answer.columns, answer.last_insert_id) == (affected, 0, affected * 3)


@pytest.mark.parametrize("deprecate_eof", [True, False])
@given(count=st.integers(0, 5), cuts=cuts)
def test_an_error_in_the_middle_of_a_result(deprecate_eof: bool, count: int, cuts: list[int]) -> None:
    answer = Answer(deprecate_eof=deprecate_eof)
    feed(answer, result([INT], [(1,)] * count, deprecate_eof, last=error(1317, "stopped")), cuts)
    assert answer.error == ServerError(1317, "stopped", unasked=False)


def test_an_error_without_a_state() -> None:
    answer = Answer()
    assert answer.feed(packets(b"\xff\x10\x04Too many connections"))
    assert answer.error == ServerError(1040, "Too many connections", unasked=False)


def test_what_the_server_says_unasked_is_told_apart() -> None:
    answer = Answer()
    assert answer.feed(packets(error(4031, "idle too long"), first=0))
    assert answer.error == ServerError(4031, "idle too long", unasked=True)


@pytest.mark.parametrize("size", [0xFFFFFF - 5, 0xFFFFFF - 4, 0xFFFFFF - 3, 17 * 2**20])
@pytest.mark.parametrize("deprecate_eof", [True, False])
def test_a_row_around_and_beyond_16_mb(size: int, deprecate_eof: bool) -> None:
    rows = [(b"a",), (b"x" * size,), (b"b",)]
    wire = result([BLOB], rows, deprecate_eof)
    answer = Answer(deprecate_eof=deprecate_eof)
    feed(answer, wire, list(range(0, len(wire), 1 << 16)))
    assert answer.rows == rows


def test_many_rows_wrap_the_packet_number() -> None:
    rows = [(number,) for number in range(1000)]
    answer = Answer()
    feed(answer, result([INT], rows, False), [])
    assert answer.rows == rows


@pytest.mark.parametrize(
    ("kind", "wire", "value"),
    [
        ((3, 63, 0), b"00042", 42),
        ((13, 63, 0), b"2026", 2026),
        ((16, 63, 0), b"\x01\x02", 258),
        ((246, 63, 2), b"1.50", Decimal("1.50")),
        ((4, 63, 31), b"1.5", 1.5),
        ((12, 63, 3), b"2026-11-21 00:00:00.000", "2026-11-21 00:00:00.000"),
        ((245, 63, 31), b'{"a": 1}', '{"a": 1}'),
        ((254, 63, 0), b"\xff\x00", b"\xff\x00"),
        ((254, 45, 0), "é".encode(), "é"),
        ((242, 63, 0), b"\x00\x00\x80?", b"\x00\x00\x80?"),
    ],
)
def test_types(kind: tuple[int, int, int], wire: bytes, value: Any) -> None:
    answer = Answer()
    feed(answer, result([kind], [(wire,)], False), [])
    assert answer.rows == [(value,)]
    assert type(answer.rows[0][0]) is type(value)


@pytest.mark.parametrize(
    "wire",
    [
        packets(ok(1)) + b"\x00",
        packets(ok(1), first=2),
        packets(ok(1), first=0),
        packets(b""),
        packets(b"\xfb/etc/passwd"),
        packets(ok(1, status=8)),
        packets(b"\x00"),
        packets(b"\x01", b"short"),
        packets(b"\x01", column(INT), b"\x01"),
        result([INT], [(b"one",)], False),
        result([TEXT], [(b"\xff",)], False),
        result([INT, INT], [(1,)], False),
        result([INT], [(1, 2)], False),
        packets(b"\x01", column(INT), end(False), b"\x05" + b"1", b"\x01\x32"),
        packets(b"\x01", column(INT), end(False), b"", b"\x01\x32"),
        packets(b"\x01", column(BLOB), end(False), b"\xfd\xff\xff"),
    ],
)
def test_nonsense_is_an_error_and_never_a_result(wire: bytes) -> None:
    with pytest.raises(ProtocolError):
        Answer().feed(wire)


@given(wire=st.binary(max_size=200))
def test_noise_is_an_error_or_waits_for_more(wire: bytes) -> None:
    with suppress(ProtocolError):
        Answer().feed(wire)
