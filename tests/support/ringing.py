"""An alarm that rings in the test alone."""

from typing import Any

from tarry.service.alarm import Alarm


class Rung(Alarm):
    """Notes each event, and its facts."""

    def __init__(self) -> None:
        super().__init__("")
        self.events: list[str] = []
        self.facts: list[dict[str, Any]] = []

    def ring(self, event: str, **facts: object) -> None:
        self.events.append(event)
        self.facts.append(facts)

    def told(self, fact: str) -> list[tuple[str, Any]]:
        """The events, each with this fact of it."""
        return [(event, facts[fact]) for event, facts in zip(self.events, self.facts, strict=True)]
