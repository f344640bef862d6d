"""Lines out of pieces: what ends in a piece comes of it, and what is too long is not kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.http.lines import Line, Lines

LIMIT = 5


def cut(*pieces: bytes) -> list[Line]:
    lines = Lines(LIMIT)
    found = [line for piece in pieces for line in lines.feed(piece)]
    assert lines.kept <= LIMIT
    return [*found, *lines.end()]


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b""], []),
        ([b"a\nb\n"], [(1, b"a"), (2, b"b")]),
        ([b"a\nb"], [(1, b"a"), (2, b"b")]),
        ([b"a", b"b", b"\n", b"\nc"], [(1, b"ab"), (3, b"c")]),
        ([b"\n \r\n\n{}\r\n"], [(4, b"{}\r")]),
        ([b"12345\n123456\n1\n"], [(1, b"12345"), (2, None), (3, b"1")]),
        ([b"123", b"456", b"7" * 99, b"\n1"], [(1, None), (2, b"1")]),
        ([b"123", b"456"], [(1, None)]),
        ([b"1\n123456"], [(1, b"1"), (2, None)]),
    ],
)
def test_lines(pieces: list[bytes], lines: list[Line]) -> None:
    assert cut(*pieces) == lines


@given(st.lists(st.lists(st.sampled_from([b"a", b"\n", b" ", b"bcd", b"efghij"]), max_size=6).map(b"".join)))
def test_cuts_do_not_matter(pieces: list[bytes]) -> None:
    whole = b"".join(pieces).split(b"\n")
    expected = [
        (number, text if len(text) <= LIMIT else None)
        for number, text in enumerate(whole, 1)
        if len(text) > LIMIT or text.strip()
    ]
    assert cut(*pieces) == expected
