"""What a consumer holds, and what it owes the server: acks, fails and renewals, each with its moment. Pure.

No thread and no clock lives here: `consumption` brings the time, keeps the lock and sends the calls.
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
    """One claim in our hands."""

    claim: Claim
    expires_at: float
    """By our clock, from the answer's arrival: after it nothing is handed out any more."""
    renew_at: float
    open: set[str]
    """Ids that are neither settled nor lost."""
    acks: list[str] = field(factory=list[str])
    """Handled, and the server does not know it yet."""
    acks_since: float = 0.0
    lost: bool = False
    """The lease is over or given back: results come too late."""
    doubtful: bool = False
    """The client was silent for long: it may not be ours any more, until it is renewed."""
    begun: set[str] = field(factory=set[str])
    """Ids whose `with message:` was entered: somebody works on them."""
    telling: set[str] = field(factory=set[str])
    """Ids that are to be handed out as soon as the server knows that they are begun."""
    told: set[str] = field(factory=set[str])
    """Ids of which it knows."""
    given_back: set[str] = field(factory=set[str])
    """Of a broadcast topic: ids that were handed out and not seen to the end."""

    def seen_to(self) -> str | None:
        """Of a broadcast topic: what confirms the messages from the first on that are all seen."""
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
        """As it goes to the server."""
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
        """In our hands, waiting or being handled."""
        self.bytes = 0

    def add(self, claim: Claim, now: float) -> Hold:
        """A claim whose answer arrived now."""
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
        """Notes that a message was handled; False when it is not in our hands."""
        if not self._close(hold, id_):
            return False
        if not hold.acks:
            hold.acks_since = now
        hold.acks.append(id_)
        return True

    def fail(self, settlement: Settlement) -> bool:
        """Notes that a message is to be given back; False when it is not in our hands."""
        if not self._close(settlement.hold, settlement.ids[0]):
            return False
        self._fails.append(settlement)
        return True

    def forget(self, hold: Hold, id_: str, *, seen: bool) -> bool:
        """Of a broadcast topic: a message was handled, which no call says; False when it is not in our hands."""
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
        """The calls that are due. Acks wait for the end of their claim, a fail in it, or the linger.

        `hurry`: nobody has anything to handle, so nothing is gained by waiting.
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
        """When acks that wait have waited long enough."""
        return min((hold.acks_since + self._linger for hold in self._holds if hold.acks), default=None)

    def due_for_renewal(self, now: float) -> list[Hold]:
        """The claims of which a third of the lease has gone."""
        return [hold for hold in self._holds if hold.open and hold.renew_at <= now]

    def next_renewal_at(self) -> float | None:
        """When the next lease is to be renewed."""
        times = (hold.renew_at for hold in self._holds if hold.open and hold.renew_at < math.inf)
        return min(times, default=None)

    def renewed(self, hold: Hold, now: float) -> None:
        """The lease runs anew."""
        hold.expires_at = now + self._lease
        hold.renew_at = now + self._lease / 3
        hold.doubtful = False

    def doubt(self, now: float) -> None:
        """All claims may have been ended: each is to be renewed at once, but for broadcast topics."""
        for hold in self._holds:
            if hold.claim.next is None:
                hold.doubtful, hold.renew_at = True, now

    def not_renewed(self, hold: Hold, now: float) -> None:
        """The server was away: again soon."""
        hold.renew_at = now + self._lease / 10

    def lose(self, hold: Hold) -> int:
        """The lease is over: forgets the claim; how many messages come again, with those whose ack was not sent."""
        lost = len(hold.open) + len(hold.acks)
        self.let_go(hold)
        hold.lost = True
        return lost

    def untold(self, waiting: set[str]) -> list[tuple[Hold, list[str]]]:
        """Ids that are in handlers' hands, as they do not wait, and of which the server does not know it."""
        found = [(hold, sorted(hold.open - hold.told - waiting)) for hold in self._holds if hold.claim.next is None]
        return [(hold, ids) for hold, ids in found if ids]

    def drop(self, hold: Hold, ids: list[str]) -> None:
        """The server has taken these back itself."""
        for id_ in ids:
            self._close(hold, id_)

    def unbegun(self) -> list[tuple[Hold, str]]:
        """What is open, and whose block was not entered."""
        return [(hold, id_) for hold in self._holds for id_ in sorted(hold.open - hold.begun, key=int)]

    def give_back(self, only: set[str] | None = None) -> None:
        """Everything that is still open, or `only` these, goes back at once, uncounted; the rest is let go of."""
        for hold in self._holds:
            if hold.open:
                ids = tuple(message.id for message in hold.claim.messages if message.id in hold.open)
                for id_ in ids:
                    self._close(hold, id_)
                hold.lost = True
                if named := tuple(id_ for id_ in ids if only is None or id_ in only):
                    self._fails.append(Settlement(hold, "fail", named, "given back", 0, count=False))
