"""Checks what one group did with one message: each hand-out and its outcome."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from attrs import define, field

from .clocks import Clocks
from .event import Event
from .life import Life
from .outages import Outages
from .setup import Group, Setup
from .violation import Violation

NEVER: Final = 1 << 62
_ENDED = ("lease_lost", "unknown-claim")


@define
class Known:
    """Facts of the whole history that the events of one message do not contain."""

    setup: Setup
    outages: Outages = field(factory=Outages)
    clocks: Clocks = field(factory=Clocks)
    operated: dict[tuple[str, str], int] = field(factory=dict[tuple[str, str], int])
    """By topic and group: when an operator first asked for a seek or a redrive."""
    sought: dict[tuple[tuple[str, str], int], int] = field(factory=dict[tuple[tuple[str, str], int], int])
    """By group and queue: the furthest offset that a seek has named. The seek gives up claimed messages before it."""
    asked: dict[int, float] = field(factory=dict[int, float])
    """By call: when a claim was asked for, by the harness's wall clock."""
    held: dict[tuple[str, str], Event] = field(factory=dict[tuple[str, str], Event])
    """Of ordered topics, by claim and message: the hand-out."""
    failed: dict[tuple[str, str], list[tuple[int, Event]]] = field(
        factory=dict[tuple[str, str], list[tuple[int, Event]]]
    )
    """Of ordered topics, by claim and key: which places of the claim failed, and when. Later messages of the key are
    given back, too."""

    def add(self, event: Event) -> None:
        if event.op == "fault":
            self.outages.add(event)
            self.clocks.add(event)
        self.clocks.hear(event)
        if event.op == "claim" and event.phase == "ok" and event.key and self.setup.topics[event.topic].ordered:
            self.held[event.token, event.name] = event
        if event.phase != "invoke":
            return
        if event.op == "claim":
            self.asked[event.call] = event.wall_ms
        elif event.op in ("seek", "redrive"):
            group = (event.topic, event.group)
            self.operated.setdefault(group, event.mono_ns)
            if event.op == "seek":
                self.sought[group, event.queue] = max(event.offset, self.sought.get((group, event.queue), 0))
        elif event.op == "fail" and (given := self.held.get((event.token, event.name))) is not None:
            self.failed.setdefault((event.token, given.key), []).append((given.place, event))


@define
class Hand:
    """One hand-out, and the later calls of its claim about the message."""

    given: Event
    clocks: Clocks
    acks: list[Event] = field(factory=list[Event])
    fails: list[Event] = field(factory=list[Event])
    extends: list[Event] = field(factory=list[Event])

    def ok(self, events: list[Event]) -> Event | None:
        return next((event for event in events if event.phase == "ok"), None)

    @staticmethod
    def maybe(events: list[Event]) -> list[Event]:
        """The invocations that may have been executed: those that were not refused."""
        refused = {event.call for event in events if event.phase == "fail"}
        return [event for event in events if event.phase == "invoke" and event.call not in refused]

    @property
    def lease_first(self) -> int:
        """The earliest time at which the lease may have ended."""
        known = self.given.due_ms
        for event in self.extends:
            if event.phase == "ok":
                known = max(known, event.due_ms)
        return known

    @property
    def lease_last(self) -> int:
        """The latest time at which the lease may have ended; an extension without an answer may have been executed."""
        answered = {event.call for event in self.extends if event.phase == "ok"}
        asked = [event for event in self.maybe(self.extends) if event.call not in answered]
        latest = (event.due_ms + round(self.clocks.ahead_most(event)) for event in asked)
        return max([self.lease_first, *latest])

    def rung(self, rungs: list[int]) -> int:
        """The rest after this attempt, in milliseconds."""
        return rungs[min(self.given.attempt, len(rungs)) - 1] if rungs else 0

    def over_at(self, rungs: list[int]) -> float:
        """The earliest time of the store at which the message may be available again after this hand-out."""
        ends: list[float] = []
        rung = self.rung(rungs)
        for event in self.maybe(self.fails):
            ends.append(self.clocks.least(event.wall_ms) + (rung if event.rest_ms < 0 else event.rest_ms))
        # The first lease, unless it was extended before it could have been over.
        ends.append(self.lease_first + rung)
        return min(ends)

    def back_by(self, rungs: list[int]) -> float:
        """The latest time of the store at which the message would be available again."""
        rung = self.rung(rungs)
        answered = {event.call: event.wall_ms for event in self.fails if event.phase == "ok"}
        backs: list[float] = [] if answered else [self.lease_last + rung]
        for event in self.maybe(self.fails):
            failed_by = self.clocks.most(event.wall_ms, answered.get(event.call, self.clocks.last_ms))
            backs.append(failed_by + (rung if event.rest_ms < 0 else event.rest_ms))
        return max(backs)


