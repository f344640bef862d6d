"""Silence of other nodes: for how long each has been seen not to renew.

A renewal bears the database's time, by the clock of the node that wrote it, and when that clock is set each node
follows in its own time. So no node is judged by the time in its row: a node that lives changes it, and how long it has
not changed is measured here, by a clock that is never set.
"""

from collections.abc import Iterable

from ....store.nodes import NodeRow

_TOLD = 2_500
"""Milliseconds of silence that one look can add at most. While nobody looked, nobody was heard; and where the database
was away, or this node stood still, perhaps no node could renew either."""


class Silence:
    """`see` all rows every other second; ask `of` at any time."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        """By boot: the time in its row, and for how many milliseconds it has been seen unchanged."""
        self._looked_at = 0

    def see(self, rows: Iterable[NodeRow], at: int) -> None:
        """Takes all rows that there are, at this time of a monotonic clock in milliseconds."""
        told, self._looked_at = min(at - self._looked_at, _TOLD), at
        before, self._seen = self._seen, {}
        for row in rows:
            time, silence = before.get(row.boot, (None, 0))
            self._seen[row.boot] = row.renewed_at, silence + told if time == row.renewed_at else 0

    def of(self, row: NodeRow) -> int:
        """Milliseconds for which it has not renewed, as of the last look; 0 when it has since, or is new here."""
        time, silence = self._seen.get(row.boot, (None, 0))
        return silence if time == row.renewed_at else 0
