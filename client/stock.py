"""What a consumption holds and what is to be done next: the rules that threads and tasks share. Pure.

Around it `consumption` puts threads and `async_consumption` tasks; both bring the time and make the calls.
"""

import logging
from collections import deque

from attrs import frozen

from .errors import TarryError
from .holds import Hold, Holds, Settlement
from .records import Claim, Message

_log = logging.getLogger("tarry.client")

PATIENCE = 10.0
"""Seconds that closing gives a server that is away; then what is held is left to its lease."""


@frozen(kw_only=True)
class Terms:
    """What is consumed, and how. Times are seconds."""

    topic: str
    group: str
    client: str
    size: int
    """Messages of one claim, at most."""
    lease: float
    wait: float
    """Of one long poll; closing waits for it, so that nothing claimed is left to its lease."""
    ahead: int
    """The next claim is made when no more than this many wait to be handled."""
    limit: int | None = None
    """Messages in all."""
    max_messages: int = 1000
    max_bytes: int = 100 * 1024 * 1024
    """No claim is made while so much is held."""


class Stock:
    """Messages claimed by one client of a group, and what waits to be handed out."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.holds = Holds(terms.lease)
        self.waiting: deque[tuple[Hold, Message]] = deque()
        """Claimed, not yet handed out."""
        self.handed = 0

    def add(self, claim: Claim, now: float) -> None:
        """A claim whose answer arrived now."""
        hold = self.holds.add(claim, now)
        self.waiting.extend((hold, message) for message in claim.messages)

    def take(self, now: float) -> tuple[Hold, Message] | None:
        """The next message to be handled; None when none waits. What is past its lease is dropped."""
        while self.waiting:
            hold, message = self.waiting[0]
            if now >= hold.expires_at:
                self.lose(hold)
                continue
            self.waiting.popleft()
            self.handed += 1
            return hold, message
        return None

    def exhausted(self) -> bool:
        """Whether `limit` messages were handed out."""
        return self._terms.limit is not None and self.handed >= self._terms.limit

    def wanted(self) -> int:
        """How many messages to claim now; 0 for none."""
        terms = self._terms
        rest = terms.size if terms.limit is None else terms.limit - self.handed - len(self.waiting)
        size = min(terms.size, rest, terms.max_messages - self.holds.messages)
        room = len(self.waiting) <= terms.ahead and self.holds.bytes < terms.max_bytes
        return size if size > 0 and room else 0

    def give_back(self) -> None:
        """All that is not handled, uncounted."""
        self.waiting.clear()
        self.holds.give_back()

    def lose(self, hold: Hold) -> None:
        """The lease is over, and so is what waits of it."""
        # A claim whose last ack is on its way is not lost, even if it is over.
        if lost := self.holds.lose(hold):
            _log.warning("a lease on %s is over; %d messages come again", self._terms.topic, lost)
        self.waiting = deque(pair for pair in self.waiting if pair[0] is not hold)

    def not_renewed(self, hold: Hold, error: TarryError, now: float) -> None:
        """The server was away: again soon, while the lease lasts."""
        _log.warning("renewing a lease on %s: %s", self._terms.topic, error)
        if now >= hold.expires_at:
            self.lose(hold)
        else:
            self.holds.not_renewed(hold, now)

    def told_too_late(self, settlement: Settlement, error: TarryError, now: float) -> None:
        """The server knows the claim no more; or the fail was done by a try whose answer was lost."""
        count = len(settlement.ids)
        if settlement.verb == "fail" and error.in_doubt:
            _log.info("fail of %d messages of %s was done, or their lease is over", count, self._terms.topic)
        else:
            _log.warning("%s of %d messages of %s dropped: %s", settlement.verb, count, self._terms.topic, error)
        # The keeper finds out whether the rest of the claim is lost too.
        settlement.hold.renew_at = now

    def not_told(self, settlement: Settlement, error: TarryError) -> None:
        """The server could not be told."""
        count = len(settlement.ids)
        _log.warning(
            "%s of %d messages of %s failed, they come again: %s", settlement.verb, count, self._terms.topic, error
        )
