"""The loop behind `consume` and `run`: three threads around a `Stock`, under one lock.

A Ctrl-C does not interrupt what the caller's thread does under that lock: it comes before, or after.

The fetcher claims ahead while handlers work, the settler sends acks and fails, the keeper renews leases. A handler
never waits for the server; a lost lease is a warning in the log, and the message comes again.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import claims
from .calls import Call
from .delivery import Delivery
from .durations import Duration
from .errors import TarryError, Unavailable
from .holds import Hold, Settlement
from .processes import Owner
from .signals import signals
from .stock import PATIENCE, SIGN, Stock, Terms
from .transport import Transport

_log = logging.getLogger("tarry.client")

_GLANCE = 0.2
"""Seconds that the main thread sleeps at most, because a Ctrl-C waits until it wakes."""


class Consumption:
    """Messages of one group, held by one client, from `start` to `close`. Safe to share between threads."""

    def __init__(self, transport: Transport, terms: Terms, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._terms = terms
        self._clock = clock
        self._owner = Owner()
        self._lock = threading.RLock()
        """Guards all below. On each condition one kind of thread waits, so that none is woken for nothing."""
        self._arrived = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._owed = threading.Condition(self._lock)
        self._held = threading.Condition(self._lock)
        self._stock = Stock(terms)
        self._holds = self._stock.holds
        self._sign_at = clock()
        """When the next sign of life is due."""
        self._registered = False
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

    def start(self) -> None:
        """Starts all threads, or none when a Ctrl-C comes before; call `close` after it in any case."""
        signals.watch()
        with signals:
            for thread in self._threads.values():
                thread.start()

    def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None when there was none for `timeout`, after `stop`, and past the limit."""
        if not self._owner.here():
            raise RuntimeError(
                f"this loop over {self._terms.topic} began in process {self._owner.pid}, whose threads alone go on "
                "with it: call consume in the process that handles the messages"
            )
        until = None if timeout is None else self._clock() + timeout
        while True:
            with signals, self._lock:
                if self._error is not None:
                    raise self._error
                if self._stopped.is_set():
                    return None
                if (delivery := self._hand_out()) is not None:
                    return delivery
                if self._stock.exhausted():
                    return None
                rest = None if until is None else until - self._clock()
                if rest is not None and rest <= 0:
                    return None
                self._hungry += 1
                self._owed.notify()
                self._arrived.wait(_nap(rest))
                self._hungry -= 1

    def _hand_out(self) -> Delivery | None:
        taken = self._stock.take(self._clock())
        self._room.notify()
        if taken is None:
            return None
        if self._stock.exhausted():
            self._arrived.notify_all()
        hold, message = taken
        delivery = Delivery.of(message, hold, self)
        self._stock.watch(delivery, hold)
        return delivery

    def ack(self, hold: Hold, id_: str) -> bool:
        """Notes a handled message."""
        if self._forked(id_):
            return False
        with signals, self._lock:
            taken = self._stock.ack(hold, id_, self._clock())
            self._settled(hold)
            return taken

    def fail(self, hold: Hold, id_: str, reason: str | None, retry_after: Duration | None, *, count: bool) -> bool:
        """Notes a message to be given back."""
        if self._forked(id_):
            return False
        with signals, self._lock:
            taken = self._stock.fail(Settlement(hold, "fail", (id_,), reason, retry_after, count))
            self._settled(hold)
            return taken

    def end_loop(self) -> None:
        """The loop goes no further: what it has left unsettled has failed."""
        with signals, self._lock:
            self._stock.end_loop()

    def left(self) -> int:
        """How many messages the loop has left unsettled."""
        return self._stock.left

    def _forked(self, id_: str) -> bool:
        """Whether this process is a fork, where the lock may be held for good and no thread sends what is noted."""
        if self._owner.here():
            return False
        _log.warning(
            "message %s of %s is in the hands of process %d, which settles it; what was said here is dropped",
            id_,
            self._terms.topic,
            self._owner.pid,
        )
        return True

    def _settled(self, hold: Hold) -> None:
        if hold.claim.ordered:
            self._arrived.notify()  # the next of its key may be handed out
        self._owed.notify()
        self._room.notify()

    def stop(self) -> None:
        """No more claims, and nothing more is handed out; what is being handled may be finished."""
        with signals, self._lock:
            self._stopped.set()
            self._arrived.notify_all()
            self._room.notify_all()

    def close(self, *, but_in_hands: bool = False) -> None:
        """Gives back what is held, sends what is owed, and ends the threads.

        With `but_in_hands` what handlers still work on is left to its lease, and comes to nobody else before.
        """
        try:
            if self._owner.here():  # a fork's end is not the loop's
                self.stop()
                if self._threads["keeper"].ident is not None:
                    self._end(but_in_hands=but_in_hands)
        finally:
            signals.leave()

    def _end(self, *, but_in_hands: bool) -> None:
        self._threads["fetcher"].join()
        self._confirm()
        with signals, self._lock:
            self._stock.give_back(but_in_hands=but_in_hands)
            self._draining = True
            self._owed.notify()
            self._held.notify()
        self._threads["settler"].join(PATIENCE)
        self._abandoned.set()
        self._threads["settler"].join()
        self._threads["keeper"].join()
        self._stock.absence.closed(self._clock())
        if self._registered and not self._stock.keeps_place and not but_in_hands:
            with suppress(TarryError):
                self._transport.send(claims.deregister(self._terms.client), deadline=SIGN / 5)

    def _confirm(self) -> None:
        """Confirms what was seen of a broadcast topic, by one more claim, whose own answer is not confirmed."""
        if not self._stock.unseen:
            return
        try:
            self._transport.send(self._stock.claim(1, last=True), deadline=PATIENCE)
        except TarryError as error:
            _log.warning("confirming on %s: %s; the last messages come again", self._terms.topic, error)
        with self._lock:
            self._stock.confirmed()

    def statistics(self) -> dict[str, int]:
        """What is held at this moment."""
        with signals, self._lock:
            return {"messages": self._holds.messages, "bytes": self._holds.bytes, "waiting": len(self._stock.waiting)}

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
                claim = self._transport.send(self._stock.claim(size), abandon=self._stopped)
            except Unavailable as error:
                with self._lock:
                    if not self._stopped.is_set():
                        self._stock.absence.failed("claiming from", error, self._clock())
                self._rest(asked)
                continue
            with self._lock:
                self._stock.claimed(claim, self._clock(), asked)
                if claim is not None:
                    self._arrived.notify(len(claim.messages))
                    if self._stock.watched and not self._registered:
                        self._sign_at = self._clock()  # from now on the server notices when this client dies
                    self._held.notify()
            if claim is None:
                self._rest(asked)

    def _rest(self, asked: float) -> None:
        # A server that does not hold the poll, as one that is stopping, is not asked in a tight loop.
        if self._clock() - asked < self._terms.wait / 2:
            self._stopped.wait(0.1)

    def _await_room(self) -> int:
        """Waits until more is wanted, and says how many; 0 when it is over."""
        with self._room:
            while not self._stopped.is_set():
                if size := self._stock.wanted():
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
                hurry = self._draining or (self._hungry > 0 and not self._stock.waiting)
                due = self._holds.take_settlements(now, hurry=hurry)
                if due or self._draining:
                    return due
                at = self._holds.next_settlement_at()
                self._owed.wait(None if at is None else max(0.0, at - now))

    def _send(self, settlement: Settlement) -> None:
        # A result is worth sending for as long as the lease may last.
        deadline = max(30.0, self._terms.lease)
        error = self._failure(settlement.call(), deadline)
        with self._lock:
            self._stock.settled(settlement, error, self._clock())
            if error is not None:
                self._held.notify()

    # The keeper

    def _keep(self) -> None:
        while (due := self._await_renewals()) is not None:
            if self._clock() >= self._sign_at:
                self._give_sign()
            for hold in due:
                self._renew(hold)

    def _await_renewals(self) -> list[Hold] | None:
        """Waits until leases are to be renewed or a sign of life is due; None when it is over."""
        with self._held:
            while not self._draining:
                now = self._clock()
                due = self._holds.due_for_renewal(now)
                if due or now >= self._sign_at:
                    return due
                at = self._holds.next_renewal_at()
                self._held.wait(max(0.0, min(self._sign_at if at is None else at, self._sign_at) - now))
            return None

    def _give_sign(self) -> None:
        if not self._stock.watched:
            self._sign_at = self._clock() + self._stock.sign_every / 5
            return
        asked = self._clock()
        try:
            alive = self._transport.send(claims.renew(self._terms.client), deadline=0.0, abandon=self._abandoned)
            self._registered = True
            with self._lock:
                self._stock.note_alive(asked, alive.seconds)
                self._arrived.notify_all()  # they may have waited for this
        except TarryError as error:
            # Without one, claims last as long as their leases, or end with the client; calls for them show which.
            _log.debug("a sign of life to %s: %s", self._terms.topic, error)
        self._sign_at = self._clock() + self._stock.sign_every

    def _renew(self, hold: Hold) -> None:
        error = self._failure(self._stock.extend(hold), self._terms.lease / 3)
        with self._lock:
            self._stock.renewed(hold, error, self._clock())
            self._room.notify()
            self._arrived.notify_all()  # it may have been in doubt

    def _failure(self, call: Call[Any], deadline: float) -> TarryError | None:
        try:
            self._transport.send(call, deadline=deadline, abandon=self._abandoned)
        except TarryError as error:
            return error
        return None


def _nap(rest: float | None) -> float | None:
    if threading.current_thread() is not threading.main_thread():
        return rest
    return _GLANCE if rest is None else min(rest, _GLANCE)
