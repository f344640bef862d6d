"""Decodes many rows of equal layout at once, in C: rows whose corresponding cells have equal lengths.

Ids have as many digits as their neighbours, and so do times, so most rows of a long answer are alike. Pure, as `rows`,
which uses this for rows that need not be read one by one.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache

FEWEST = 8
"""For fewer rows this costs more than it saves."""
_TOGETHER = 64
"""How many rows are compared at a time; comparing rows that turn out not to be alike is in vain."""

_NULL = 251
_SIZES = {252: 2, 253: 3, 254: 8}
"""How many bytes the length of a long cell has, by the byte before them."""

Column = Sequence[bytes] | None
"""The cells of a column; None where all are NULL."""


def read_alike(data: bytes, model: int, position: int) -> tuple[int, list[Column]]:
    """How many rows from `position` on have the layout of the row before them, which begins at `model`; and the columns
    of these rows."""
    stride = position - model
    marks, form, nulls = _shape(data, model, position)
    at, many = position, _TOGETHER
    while many == _TOGETHER:
        many = min(many, (len(data) - at) // stride)
        for mark in marks:
            lengths = data[at + mark : at + many * stride : stride]
            many -= len(lengths.lstrip(data[model + mark : model + mark + 1]))
        at += many * stride
    cells = iter(zip(*_struct(form).iter_unpack(memoryview(data)[position:at]), strict=True))
    return (at - position) // stride, [None if null else next(cells, ()) for null in nulls]


def _shape(data: bytes, model: int, end: int) -> tuple[list[int], str, list[bool]]:
    """The layout of a row: which of its bytes contain lengths, of the row and of its cells; the `struct` format of its
    cells; and which of them are NULL."""
    marks, form, nulls = [0, 1, 2], "<4x", list[bool]()
    at = model + 4
    while at < end:
        first = data[at]
        size, told = first, 1
        if first > _NULL:
            told += _SIZES[first]
            size = int.from_bytes(data[at + 1 : at + told], "little")
        nulls.append(first == _NULL)
        marks += range(at - model, at - model + told)
        form += f"{told}x" if first == _NULL else f"{told}x{size}s"
        at += told if first == _NULL else told + size
    return marks, form, nulls


@lru_cache(maxsize=256)
def _struct(form: str) -> struct.Struct:
    return struct.Struct(form)
