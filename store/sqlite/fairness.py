"""Fairness of the one writer: decides whether light or heavy work gets the next transaction.

Light work goes first, and heavy work may be asked to end early for it. But each kind gets half of the time if it needs
it: when light work is ahead by more than `_AHEAD`, heavy work is not disturbed until it has caught up.
"""

_AHEAD = 0.02
"""Seconds: less than the promotion of a thousand due messages takes."""


class Fairness:
    """Counts the seconds that transactions of each kind took."""

    def __init__(self) -> None:
        self._ahead = 0.0

    @property
    def light_first(self) -> bool:
        """Whether light work goes first when heavy work waits, too."""
        return self._ahead < _AHEAD

    def light(self, seconds: float) -> None:
        """Counts light work that ran while heavy work waited. A very long one is not made up for in full, or else light
        work that waited for it would wait as long again."""
        self._ahead = min(self._ahead + seconds, 2 * _AHEAD)

    def heavy(self, seconds: float) -> None:
        """Counts heavy work."""
        self._ahead = max(0.0, self._ahead - seconds)
