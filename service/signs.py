"""Signs of life of other nodes: how long ago each was, also when the clock was set back since.

A renewal bears the database's time. When its clock is set back, what was written before lies in the future: a node that
lives writes the new time soon, but one that has died meanwhile would live for as long as the clock was set back. So a
time that is ahead of ours counts as of when it was first seen here.
"""

from collections.abc import Iterable

from ..store.nodes import NodeRow


class Signs:
    """Look at all rows with `see`; ask `age` at any time."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        """By boot the time that a row bears, and when it counts as written."""

    def see(self, rows: Iterable[NodeRow], now: int) -> None:
        """These are all that there are."""
        self._seen = {row.boot: (row.renewed_at, min(now, self._at(row))) for row in rows}

    def age(self, row: NodeRow, now: int) -> int:
        """Milliseconds since it has renewed; 0 and less for what is new here."""
        return now - self._at(row)

    def _at(self, row: NodeRow) -> int:
        time, at = self._seen.get(row.boot, (None, row.renewed_at))
        return at if time == row.renewed_at else row.renewed_at
