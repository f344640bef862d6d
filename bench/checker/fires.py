"""Checks schedules: each fire time fires once and not early, and none is skipped.

The messages of a schedule are checked like all others: that each came once, unchanged, and to its end.
"""

from collections.abc import Iterator
from itertools import pairwise

from attrs import define, field

from .clocks import Clocks
from .event import Event
from .setup import Setup
from .violation import Violation


@define
class Fires:
    """The fire times that schedules reported at the end. Times are of the store's clock."""

    setup: Setup
    clocks: Clocks
    made: dict[str, Event] = field(factory=dict[str, Event])
    paused: dict[str, Event] = field(factory=dict[str, Event])
    of: dict[str, list[Event]] = field(factory=dict[str, list[Event]])
    """Fires by schedule."""

    def add(self, event: Event) -> None:
        """Takes an event of a schedule."""
        name = event.facts["schedule"]
        if event.op == "fire":
            self.of.setdefault(name, []).append(event)
        elif event.reason == "paused":
            self.paused[name] = event
        else:
            self.made[name] = event

    def violations(self) -> Iterator[Violation]:
        for name, made in self.made.items():
            fires = sorted(self.of.get(name, ()), key=lambda fire: fire.due_ms)
            since, every = made.facts["since"], made.facts["every"]
            for fire in fires:
                if fire.due_ms < since or (fire.due_ms - since) % every:
                    yield Violation("fire", f"{name} has fired at {fire.due_ms}, which is no time of it", [made, fire])
                if fire.facts["at"] < fire.due_ms:
                    early = fire.due_ms - fire.facts["at"]
                    yield Violation("early", f"{name} has fired {early} ms before its time", [made, fire])
            for before, after in pairwise(fires):
                if after.due_ms == before.due_ms:
                    yield Violation("fire", f"{name} has fired twice for {after.due_ms}", [before, after])
                elif after.due_ms > (due := _next(before, since, every)):
                    yield Violation("fire", f"{name} has passed by its fire time {due}", [made, before, after])
            yield from self._standing(name, made, fires)

    def _standing(self, name: str, made: Event, fires: list[Event]) -> Iterator[Violation]:
        """Checks that the schedule was still firing when it was paused."""
        if name not in self.paused:
            return
        due = _next(fires[-1], made.facts["since"], made.facts["every"]) if fires else made.facts["since"]
        late = self.clocks.least(self.paused[name].wall_ms) - due
        if late > self.setup.late_ms:
            events = [made, *fires[-1:], self.paused[name]]
            yield Violation("fire", f"{name} has not fired for {late / 1000:.0f} s when it was paused", events)


def _next(fire: Event, since: int, every: int) -> int:
    """The fire time after this one; a fire that was handled late may stand for all that had passed by then."""
    last = max(fire.due_ms, int(fire.facts["at"]))
    return since + ((last - since) // every + 1) * every
