"""When something was down: for so long nobody can be late."""

from attrs import define, field

from .event import Event


@define
class Outages:
    """The times from when a fault was done until all that it hit was back; those that overlap are one."""

    windows: list[tuple[float, float]] = field(factory=list[tuple[float, float]])
    """Wall milliseconds."""
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
        """How much of this stretch was outage, milliseconds."""
        return sum(max(0, min(end, until) - max(begin, since)) for since, until in self.windows)
