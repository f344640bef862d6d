"""Checks the service's final counters: that they add up, and that they agree with the answers in the history."""

from collections import defaultdict
from collections.abc import Iterator

from attrs import define, field

from .event import Event
from .hands import Hands
from .life import Life
from .setup import Setup
from .violation import Violation


@define
class Range:
    """The bounds of a count, as far as the history tells it: unknown outcomes make the difference."""

    low: int = 0
    high: int = 0

    def add(self, certain: bool, possible: bool) -> None:
        self.low += certain
        self.high += certain or possible

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high


def _range_by() -> "defaultdict[str, Range]":
    return defaultdict(Range)


@define
class Books:
    """The counts of the whole history. Groups are named `topic/group`."""

    setup: Setup
    accepted: defaultdict[str, Range] = field(factory=_range_by)
    cancelled: defaultdict[str, Range] = field(factory=_range_by)
    replaced: defaultdict[str, Range] = field(factory=_range_by)
    streamed: defaultdict[str, Range] = field(factory=_range_by)
    acked: defaultdict[str, Range] = field(factory=_range_by)
    dead: defaultdict[str, Range] = field(factory=_range_by)
    expired: defaultdict[str, Range] = field(factory=_range_by)
    told: list[Event] = field(factory=list[Event])

    def add_life(self, life: Life) -> None:
        accepted = life.receipt is not None
        self.accepted[life.topic].add(accepted, life.in_doubt)
        self.cancelled[life.topic].add(life.cancelled, life.maybe_cancelled)
        self.replaced[life.topic].add(life.replaced, life.maybe_gone and bool(life.replaces))
        # The final look at the queues does not show expired messages.
        past = life.may_expire and not life.stream
        self.streamed[life.topic].add(bool(life.stream) or (past and accepted and not life.maybe_gone), past)

    def add_hands(self, hands: Hands) -> None:
        group = f"{hands.life.topic}/{hands.group}"
        if not hands.operated:
            self.acked[group].add(hands.acked, hands.maybe_acked)
            self.dead[group].add(bool(hands.letters), False)
            open_ended = hands.maybe_acked or hands.life.maybe_gone or hands.life.receipt is None
            past = hands.may_expire and not (hands.acked or hands.letters)
            self.expired[group].add(past and not open_ended, past)

    def violations(self) -> Iterator[Violation]:
        for event in self.told:
            yield from self._of_group(event) if event.group else self._of_topic(event)

    def _of_topic(self, event: Event) -> Iterator[Violation]:
        facts = event.facts
        ends = sum(facts.get(name, 0) for name in ("streamed", "cancelled", "replaced", "suppressed", "pending"))
        if facts["accepted"] != ends:
            yield _wrong(event, f"{facts['accepted']} accepted, {ends} streamed, cancelled, replaced or pending")
        # Clients are not told which messages a schedule dropped.
        of_schedules = self.setup.topics[event.topic].scheduled
        for name in ("streamed", "cancelled") if of_schedules else ("accepted", "streamed", "cancelled", "replaced"):
            if name not in facts:
                continue  # a history that was recorded before there were timers
            known: Range = getattr(self, name)[event.topic]
            if facts[name] not in known:
                yield _wrong(event, f"it tells {facts[name]} {name}, the history {known.low} to {known.high}")

    def _of_group(self, event: Event) -> Iterator[Violation]:
        facts, group = event.facts, f"{event.topic}/{event.group}"
        if group not in self.acked:
            return  # operated, or without a message
        moves = sum(queue["offset"] for queue in (*facts["queues"], *facts["retry_queues"]))
        ended = sum(facts[name] for name in ("acked", "retried", "dead", "claimed", "skipped", "expired"))
        if not self.setup.topics[event.topic].ordered and moves != ended:
            yield _wrong(event, f"its cursors moved by {moves}, {ended} messages came out of its claims")
        for name in ("acked", "dead", "expired"):
            known: Range = getattr(self, name)[group]
            if facts[name] not in known:
                yield _wrong(event, f"it tells {facts[name]} {name}, the history {known.low} to {known.high}")


def _wrong(event: Event, what: str) -> Violation:
    group = f"/{event.group}" if event.group else ""
    return Violation("counters", f"{event.topic}{group}: {what}", [event])
