"""The horizon: how much of the future the wheel holds, and when to read the next page of it.

The rows of the store are the truth; the wheel is loaded with those due before `loaded_until`, page by page, as time
moves. These steps keep a row from being lost between a page and a publish:

1. `page` moves `loaded_until` first and returns the range to be read.
2. The caller reads the rows of that range after that.
3. A publish asks `covers(due)` after its own commit, and adds its row to the wheel if so.

A publish that saw the old `loaded_until` had committed before it moved, so the page that is read afterwards has its
row. A publish that saw the new one adds its row itself, and the page may bring the row again: twice is harmless, since
the second promotion finds nothing; never is not possible.

At the start the range begins at `now`. Rows due before that are overdue; recovery reads them, oldest first.
"""

from __future__ import annotations

DEFAULT_LENGTH_MS = 10_800_000  # 3 h: more than the longest rung, so that retries on the default ladder are always in
DEFAULT_STEP_MS = 300_000


class Horizon:
    """How far the wheel is loaded. It moves only through `page`, and only forward."""

    __slots__ = ("_length", "_loaded_until", "_step")

    _length: int
    _step: int
    # Rows due before this are in the wheel, or in a page that was handed out to be read.
    _loaded_until: int

    def __init__(self, now: int, length: int = DEFAULT_LENGTH_MS, step: int = DEFAULT_STEP_MS) -> None:
        if not 0 < step <= length:
            raise ValueError(f"step {step} ms is not within 1 and the length of the horizon, {length} ms")
        self._length = length
        self._step = step
        self._loaded_until = now

    @property
    def loaded_until(self) -> int:
        return self._loaded_until

    def covers(self, due: int) -> bool:
        """Whether the wheel has to hold a row that is due then. Ask it after the row's commit."""
        return due < self._loaded_until

    def page(self, now: int) -> tuple[int, int] | None:
        """The range of due times [from, until) to read now, or None if it is too early. It counts as loaded from here
        on.

        The first page is a whole horizon; later ones are a step each, or more after a pause.
        """
        if now < self.next_page_at():
            return None
        start, self._loaded_until = self._loaded_until, now + self._length
        return start, self._loaded_until

    def next_page_at(self) -> int:
        """The time from which on `page` returns a range."""
        return self._loaded_until + self._step - self._length

    def __repr__(self) -> str:
        return f"<Horizon loaded_until={self._loaded_until}>"
