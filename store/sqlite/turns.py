"""Turns: whose transaction is next, where there is one writer and work of two kinds waits.

Light work goes first, and heavy work may be asked to end early for it. But each kind has half of the time, if it wants
that: when light work is ahead by more than `_AHEAD`, heavy work is not disturbed until it has caught up.
"""

_AHEAD = 0.02
"""Seconds: less than what a thousand due messages take."""


class Turns:
    """Keeps account of the seconds that transactions took."""

    def __init__(self) -> None:
        self._ahead = 0.0

    @property
    def light_first(self) -> bool:
        """Whether light work goes before heavy work that waits, too."""
        return self._ahead < _AHEAD

    def light(self, seconds: float) -> None:
        """Light work took so long while heavy work waited. One that took very long is not made up for in full, or who
        waited for it would wait as long once more."""
        self._ahead = min(self._ahead + seconds, 2 * _AHEAD)

    def heavy(self, seconds: float) -> None:
        """Heavy work took so long."""
        self._ahead = max(0.0, self._ahead - seconds)
