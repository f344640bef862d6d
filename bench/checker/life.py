"""All events of one message, and the checks on it that do not depend on its groups."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from attrs import define, field
from msgspec.structs import replace

from .clocks import Clocks
from .event import Event
from .violation import Violation


@define
class Life:
    """The events of one message by operation, in their order."""

    name: str
    clocks: Clocks = field(factory=Clocks)
    publishes: list[Event] = field(factory=list[Event])
    cancels: list[Event] = field(factory=list[Event])
    reschedules: list[Event] = field(factory=list[Event])
    replaces: list[Event] = field(factory=list[Event])
    """For a timer: the calls that set its key again and so may have replaced it."""
    stream: list[Event] = field(factory=list[Event])
    """Where the final look at the queues found it."""
    of_group: dict[str, list[Event]] = field(factory=lambda: defaultdict[str, list[Event]](list))
    letters: dict[str, list[Event]] = field(factory=lambda: defaultdict[str, list[Event]](list))

    def add(self, event: Event) -> None:
        match event.op:
            case "publish":
                self.publishes.append(event)
            case "cancel":
                self.cancels.append(event)
            case "reschedule":
                self.reschedules.append(event)
            case "replace":
                self.replaces.append(event)
            case "fire":  # a schedule published it, and reports so only at the end
                self.publishes.append(replace(event, wall_ns=0, mono_ns=0))
            case "stream":
                self.stream.append(event)
            case "dead":
                self.letters[event.group].append(event)
            case _:
                self.of_group[event.group].append(event)

    @property
    def events(self) -> list[Event]:
        """All events, by time."""
        rest = [event for events in (*self.of_group.values(), *self.letters.values()) for event in events]
        of_topic = [*self.publishes, *self.cancels, *self.reschedules, *self.replaces, *self.stream]
        return sorted([*of_topic, *rest], key=lambda event: event.mono_ns)

    @property
    def topic(self) -> str:
        return self.publishes[0].topic

    @property
    def receipt(self) -> Event | None:
        """The first answer that the message was accepted."""
        return _first(self.publishes, "ok")

    @property
    def in_doubt(self) -> bool:
        """Whether no answer tells if the message was accepted."""
        return self.receipt is None and len(_of(self.publishes, "fail")) < len(_of(self.publishes, "invoke"))

    @property
    def cancelled(self) -> bool:
        return _first(self.cancels, "ok") is not None or self._of_a_pause

    @property
    def maybe_cancelled(self) -> bool:
        """Whether the message was cancelled, or its cancel has an unknown outcome."""
        return self._of_a_pause or len(_of(self.cancels, "fail")) < len(_of(self.cancels, "invoke"))

    @property
    def _of_a_pause(self) -> bool:
        """Whether its schedule was paused after its time had come and before it was sent."""
        return any(one.op == "fire" and one.reason == "cancelled" and one.id for one in self.publishes)

    @property
    def replaced(self) -> bool:
        return _first(self.replaces, "ok") is not None

    @property
    def maybe_gone(self) -> bool:
        """Whether the message was cancelled or replaced, or the outcome of such a call is unknown."""
        return self.maybe_cancelled or len(_of(self.replaces, "fail")) < len(_of(self.replaces, "invoke"))

    @property
    def ends_ms(self) -> int:
        """When the message expires; 0: never."""
        return self.publishes[0].ends_ms

    @property
    def may_expire(self) -> bool:
        """Whether the store's clock may have reached its expiry."""
        ends = self.ends_ms
        return bool(ends) and self.clocks.most(self.publishes[0].wall_ms, self.clocks.last_ms) >= ends

    def deliveries(self) -> Iterator[Event]:
        for events in self.of_group.values():
            yield from (event for event in events if event.op == "claim")

    def violations(self) -> Iterator[Violation]:
        """Yields the violations, apart from those of its groups."""
        if not self.publishes:
            yield self._wrong("invented", "it was never published")
            return
        yield from self._identity()
        yield from self._body()
        yield from self._times()
        yield from self._verdicts()

    def _identity(self) -> Iterator[Violation]:
        ids = {event.id for event in self.events if event.id}
        if len(ids) > 1:
            yield self._wrong("written twice", f"it has the ids {', '.join(sorted(ids))}")
        places = {(event.queue, event.offset) for event in (*self.stream, *self.deliveries()) if event.offset >= 0}
        if len(places) > 1:
            yield self._wrong("promoted twice", f"it lies at {sorted(places)}")
        there = bool(self.stream) or any(True for _ in self.deliveries())
        if there and self.receipt is None and not self.in_doubt:
            yield self._wrong("invented", "each publish of it was refused")
        if self.receipt is not None and not (self.stream or self.maybe_gone or self.may_expire):
            yield self._wrong("lost", "it was accepted, and is not in the stream")

    def _body(self) -> Iterator[Violation]:
        digest = self.publishes[0].digest
        letters = (event for events in self.letters.values() for event in events)
        for event in (*self.deliveries(), *self.stream, *letters):
            if event.digest != digest:
                yield self._wrong("body", f"it went in as {digest} and came out of {event.op} as {event.digest}")
                return

    def _times(self) -> Iterator[Violation]:
        for event in self.deliveries():
            due, at = self.due_ms(event.mono_ns), self.shown_ms(event)
            if at < due:
                yield self._wrong("early", f"{due - at:.0f} ms before its time")
                return

    def shown_ms(self, event: Event) -> float:
        """The latest time that the store's clock may have shown from its publish to this event."""
        return self.clocks.most(self.publishes[0].wall_ms, event.wall_ms)

    def due_ms(self, at: int) -> float:
        """The earliest time at which it may have been due, as of `at` on the harness's steady clock."""
        receipt = self.receipt
        # If it is unknown when it was accepted, the requested time is the earliest.
        known = [receipt.due_ms if receipt else self._asked(self.publishes[0])]
        for event in self.reschedules:
            if event.mono_ns > at:
                break
            if event.phase == "ok":
                known = [float(event.due_ms)]
            elif event.phase in ("invoke", "unknown"):
                known.append(self._asked(event))
        # A refused reschedule changed nothing; its time may be in here, too, which only makes the check more lenient.
        return min(known)

    def _asked(self, event: Event) -> float:
        """The earliest time of the store that a requested due time may have become; 0: none was requested."""
        return event.due_ms and event.due_ms + self.clocks.least(event.wall_ms) - event.wall_ms

    def last_due_ms(self) -> float:
        """The latest time at which it may have been due."""
        receipt = self.receipt
        known = [float(receipt.due_ms if receipt else self.publishes[0].due_ms)]
        for event in self.reschedules:
            if event.phase == "ok":
                known.append(event.due_ms)
            elif event.phase == "unknown":
                known.append(event.due_ms + self.clocks.ahead_most(event))
        return max(known)

    def _verdicts(self) -> Iterator[Violation]:
        streamed = bool(self.stream) or any(True for _ in self.deliveries())
        if self.cancelled and streamed:
            yield self._wrong("cancel", "it was cancelled and delivered")
        if self.replaced and streamed:
            yield self._wrong("timer", "another took its place, and it was delivered")
        for event in (*self.cancels, *self.reschedules):
            if event.phase != "fail":
                continue
            if event.reason == "too_late" and self.shown_ms(event) < self.due_ms(event.mono_ns):
                yield self._wrong("cancel", "it was too late before its time")
            if event.reason == "not_found" and self.receipt is not None and self.receipt.mono_ns < event.mono_ns:
                yield self._wrong("lost", "it was accepted, and then not found")
            if event.reason == "cancelled" and not self.maybe_cancelled:
                yield self._wrong("cancel", "it was told as cancelled, which nobody asked for")

    def _wrong(self, kind: str, what: str) -> Violation:
        return Violation(kind, f"{self.name}: {what}", self.events)


def _of(events: Sequence[Event], phase: str) -> list[Event]:
    return [event for event in events if event.phase == phase]


def _first(events: Sequence[Event], phase: str) -> Event | None:
    return next((event for event in events if event.phase == phase), None)
