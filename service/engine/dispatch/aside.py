"""Aside: entries that are due but not pending any more, since something stands in their way."""

from attrs import frozen

from ..state.spoilt_rows import SpoiltRows
from .guards import Guards
from .held import Held


@frozen
class Aside:
    """Wheel entries that are held, that wait for a guard, or that are spoilt."""

    held: Held
    guards: Guards
    spoilt: SpoiltRows

    def __contains__(self, entry: object) -> bool:
        return entry in self.held or entry in self.guards or entry in self.spoilt
