"""The loop behind `consume` and `run`: three threads around `Holds`, under one lock.

The fetcher claims ahead while handlers work, the settler sends acks and fails, the keeper renews leases. A handler
never waits for the server; that a lease was lost is told by a warning, and the message comes again.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from attrs import frozen

from .claims import Claims
from .delivery import Delivery
from .durations import Duration
from .errors import LeaseLost, NotFound, TarryError, Unavailable
from .holds import Hold, Holds, Settlement
from .records import Claim, Message

_log = logging.getLogger("tarry.client")

_PATIENCE = 10.0
"""Seconds that `close` gives a server that is away; then what is held is left to its lease."""

_GLANCE = 0.2
"""Seconds that the main thread sleeps at most: a Ctrl-C that comes just before a sleep on a lock does not end it."""


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
    tags: tuple[str, ...] | None = None
    start: str | None = None
    """Where a group begins that is new, or a client of a broadcast topic."""
    max_messages: int = 1000
    max_bytes: int = 100 * 1024 * 1024
    """No claim is made while so much is held."""


class Consumption:
    """Messages of one group, held by one client. Safe to share between threads."""

    def __init__(self, claims: Claims, terms: Terms, clock: Callable[[], float] = time.monotonic) -> None:
        self._claims = claims
        self._terms = terms
        self._clock = clock
        self._lock = threading.RLock()
        """Guards all below. Each condition has one kind of thread waiting, so that nobody is woken for nothing."""
        self._arrived = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._owed = threading.Condition(self._lock)
        self._held = threading.Condition(self._lock)
        self._holds = Holds(terms.lease)
        self._waiting: deque[tuple[Hold, Message]] = deque()
        """Claimed, not yet handed out."""
        self._after = ""
        """Of a broadcast topic: up to where this client has seen everything, which its next claim confirms."""
        self._unseen: Hold | None = None
        """Of a broadcast topic: the last answer. The next is asked for when all of it was seen, and confirmed so."""
        self._handed = 0
        self._hungry = 0
        """Threads in `next` that have nothing to handle."""
        self._draining = False
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._abandoned = threading.Event()
        loops = {"fetcher": self._fetch, "settler": self._settle, "keeper": self._keep}
        self._threads = {
            name: threading.Thread(target=self._guard, args=(loop,), name=f"tarry-{name}", daemon=True)
            for name, loop in loops.items()
        }
        for thread in self._threads.values():
            thread.start()

    def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None when there was none for `timeout`, after `stop`, and past the limit."""
        with self._arrived:
            until = None if timeout is None else self._clock() + timeout
            while not self._stopped.is_set():
                if self._error is not None:
                    raise self._error
                if (delivery := self._hand_out()) is not None:
                    return delivery
                if self._terms.limit is not None and self._handed >= self._terms.limit:
                    return None
                rest = None if until is None else until - self._clock()
                if rest is not None and rest <= 0:
                    return None
                self._hungry += 1
                self._owed.notify()
                try:
                    self._arrived.wait(_nap(rest))
                finally:
                    self._hungry -= 1
            if self._error is not None:
                raise self._error
            return None

    def _hand_out(self) -> Delivery | None:
        while self._waiting:
            hold, message = self._waiting[0]
            if self._clock() >= hold.expires_at:
                self._lose(hold)
                continue
            self._waiting.popleft()
            self._handed += 1
            self._room.notify()
            if self._handed == self._terms.limit:
                self._arrived.notify_all()
            fields = {name: getattr(message, name) for name in _MESSAGE_FIELDS}
            return Delivery(hold=hold, desk=self, **fields)
        return None

    def ack(self, hold: Hold, id_: str) -> bool:
        """Notes a handled message."""
        with self._lock:
            if hold is self._unseen:
                return self._see(hold, id_)
            taken = self._holds.ack(hold, id_, self._clock())
            self._settled()
            return taken

    def fail(self, hold: Hold, id_: str, reason: str | None, retry_after: Duration | None, *, count: bool) -> bool:
        """Notes a message to be given back."""
        with self._lock:
            if hold is self._unseen:
                # Nothing comes again on a broadcast topic; what is given back uncounted was not seen.
                return self._see(hold, id_, seen=count)
            taken = self._holds.fail(Settlement(hold, "fail", (id_,), reason, retry_after, count))
            self._settled()
            return taken

    def _see(self, hold: Hold, id_: str, *, seen: bool = True) -> bool:
        taken = self._holds.forget(hold, id_, seen=seen)
        self._after = hold.seen_to() or self._after
        self._settled()
        return taken

    def _settled(self) -> None:
        self._owed.notify()
        self._room.notify()

    def stop(self) -> None:
        """No more claims, and nothing more is handed out; what is being handled may be finished."""
        self._stopped.set()
        with self._lock:
            self._arrived.notify_all()
            self._room.notify_all()

    def close(self) -> None:
        """Gives back what is held, sends what is owed, and ends the threads."""
        self.stop()
        self._threads["fetcher"].join()
        self._confirm()
        with self._lock:
            self._waiting.clear()
            self._holds.give_back()
            self._draining = True
            # All, though one waits: a Ctrl-C within an earlier `notify` may have left a waiter that is none any more.
            self._owed.notify_all()
            self._held.notify_all()
        self._threads["settler"].join(_PATIENCE)
        self._abandoned.set()
        self._threads["settler"].join()
        self._threads["keeper"].join()

    def _confirm(self) -> None:
        """Of a broadcast topic: what was seen is not to come again. The answer is left, and not confirmed."""
        if self._unseen is None:
            return
        try:
            self._claim(1, deadline=_PATIENCE)
        except TarryError as error:
            _log.warning("confirming on %s: %s; the last messages come again", self._terms.topic, error)
        with self._lock:
            self._holds.drop(self._unseen)

    def statistics(self) -> dict[str, int]:
        """What is held at this moment."""
        with self._lock:
            return {"messages": self._holds.messages, "bytes": self._holds.bytes, "waiting": len(self._waiting)}

    def _guard(self, loop: Callable[[], None]) -> None:
        """A loop that breaks ends the consumption, and its error is raised from `next`."""
        try:
            loop()
        except Exception as error:
            with self._lock:
                self._error = error
            self.stop()

    # The fetcher

    def _fetch(self) -> None:
        while (size := self._await_room()) > 0:
            asked = self._clock()
            try:
                claim = self._claim(size)
            except Unavailable as error:
                if not self._stopped.is_set():
                    _log.warning("claiming from %s: %s; going on", self._terms.topic, error)
                continue
            if claim is not None:
                with self._lock:
                    hold = self._holds.add(claim, self._clock())
                    if claim.next is not None:
                        self._unseen = hold
                    self._waiting.extend((hold, message) for message in claim.messages)
                    self._arrived.notify(len(claim.messages))
                    self._held.notify()
            elif self._clock() - asked < self._terms.wait / 2:
                # A server that does not hold the poll, as one that is stopping, is not asked in a tight circle.
                self._stopped.wait(0.1)

    def _claim(self, size: int, deadline: float | None = None) -> Claim | None:
        terms = self._terms
        last = deadline is not None
        return self._claims.claim(
            terms.topic,
            terms.group,
            client=terms.client,
            size=size,
            wait=0 if last else round(terms.wait * 1000),
            lease=round(terms.lease * 1000),
            tags=terms.tags,
            start=terms.start,
            after=self._after,
            deadline=deadline,
            abandon=None if last else self._stopped,
        )

    def _await_room(self) -> int:
        """Waits until more is wanted, and says how many; 0 when it is over."""
        terms = self._terms
        with self._room:
            while not self._stopped.is_set():
                rest = terms.size if terms.limit is None else terms.limit - self._handed - len(self._waiting)
                size = min(terms.size, rest, terms.max_messages - self._holds.messages)
                seen = self._unseen is None or not self._unseen.open
                if size > 0 and seen and len(self._waiting) <= terms.ahead and self._holds.bytes < terms.max_bytes:
                    return size
                self._room.wait()
            return 0

    # The settler

    def _settle(self) -> None:
        while due := self._await_settlements():
            for settlement in due:
                self._send(settlement)

    def _await_settlements(self) -> list[Settlement]:
        """Waits for calls that are due; none when it is over."""
        with self._owed:
            while True:
                now = self._clock()
                hurry = self._draining or (self._hungry > 0 and not self._waiting)
                due = self._holds.take_settlements(now, hurry=hurry)
                if due or self._draining:
                    return due
                at = self._holds.next_settlement_at()
                self._owed.wait(None if at is None else max(0.0, at - now))

    def _send(self, settlement: Settlement) -> None:
        # A result is worth telling for as long as the lease may last.
        deadline = max(30.0, self._terms.lease)
        claim, ids = settlement.hold.claim.id, settlement.ids
        try:
            if settlement.verb == "ack":
                self._claims.ack(claim, ids, deadline=deadline, abandon=self._abandoned)
            else:
                self._claims.fail(
                    claim,
                    ids,
                    reason=settlement.reason,
                    retry_after=settlement.retry_after,
                    count=settlement.count,
                    deadline=deadline,
                    abandon=self._abandoned,
                )
        except (LeaseLost, NotFound) as error:
            _log.warning("%s of %d messages of %s dropped: %s", settlement.verb, len(ids), self._terms.topic, error)
            with self._lock:
                # The keeper finds out whether the rest of the claim is lost too.
                settlement.hold.renew_at = self._clock()
                self._held.notify()
        except TarryError as error:
            _log.warning(
                "%s of %d messages of %s failed, they come again: %s",
                settlement.verb,
                len(ids),
                self._terms.topic,
                error,
            )

    # The keeper

    def _keep(self) -> None:
        while due := self._await_renewals():
            for hold in due:
                self._renew(hold)

    def _await_renewals(self) -> list[Hold]:
        """Waits for leases that want renewing; none when it is over."""
        with self._held:
            while not self._draining:
                now = self._clock()
                if due := self._holds.due_for_renewal(now):
                    return due
                at = self._holds.next_renewal_at()
                self._held.wait(None if at is None else max(0.0, at - now))
            return []

    def _renew(self, hold: Hold) -> None:
        lease = round(self._terms.lease * 1000)
        try:
            self._claims.extend(hold.claim.id, lease, deadline=self._terms.lease / 3, abandon=self._abandoned)
        except (LeaseLost, NotFound):
            with self._lock:
                self._lose(hold)
        except TarryError as error:
            _log.warning("renewing a lease on %s: %s", self._terms.topic, error)
            with self._lock:
                now = self._clock()
                if now >= hold.expires_at:
                    self._lose(hold)
                else:
                    self._holds.not_renewed(hold, now)
        else:
            with self._lock:
                self._holds.renewed(hold, self._clock())

    def _lose(self, hold: Hold) -> None:
        # A claim whose last ack is on its way is not lost, even if it is over.
        if lost := self._holds.lose(hold):
            _log.warning("a lease on %s is over; %d messages come again", self._terms.topic, lost)
        self._waiting = deque(pair for pair in self._waiting if pair[0] is not hold)
        self._room.notify()


def _nap(rest: float | None) -> float | None:
    if threading.current_thread() is not threading.main_thread():
        return rest
    return _GLANCE if rest is None else min(rest, _GLANCE)


_MESSAGE_FIELDS = tuple(Message.__annotations__)
