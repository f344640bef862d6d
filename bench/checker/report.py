"""Runs all checks, in one pass over the history and one over its messages, and computes the figures."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from .books import Books
from .event import Event
from .fires import Fires
from .hands import Hands, Known
from .life import Life
from .order import Keys
from .reading import Readings
from .setup import setup_of
from .violation import Violation

_OF_MESSAGES = frozenset(
    ("publish", "cancel", "reschedule", "replace", "fire", "claim", "ack", "fail", "extend", "stream", "dead")
)


@frozen
class Report:
    violations: list[Violation]
    figures: dict[str, Any]


@define
class _Judge:
    known: Known
    lives: dict[str, Life] = field(factory=dict[str, Life])
    readings: Readings = field(factory=Readings)
    books: Books = field(init=False)
    keys: Keys = field(factory=Keys)
    fires: Fires = field(init=False)
    reasons: Counter[str] = field(factory=Counter[str])
    faults: Counter[str] = field(factory=Counter[str])
    stuck: list[Event] = field(factory=list[Event])
    """Faults after which something did not recover."""
    drained: Event | None = None
    deliveries: int = 0
    latest_ms: float = 0

    def __attrs_post_init__(self) -> None:
        self.books = Books(self.known.setup)
        self.fires = Fires(self.known.setup, self.known.clocks)

    def hear(self, event: Event) -> None:
        self.known.add(event)
        if event.op in ("read", "stream"):
            self.readings.add(event)
        if event.op in ("schedule", "fire"):
            self.fires.add(event)
        if event.op == "counts":
            self.books.told.append(event)
        elif event.op == "drained":
            self.drained = event
        elif event.op == "fault":
            if event.phase == "invoke":
                self.faults[event.reason] += 1
            elif event.phase == "fail":
                self.stuck.append(event)
        if event.op in _OF_MESSAGES and event.name:
            life = self.lives.get(event.name)
            if life is None:
                life = self.lives[event.name] = Life(event.name, self.known.clocks)
            life.add(event)

    def violations(self) -> Iterator[Violation]:
        if self.drained is None or self.drained.phase != "ok":
            yield Violation("stuck", "what was left could not be drained", [self.drained] if self.drained else [])
        for event in self.stuck:
            yield Violation("stuck", f"{event.node} {event.reason}".strip(), [event])
        for life in self.lives.values():
            yield from life.violations()
            if life.publishes:
                yield from self._of_groups(life)
        yield from self.keys.violations()
        yield from self.fires.violations()
        expiring = {life.name for life in self.lives.values() if life.publishes and life.may_expire}
        yield from self.readings.violations(expiring)
        yield from self.books.violations()

    def _of_groups(self, life: Life) -> Iterator[Violation]:
        self.books.add_life(life)
        for group in self.known.setup.topics[life.topic].groups:
            hands = Hands.of(life, group, self.known)
            self.deliveries += len(hands.hands)
            self.latest_ms = max(self.latest_ms, hands.late_ms)
            yield from hands.violations(self.reasons)
            self.books.add_hands(hands)
            self.keys.add(hands)


def check(history: Iterable[Event]) -> Report:
    """Checks a history, whose first event is its setup."""
    events = iter(history)
    judge = _Judge(Known(setup_of(next(events).facts)))
    for event in events:
        judge.hear(event)
    violations = list(judge.violations())
    kinds = Counter(violation.kind for violation in violations)
    lives = judge.lives.values()
    figures = {
        "messages": sum(life.receipt is not None for life in lives),
        "deliveries": judge.deliveries,
        "cancelled": sum(life.cancelled for life in lives),
        "replaced": sum(life.replaced for life in lives),
        "ends": sum(bool(life.publishes) and life.may_expire for life in lives),
        "fires": sum(len(fires) for fires in judge.fires.of.values()),
        "dead": sum(len(letters) for life in lives for letters in life.letters.values()),
        "latest_ms": round(judge.latest_ms),
        "faults": dict(judge.faults),
        "explained": dict(judge.reasons),
        "lost": kinds["lost"],
        "early": kinds["early"],
        "unexplained": kinds["duplicate"],
        "violations": len(violations),
        "kinds": dict(kinds),
    }
    return Report(violations, figures)
