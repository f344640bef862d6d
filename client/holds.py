"""The claims that a consumer holds, and when their acks, fails and renewals are due. Pure.

No thread and no clock lives here: the loops supply the time, keep the lock and send the calls.
"""

import math
from typing import Any, Literal

from attrs import define, field, frozen

from . import claims
from .calls import Call
from .durations import Duration
from .records import Claim


@define(eq=False)
class Hold:
    """One claim that the client holds."""

    claim: Claim
    expires_at: float
    """By the client's clock, counted from the answer's arrival: after it nothing is handed out any more."""
    renew_at: float
    open: set[str]
    """Ids that are neither settled nor lost."""
    acks: list[str] = field(factory=list[str])
    """Ids of handled messages whose ack is not on its way yet."""
    acks_since: float = 0.0
    lost: bool = False
    """The lease is over, or the messages were given back: results come too late."""
    doubtful: bool = False
    """The client was silent for long: the claim may not be ours any more, until it is renewed."""
    begun: set[str] = field(factory=set[str])
    """Ids whose `with message:` was entered: somebody works on them."""
    telling: set[str] = field(factory=set[str])
    """Ids that are to be handed out as soon as the server knows that they are begun."""
    told: set[str] = field(factory=set[str])
    """Ids that the server knows to be begun."""
    given_back: set[str] = field(factory=set[str])
    """On a broadcast topic: ids that were handed out and not seen to the end."""

    def seen_to(self) -> str | None:
        """On a broadcast topic: the position that confirms all messages before the first unseen one; None if there are
        none."""
        unseen = self.open | self.given_back
        if not unseen:
            return self.claim.next
        last = None
        for message in self.claim.messages:
            if message.id in unseen:
                break
            last = message
        return None if last is None else f"{last.queue}-{last.offset + 1}"

    @property
    def share(self) -> int:
        """Bytes that one message counts for."""
        return self.claim.size // max(1, len(self.claim.messages))


@frozen
class Settlement:
    """A call to be made for some messages of a claim."""

    hold: Hold
    verb: Literal["ack", "fail"]
    ids: tuple[str, ...]
    reason: str | None = None
    retry_after: Duration | None = None
    count: bool = True

    def call(self) -> Call[Any]:
        """The call that sends it to the server."""
        claim = self.hold.claim
        place = claim.topic, claim.group
        if self.verb == "ack":
            return claims.ack(claim.id, self.ids, place)
        return claims.fail(
            claim.id, self.ids, reason=self.reason, retry_after=self.retry_after, count=self.count, place=place
        )


