"""Silence of other nodes: for how long each has been seen not to renew.

A renewal bears the database's time, by the clock of the node that wrote it, and when that clock is set each node
follows in its own time. So nobody is judged by the time that a row bears: who lives changes it, and for how long it
has not is measured here, by a clock that is never set.
"""

from collections.abc import Iterable

from ....store.nodes import NodeRow

_TOLD = 2_500
"""Milliseconds of silence that one look can tell of. Nobody was heard while nobody looked; and where the database was
away, or this node stood still, perhaps none could renew either."""


class Silence:
    """Look at all rows with `see`, every other second; ask `of` at any time."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        """By boot the time that a row bears, and for how many milliseconds it has been seen so."""
        self._looked_at = 0

    def see(self, rows: Iterable[NodeRow], at: int) -> None:
        """These are all that there are, at this time of a monotonic clock: milliseconds."""
        told, self._looked_at = min(at - self._looked_at, _TOLD), at
        before, self._seen = self._seen, {}
        for row in rows:
            time, silence = before.get(row.boot, (None, 0))
            self._seen[row.boot] = row.renewed_at, silence + told if time == row.renewed_at else 0

    def of(self, row: NodeRow) -> int:
        """Milliseconds for which it has not renewed, as of the last look; 0 when it has since, or is new here."""
        time, silence = self._seen.get(row.boot, (None, 0))
        return silence if time == row.renewed_at else 0
