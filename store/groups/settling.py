"""Answers the settlements of a turn: acks, fails, extensions and lost leases. No SQL: it reads the rows that the turn
has locked, and changes them in memory. Failed messages are collected for `failing`."""

from collections.abc import Sequence

from attrs import define, evolve, field

from ..records import Outcome, Settled, Settlement
from .locked_rows import ClaimRow, LockedRows
from .order import Order

_TAKEN_BACK = (Outcome.LOST, Outcome.LOST_DEAD, Outcome.RELEASED)


@define(eq=False)
class Answer:
    """A settlement of one range, and its answer."""

    wish: Settlement
    settled: Settled | None = None
    """None: the store knows no such claim."""
    dead: int = 0
    timers: list[tuple[int, int]] = field(factory=list[tuple[int, int]])
    """(due, entry) of the retries that were set."""


@define(eq=False)
class Failure:
    """A failed or parked message, which leaves its claim."""

    claim: ClaimRow
    place: int
    answer: Answer
    behind: bool = False
    """Ordered topics: an earlier message of its key has failed, so it is parked."""
    unbegun: bool = False
    """Its client had not begun it, and reports what it begins."""

    @property
    def offset(self) -> int:
        return self.claim.first + self.place


@define
class Settling:
    """The settlements of a turn, one after another."""

    now: int
    locked: LockedRows
    order: Order | None
    failures: list[Failure] = field(factory=list[Failure], init=False)
    answers: list[list[Answer]] = field(factory=list[list[Answer]], init=False)
    """The answers to each settlement, range by range."""

    def settle(self, settlement: Settlement) -> None:
        """Settles all ranges, or none if a user's transaction is acking a message of one of them, or one is lost."""
        answers = [Answer(part) for part in settlement.ranges]
        self.answers.append(answers)
        refusal = None
        if any(answer.wish.key in self.locked.with_users for answer in answers):
            refusal = Settled(locked=True)
        elif len(answers) > 1 and any(self._is_lost(answer.wish) for answer in answers):
            refusal = Settled(lost=True)
        for answer in answers:
            answer.settled = refusal or self._settle(answer)

    def _is_lost(self, wish: Settlement) -> bool:
        """Whether the client does not hold the messages any more: the lease is over, or some were settled otherwise."""
        claim, places = self.locked.claim(wish.key), wish.places
        if claim is not None:
            fitting = (Outcome.OPEN, Outcome.ACKED) if wish.verb == "ack" else (Outcome.OPEN,)
            return claim.lease_until <= self.now or any(claim.outcome[place] not in fitting for place in places or ())
        if (outcome := self.locked.ended.get(wish.key)) is None:
            return False
        if places is None:  # a claim that ended without a loss was settled before: there is nothing left to do
            return any(o in outcome for o in _TAKEN_BACK)
        return wish.verb != "ack" or not places or any(outcome[place] != Outcome.ACKED for place in places)

    def _settle(self, answer: Answer) -> Settled | None:
        wish = answer.wish
        claim = self.locked.claim(wish.key)
        if claim is None:
            outcome = self.locked.ended.get(wish.key)
            return None if outcome is None else self._settle_ended(wish, outcome)
        if wish.verb == "end":
            return self._end(answer, claim)
        if self._is_lost(wish):
            return Settled(lost=True)
        for place in wish.begun:
            claim.begin(place, self.now)
        if wish.verb == "begin":
            return Settled()
        if wish.verb == "extend":
            claim.lease_until, claim.changed = self.now + wish.lease, True
            return Settled(lease_until=claim.lease_until)
        if wish.verb == "ack":
            return self._ack(wish, claim)
        places = claim.places(Outcome.OPEN) if wish.places is None else dict.fromkeys(wish.places)  # each only once
        return Settled(retried=self._send_back(answer, claim, list(places)))

    def _settle_ended(self, wish: Settlement, outcome: bytes) -> Settled:
        if wish.verb == "end":
            return Settled(ended=True)  # it was settled at another node, or before a restart: nothing is lost
        acked = outcome.count(Outcome.ACKED) if wish.places is None else len(wish.places)
        if wish.verb == "ack" and acked and not self._is_lost(wish):
            return Settled(acked=acked, ended=True)
        return Settled(lost=True, ended=True)

    def _ack(self, wish: Settlement, claim: ClaimRow) -> Settled:
        cursor = self.locked.cursors[claim.queue_id]
        if wish.places is None and claim.outcome.count(Outcome.OPEN) == claim.size:
            claim.settle_all(Outcome.ACKED, self.now)
            cursor.count(Outcome.ACKED, claim.size)
            return Settled(acked=claim.size)
        places = claim.places(Outcome.OPEN, Outcome.ACKED) if wish.places is None else wish.places
        for place in places:
            if claim.outcome[place] == Outcome.OPEN:
                claim.settle(place, Outcome.ACKED, self.now)
                cursor.count(Outcome.ACKED)
        return Settled(acked=len(places))

    def _end(self, answer: Answer, claim: ClaimRow) -> Settled:
        """Ends a lease that is over: open messages go to the ladder."""
        if claim.lease_until > self.now and not answer.wish.at_once:
            return Settled(lease_until=claim.lease_until)  # extended meanwhile
        places = claim.places(Outcome.OPEN)
        self._send_back(answer, claim, places)
        # A claim whose messages were all acked in users' own transactions only ends here: nothing is lost.
        return Settled(lost=bool(places))

    def _send_back(self, answer: Answer, claim: ClaimRow, places: Sequence[int]) -> int:
        """Makes open messages leave their claim for the ladder. In an ordered topic the first of each key does, and all
        behind it are parked; returns how many of the parked ones are among `places`."""
        first, behind = (places, ()) if self.order is None else self.order.split(claim, places)
        self.failures += [Failure(claim, place, answer, unbegun=claim.unbegun(place)) for place in first]
        self.failures += [Failure(claim, place, answer, behind=True) for place in behind]
        for place in (*first, *behind):
            claim.settle(place, Outcome.RETRIED, self.now)  # `failing` decides on the final outcome
        return len(set(behind).intersection(places))

    def results(self) -> tuple[Settled | None, ...]:
        """The answer to each settlement, once the failed messages have been moved."""
        return tuple(_as_one([self._result(answer) for answer in answers]) for answers in self.answers)

    def _result(self, answer: Answer) -> Settled | None:
        settled, claim = answer.settled, self.locked.claim(answer.wish.key)
        if settled is None or claim is None:
            return settled
        if not (answer.dead or answer.timers or claim.ended):
            return settled
        retried, timers = settled.retried + len(answer.timers), tuple(answer.timers)
        return evolve(settled, retried=retried, dead=answer.dead, timers=timers, ended=claim.ended)


def _as_one(answers: Sequence[Settled | None]) -> Settled | None:
    """The answer for a claim, made of those for its ranges; None when the store knows none of them."""
    known = [answer for answer in answers if answer is not None]
    if len(known) <= 1:
        return known[0] if known else None
    # A range that was settled completely before has nothing to fail or extend: no loss if there is another range.
    done = [answer for answer in known if not answer.lost] or known[:1]
    return Settled(
        lost=done[0].lost,
        acked=sum(answer.acked for answer in done),
        retried=sum(answer.retried for answer in done),
        dead=sum(answer.dead for answer in done),
        lease_until=min((answer.lease_until for answer in done if answer.lease_until), default=0),
        ended=all(answer.ended for answer in known),
        timers=tuple(timer for answer in done for timer in answer.timers),
        locked=done[0].locked,
    )