class Holds:
    """All claims of one consumer."""

    def __init__(self, lease: float, linger: float = 0.1) -> None:
        self._lease = lease
        self._linger = linger
        self._holds: list[Hold] = []
        self._fails: list[Settlement] = []
        self.messages = 0
        """How many messages are held, waiting or being handled."""
        self.bytes = 0

    def add(self, claim: Claim, now: float) -> Hold:
        """Adds a claim whose answer arrived now."""
        ids = {message.id for message in claim.messages}
        expires_at, renew_at = now + self._lease, now + self._lease / 3
        if claim.next is not None:  # a broadcast topic has no leases
            expires_at = renew_at = math.inf
        hold = Hold(claim, expires_at, renew_at, ids)
        self._holds.append(hold)
        self.messages += len(ids)
        self.bytes += hold.share * len(ids)
        return hold

    def ack(self, hold: Hold, id_: str, now: float) -> bool:
        """Records that a message was handled; False if it is not held any more."""
        if not self._close(hold, id_):
            return False
        if not hold.acks:
            hold.acks_since = now
        hold.acks.append(id_)
        return True

    def fail(self, settlement: Settlement) -> bool:
        """Records that a message is to be given back; False if it is not held any more."""
        if not self._close(settlement.hold, settlement.ids[0]):
            return False
        self._fails.append(settlement)
        return True

    def forget(self, hold: Hold, id_: str, *, seen: bool) -> bool:
        """On a broadcast topic: records that a message was handled, for which no call is made; False if it is not held
        any more."""
        if not self._close(hold, id_):
            return False
        if not seen:
            hold.given_back.add(id_)
        if not hold.open:
            self.let_go(hold)
        return True

    def let_go(self, hold: Hold) -> None:
        """Forgets a claim, or an answer of a broadcast topic, that is done with."""
        for id_ in list(hold.open):
            self._close(hold, id_)
        self._holds = [other for other in self._holds if other is not hold]

    def _close(self, hold: Hold, id_: str) -> bool:
        if id_ not in hold.open:
            return False
        hold.open.discard(id_)
        self.messages -= 1
        self.bytes -= hold.share
        return True

    def take_settlements(self, now: float, *, hurry: bool) -> list[Settlement]:
        """Takes the settlements that are due. Acks wait for the end of their claim, a fail in it, or the end of the
        linger.

        `hurry`: nothing is gained by waiting, for instance because nobody has anything to handle.
        """
        failing = {settlement.hold for settlement in self._fails}
        due: list[Settlement] = []
        for hold in self._holds:
            ripe = hurry or not hold.open or hold in failing or now >= hold.acks_since + self._linger
            if hold.acks and ripe:
                due.append(Settlement(hold, "ack", tuple(hold.acks)))
                hold.acks = []
        due += self._fails
        self._fails = []
        self._holds = [hold for hold in self._holds if hold.open or hold.acks]
        return due

    def next_settlement_at(self) -> float | None:
        """When the first of the waiting acks have waited long enough."""
        return min((hold.acks_since + self._linger for hold in self._holds if hold.acks), default=None)

    def due_for_renewal(self, now: float) -> list[Hold]:
        """The claims whose renewal is due: a third of the lease has gone, or they were marked."""
        return [hold for hold in self._holds if hold.open and hold.renew_at <= now]

    def next_renewal_at(self) -> float | None:
        """When the next lease is to be renewed."""
        times = (hold.renew_at for hold in self._holds if hold.open and hold.renew_at < math.inf)
        return min(times, default=None)

    def renewed(self, hold: Hold, now: float) -> None:
        """Notes that the lease was renewed now."""
        hold.expires_at = now + self._lease
        hold.renew_at = now + self._lease / 3
        hold.doubtful = False

    def doubt(self, now: float) -> None:
        """Notes that all claims may have been ended: each is to be renewed at once, except on broadcast topics."""
        for hold in self._holds:
            if hold.claim.next is None:
                hold.doubtful, hold.renew_at = True, now

    def not_renewed(self, hold: Hold, now: float) -> None:
        """Notes that the renewal has failed: it is due again after a tenth of the lease."""
        hold.renew_at = now + self._lease / 10

    def lose(self, hold: Hold) -> int:
        """Forgets a claim whose lease is over; returns how many messages come again, with those of unsent acks."""
        lost = len(hold.open) + len(hold.acks)
        self.let_go(hold)
        hold.lost = True
        return lost

    def untold(self, waiting: set[str]) -> list[tuple[Hold, list[str]]]:
        """Ids by claim that handlers work on, since they do not wait, and that the server does not know to be begun."""
        found = [(hold, sorted(hold.open - hold.told - waiting)) for hold in self._holds if hold.claim.next is None]
        return [(hold, ids) for hold, ids in found if ids]

    def drop(self, hold: Hold, ids: list[str]) -> None:
        """Forgets messages that the server has taken back itself."""
        for id_ in ids:
            self._close(hold, id_)

    def unbegun(self) -> list[tuple[Hold, str]]:
        """Open messages whose `with` block was not entered."""
        return [(hold, id_) for hold in self._holds for id_ in sorted(hold.open - hold.begun, key=int)]

    def give_back(self, only: set[str] | None = None) -> None:
        """Gives back everything that is still open, or `only` these, at once and uncounted; forgets the rest."""
        for hold in self._holds:
            if hold.open:
                ids = tuple(message.id for message in hold.claim.messages if message.id in hold.open)
                for id_ in ids:
                    self._close(hold, id_)
                hold.lost = True
                if named := tuple(id_ for id_ in ids if only is None or id_ in only):
                    self._fails.append(Settlement(hold, "fail", named, "given back", 0, count=False))
