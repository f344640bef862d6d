"""Pages of a queue: how many messages a claim's reader asks for at a time."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
import trio

from tarry.store.content import Content
from tarry.store.ports import Asked, Transaction
from tarry.store.records import Queue
from tarry.store.stream.stretches import PAGE, Message, Stretch


class OfOneQueue:
    """Answers for messages that lie without a hole, and notes the pages."""

    def __init__(self, size: int, expired: frozenset[int] = frozenset()) -> None:
        self._size = size
        self._expired = expired
        self.limits: list[int] = []

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        (asked,) = queries
        _, position, end, limit = cast("tuple[int, int, int, int]", asked.values)
        self.limits.append(limit)
        asked.rows = [self._message(offset) for offset in range(position, min(end, position + limit))]

    def _message(self, offset: int) -> Message:
        expires_at = 1 if offset in self._expired else None
        return Message(offset, offset, Content(body=b"x" * self._size, expires_at=expires_at), 0)


def take(rows: OfOneQueue, many: int, *, wanted: int | None) -> list[int]:
    """The offsets of so many, taken a hundred at a time."""
    stretch = Stretch(cast("Transaction", rows), Queue(1, 0), 0, 100_000, min(PAGE, many), 2, wanted=wanted)
    taken: list[int] = []

    async def take_all() -> None:
        while len(taken) < many:
            until = min(stretch.position + 100, stretch.position + many - len(taken))
            taken.extend(offset for offset, _ in await stretch.take(until))

    trio.run(take_all)
    return taken


@pytest.mark.parametrize(
    ("size", "limits"),
    [(200, [256, 344]), (20_000, [256, 344]), (30_000, [256, 279, 65]), (256 << 10, [256, 256, 88])],
)
def test_what_is_still_wanted_is_read_at_once_if_it_is_small(size: int, limits: list[int]) -> None:
    """No page is likely to have more than eight million bytes, unless its 256 messages have."""
    rows = OfOneQueue(size)
    assert take(rows, 600, wanted=600) == list(range(600))
    assert rows.limits == limits


def test_no_page_has_more_than_512() -> None:
    rows = OfOneQueue(1)
    assert take(rows, 2000, wanted=2000) == list(range(2000))
    assert rows.limits == [256, 512, 512, 512, 208]


def test_who_may_want_others_reads_whole_pages() -> None:
    rows = OfOneQueue(200)
    take(rows, 300, wanted=None)
    assert rows.limits == [256, 256]


def test_for_what_was_past_its_time_a_few_more_are_read() -> None:
    rows = OfOneQueue(200, frozenset({3}))
    assert take(rows, 256, wanted=256) == [0, 1, 2, *range(4, 257)]
    assert rows.limits == [256, 16]
