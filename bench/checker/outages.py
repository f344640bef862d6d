"""Outages: the times when something was down, which do not count as lateness."""

from attrs import define, field

from .event import Event


@define
class Outages:
    """The times from a fault until everything that it hit was back; overlapping ones are merged."""

    windows: list[tuple[float, float]] = field(factory=list[tuple[float, float]])
    """Begin and end, in milliseconds of the wall clock."""
    _open: int = 0
    _since: float = 0

    def add(self, event: Event) -> None:
        if event.phase == "invoke":
            if not self._open:
                self._since = event.wall_ms
            self._open += 1
        elif event.phase == "ok" and self._open:
            self._open -= 1
            if not self._open:
                self.windows.append((self._since, event.wall_ms))

    def within(self, begin: float, end: float) -> float:
        """How many milliseconds of this time were outage."""
        return sum(max(0, min(end, until) - max(begin, since)) for since, until in self.windows)