@define
class Hands:
    """All hand-outs of a message in a group."""

    life: Life
    group: str
    rules: Group
    known: Known
    ordered: bool
    operated_at: int
    hands: list[Hand]
    """Sorted by attempt: the answer of a paused node may come after the next hand-out."""

    @classmethod
    def of(cls, life: Life, group: str, known: Known) -> "Hands":
        topic = known.setup.topics[life.topic]
        operated_at = known.operated.get((life.topic, group), NEVER)
        hands: list[Hand] = []
        by_token: dict[str, Hand] = {}
        for event in life.of_group.get(group, ()):
            if event.op == "claim":
                hand = Hand(event, known.clocks)
                hands.append(hand)
                by_token[event.token] = hand
            elif event.token in by_token:
                hand = by_token[event.token]
                {"ack": hand.acks, "fail": hand.fails, "extend": hand.extends}[event.op].append(event)
        if operated_at == NEVER:
            hands.sort(key=lambda hand: (hand.given.attempt, hand.given.mono_ns))
        return cls(life, group, topic.groups[group], known, topic.ordered, operated_at, hands)

    @property
    def acked(self) -> bool:
        return any(hand.ok(hand.acks) for hand in self.hands)

    @property
    def maybe_acked(self) -> bool:
        return any(hand.maybe(hand.acks) for hand in self.hands)

    @property
    def letters(self) -> list[Event]:
        return self.life.letters.get(self.group, [])

    @property
    def operated(self) -> bool:
        return self.operated_at < NEVER

    @property
    def late_ms(self) -> float:
        """Milliseconds from the latest possible due time, or a later receipt, to the first hand-out; 0: unknown."""
        receipt = self.life.receipt
        if not self.hands or receipt is None or self.hands[0].given.attempt > 1 or self.operated:
            return 0
        at = self.hands[0].given.wall_ms
        return at - max(self.known.clocks.reached(self.life.last_due_ms(), at), receipt.wall_ms)

    def violations(self, reasons: Counter[str]) -> Iterator[Violation]:
        """Yields every violation; `reasons` counts why messages came again."""
        yield from self._end()
        late_ms, at = self.late_ms, self.hands[0].given.wall_ms if self.hands else 0
        if late_ms > self.known.setup.late_ms + self.known.outages.within(at - late_ms, at):
            yield self._wrong("late", f"{self.late_ms / 1000:.1f} s after its time")
        yield from self._past_its_end()
        yield from self._again(reasons)
        yield from self._attempts()
        yield from self._answers()
        yield from self._letters()

    def _end(self) -> Iterator[Violation]:
        """Checks that the message came to an end in this group."""
        accepted = self.life.receipt is not None or bool(self.life.stream)
        if self.operated and any(self._is_given_up(event) for event in self.life.stream):
            return
        if accepted and not (self.maybe_acked or self.letters or self.life.maybe_gone or self.may_expire):
            yield self._wrong("lost", "it came to no end")

    @property
    def may_expire(self) -> bool:
        """Whether it may have expired, or would be available again only after that: then the group drops it at once."""
        ends = self.life.ends_ms
        too_late = bool(ends) and any(hand.back_by(self.rules.ladder) >= ends for hand in self.hands[-1:])
        return self.life.may_expire or too_late

    def _past_its_end(self) -> Iterator[Violation]:
        """Checks that no claim got a message that had expired before the claim was asked for."""
        ends = self.life.ends_ms
        for hand in self.hands if ends else ():
            asked = self.known.clocks.least(self.known.asked.get(hand.given.call, hand.given.wall_ms))
            if asked > ends + self.known.setup.slack_ms:
                yield self._wrong("expired", f"it was handed out {asked - ends:.0f} ms past its end")

    def _is_given_up(self, event: Event) -> bool:
        return event.offset < self.known.sought.get(((event.topic, self.group), event.queue), 0)

    def _again(self, reasons: Counter[str]) -> Iterator[Violation]:
        """Checks that each hand-out after the first has a reason."""
        for before, after in pairwise(self.hands):
            reason = self._reason(before, after)
            if reason is None:
                yield self._wrong("duplicate", f"attempt {after.given.attempt} came without a reason")
            else:
                reasons[reason] += 1
        for number, hand in enumerate(self.hands):
            acked = hand.ok(hand.acks)
            later = self.hands[number + 1 :]
            if acked is None or not later or self.operated:
                continue
            asked = next(event for event in hand.acks if event.call == acked.call)
            if asked.mono_ns > later[0].given.mono_ns:
                yield self._wrong("stale ack", f"an ack of attempt {hand.given.attempt} was taken after the next one")
            else:
                yield self._wrong("duplicate", f"it came again after the ack of attempt {hand.given.attempt}")

    def _reason(self, before: Hand, after: Hand) -> str | None:
        at, shown = after.given.mono_ns, self._shown(before, after.given)
        if any(event.mono_ns < at for event in before.fails if event.phase == "ok"):
            return "fail"
        if any(event.mono_ns < at for event in before.maybe(before.fails)):
            return "unknown outcome"
        if shown >= before.lease_first:
            return "lost lease"
        if self._given_back(before, after) is not None:
            return "parked"
        if self.operated_at < at:
            return "operator"
        return None

    def _given_back(self, before: Hand, after: Hand) -> Event | None:
        """A failure of an earlier message of its key in the same claim, before the next hand-out: this message was
        parked behind it."""
        given = before.given
        for place, event in self.known.failed.get((given.token, given.key), ()):
            if place < given.place and event.mono_ns < after.given.mono_ns:
                return event
        return None

    def _attempts(self) -> Iterator[Violation]:
        """Checks that attempts count up and stay within the ladder, and that no retry comes before its rung."""
        most = len(self.rules.ladder) + 1
        for hand in self.hands:
            if hand.given.attempt > most:
                yield self._wrong("retries", f"attempt {hand.given.attempt} of {most} at most")
        if self.operated:
            return
        for before, after in pairwise(self.hands):
            again = after.given.attempt == before.given.attempt
            uncounted = any(not event.counted for event in before.fails)
            if again and not (uncounted or self.ordered):
                yield self._wrong("retries", f"attempt {after.given.attempt} came twice")
            parked = again and not uncounted  # held up by an earlier message of its key, whose rung applies
            over = before.over_at(self.rules.ladder)
            if (back := self._given_back(before, after)) is not None:
                # Parked, it was handed out again as the same attempt: the answer was lost, and that lease is over.
                over = min(over, self.known.clocks.least(back.wall_ms) + before.rung(self.rules.ladder))
            shown = self._shown(before, after.given)
            if not parked and shown < over:
                early = over - shown
                yield self._wrong("rung", f"attempt {after.given.attempt} came {early:.0f} ms early")

    def _answers(self) -> Iterator[Violation]:
        """Checks that the answers to acks were true."""
        for hand in self.hands:
            yield from self._refused(hand)
            acked = hand.ok(hand.acks)
            if acked is None:
                continue
            asked = next(event for event in hand.acks if event.call == acked.call)
            earlier = any(event.mono_ns < asked.mono_ns for event in hand.maybe(hand.acks))
            at = self.known.clocks.least(asked.wall_ms)
            if not earlier and at > hand.lease_last + self.known.setup.slack_ms:
                yield self._wrong("stale ack", f"{at - hand.lease_last:.0f} ms after the end of its lease")
            failed = hand.ok(hand.fails)
            if failed is not None and failed.mono_ns < asked.mono_ns and not earlier:
                yield self._wrong("stale ack", "it was given back by this claim before")

    def _refused(self, hand: Hand) -> Iterator[Violation]:
        """Checks that no holder of a valid lease was told that it was over."""
        for event in (*hand.acks, *hand.fails):
            if event.phase != "fail" or event.reason not in _ENDED or self.operated_at < event.mono_ns:
                continue
            others = [*hand.maybe(hand.acks), *hand.maybe(hand.fails)]
            if any(other.mono_ns < event.mono_ns for other in others):
                continue  # a call of the same claim, which may have ended it
            shown = self._shown(hand, event)
            if shown < hand.lease_first and not self.ordered:
                yield self._wrong("refused", f"{hand.lease_first - shown:.0f} ms before its lease was over")

    def _shown(self, hand: Hand, event: Event) -> float:
        """The latest time that the store's clock may have shown from this hand-out to that event."""
        return self.known.clocks.most(hand.given.wall_ms, event.wall_ms)

    def _letters(self) -> Iterator[Violation]:
        """Checks that a message that failed on every rung, and no other, has exactly one complete dead letter."""
        letters = self.letters
        if len(letters) > 1:
            yield self._wrong("dead letter", f"there are {len(letters)}")
        most = len(self.rules.ladder) + 1
        if self.operated:
            return
        for letter in letters:
            attempts = int(letter.facts.get("attempts", 0))
            if attempts != most:
                yield self._wrong("dead letter", f"it tells {attempts} attempts of {most}")
            if self.acked:
                yield self._wrong("dead letter", "it was acked")
        last = next((hand for hand in self.hands if hand.given.attempt == most), None)
        if last is not None and not letters and not last.maybe(last.acks):
            yield self._wrong("dead letter", "it failed for the last time, and there is none")

    def _wrong(self, kind: str, what: str) -> Violation:
        of_topic = [*self.life.publishes, *self.life.cancels, *self.life.reschedules, *self.life.replaces]
        of_group = [*self.life.of_group.get(self.group, ()), *self.letters]
        events = sorted([*of_topic, *of_group, *self.life.stream], key=lambda event: event.mono_ns)
        return Violation(kind, f"{self.life.name} in {self.life.topic}/{self.group}: {what}", events)
