"""Checks ordered topics: message n + 1 of a key is in no other claim while n is unsettled, and never before n."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from attrs import frozen

from .event import Event
from .hands import Hands
from .violation import Violation


@frozen
class _Link:
    """One message of a key in a group."""

    hands: Hands
    seq: int

    @property
    def gone(self) -> bool:
        """Whether it may have been cancelled, or was perhaps never accepted."""
        return self.hands.life.maybe_cancelled or self.hands.life.receipt is None

    def over_by(self, given: Event) -> bool:
        """Whether it was gone, or a dead letter, before that hand-out."""
        return self.gone or any(letter.due_ms <= self.hands.life.shown_ms(given) for letter in self.hands.letters)

    def settled_by(self, given: Event) -> bool:
        """Whether it may have come to its end before that hand-out."""
        return self.over_by(given) or any(
            event.mono_ns < given.mono_ns for hand in self.hands.hands for event in hand.maybe(hand.acks)
        )

    def allows(self, given: Event) -> bool:
        """Whether the next message may be handed out so: this one is settled, or precedes it in the same claim."""
        beside = [hand.given.place for hand in self.hands.hands if hand.given.token == given.token]
        if any(place < given.place for place in beside):
            return True
        # It is in this claim, so no earlier ack without an answer was executed, unless an operator brought it back.
        unsettled = bool(beside) and not self.hands.operated
        return self.over_by(given) or (not unsettled and self.settled_by(given))


def violations(of_key: Iterable[Hands]) -> Iterator[Violation]:
    """Yields the violations of one key in one group."""
    links = sorted((_Link(hands, hands.life.publishes[0].seq) for hands in of_key), key=lambda link: link.seq)
    for before, after in pairwise(links):
        for hand in after.hands.hands:
            if not before.allows(hand.given):
                events = sorted([*before.hands.life.events, *after.hands.life.events], key=lambda event: event.mono_ns)
                name, group = after.hands.life.name, after.hands.group
                what = f"{name} in {after.hands.life.topic}/{group}: it was handed out while {before.seq} was unsettled"
                yield Violation("order", what, events)
                break


class Keys:
    """The messages of ordered topics by group and key."""

    def __init__(self) -> None:
        self._of_key: dict[tuple[str, str, str], list[Hands]] = defaultdict(list)

    def add(self, hands: Hands) -> None:
        first = hands.life.publishes[0]
        if first.key:
            self._of_key[first.topic, hands.group, first.key].append(hands)

    def violations(self) -> Iterator[Violation]:
        for of_key in self._of_key.values():
            yield from violations(of_key)
