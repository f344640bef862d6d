"""Entries of the delivery log, and open claims: from a row of the store per claim to a row per message.

A claim keeps a byte per message for what became of it and 8 bytes, big-endian, for when. For messages of a retry queue
the returns are read, too: they tell where the message is, and the attempts before.
"""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence

from ..arrow import Array, Table, pa, pc
from ..schemas import OUTCOMES
from .reads import Fetch
from .shapes import SHAPES
from .spans import Span

_GAP = 1_000
_PAGE = 10_000
"""Most offsets of a statement."""
_RETURN = ("message_queue_id", "message_offset", "attempt", "history")


def exploded(fetch: Fetch, span: Span, page: Table) -> Table:
    """The messages of these claims, in order; offsets are those of the queue they were claimed from."""
    page = page.combine_chunks()
    sizes = page["size"].cast(pa.int64()).to_pylist()
    firsts = page["first"].cast(pa.int64()).to_pylist()
    outcomes = b"".join(_fitted(page["outcome"].to_pylist(), sizes, 1))
    parents = pa.array([parent for parent, size in enumerate(sizes) for _ in range(size)], pa.int64())
    offsets = pa.array([o for first, size in zip(firsts, sizes, strict=True) for o in range(first, first + size)])
    settled = array("q", b"".join(_fitted(page["settled_at"].to_pylist(), sizes, 8)))
    if sys.byteorder == "little":
        settled.byteswap()
    times = pa.array(settled, pa.int64())
    words = [OUTCOMES.get(code, f"outcome {code}") for code in range(256)]
    codes = pa.Array.from_buffers(pa.uint8(), len(outcomes), [None, pa.py_buffer(outcomes)])
    columns: dict[str, Array] = {
        "number": page["number"].take(parents),
        "claim": page["claim"].take(parents),
        "client": page["client"].take(parents),
        "offset": offsets.cast(pa.int64()),
        "outcome": pa.array(words).take(codes),
        "claimed_at": page["claimed_at"].take(parents),
        # For an open message it says whether it is begun.
        "settled_at": pc.if_else(pc.or_(pc.equal(times, 0), pc.equal(codes, 0)), None, times),
        "ended_at": page["ended_at"].take(parents) if "ended_at" in page.column_names else pa.nulls(len(offsets)),
    }
    if span.place["back"]:
        columns |= _returned(fetch, span, offsets, firsts, sizes)
    else:
        columns["message_queue_id"] = pa.repeat(pa.scalar(span.place["queue_id"], pa.int32()), len(offsets))
        columns["message_offset"] = columns["offset"]
        columns["attempt"] = pa.repeat(pa.scalar(1, pa.int32()), len(offsets))
        columns["history"] = pa.nulls(len(offsets), pa.string())
    return pa.table(columns)


def _fitted(values: Iterable[bytes], sizes: Sequence[int], width: int) -> Iterator[bytes]:
    for value, size in zip(values, sizes, strict=True):
        yield value[: size * width].ljust(size * width, b"\0")


def _returned(
    fetch: Fetch, span: Span, offsets: Array, firsts: Sequence[int], sizes: Sequence[int]
) -> dict[str, Array]:
    of_queue = [f"queue_id = {span.place['queue_id']}"]
    pages = [
        fetch(SHAPES["redelivery"].select(("offset", *_RETURN), of_queue, first, last))
        for first, last in _runs(firsts, sizes)
    ]
    pages = [page for page in pages if page.num_rows]
    if not pages:
        return {name: pa.nulls(len(offsets)) for name in _RETURN}
    found = pa.concat_tables(pages, promote_options="permissive").combine_chunks()
    places = pc.index_in(offsets.cast(pa.int64()), found["offset"].cast(pa.int64()))
    return {name: found[name].take(places) for name in _RETURN}


def _runs(firsts: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The offsets of these claims as ranges, with near ones joined, none of them long."""
    begin = end = None
    for first, size in sorted(zip(firsts, sizes, strict=True)):
        if begin is None or end is None:
            begin, end = first, first + size
        elif first <= end + _GAP and first + size - begin <= _PAGE:
            end = max(end, first + size)
        else:
            yield begin, end
            begin, end = max(first, end), max(first + size, end)
    if begin is not None and end is not None and begin < end:
        yield begin, end
