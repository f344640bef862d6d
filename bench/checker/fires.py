"""Schedules: each fire time has its turn, once and not before it is there, and none is passed by.

What a schedule has sent is a message like any other, and judged as such: that it came once, whole, and to its end.
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
    """What schedules tell of their fire times in the end. Times are of the store's clock."""

    setup: Setup
    clocks: Clocks
    made: dict[str, Event] = field(factory=dict[str, Event])
    paused: dict[str, Event] = field(factory=dict[str, Event])
    of: dict[str, list[Event]] = field(factory=dict[str, list[Event]])
    """By schedule."""

    def add(self, event: Event) -> None:
        """An event of a schedule."""
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
        """It was still firing when it was paused."""
        if name not in self.paused:
            return
        due = _next(fires[-1], made.facts["since"], made.facts["every"]) if fires else made.facts["since"]
        late = self.clocks.least(self.paused[name].wall_ms) - due
        if late > self.setup.late_ms:
            events = [made, *fires[-1:], self.paused[name]]
            yield Violation("fire", f"{name} has not fired for {late / 1000:.0f} s when it was paused", events)


def _next(fire: Event, since: int, every: int) -> int:
    """The fire time that comes after one: where that had its turn late, it may stand for all that were past by then."""
    last = max(fire.due_ms, int(fire.facts["at"]))
    return since + ((last - since) // every + 1) * every
