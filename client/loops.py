"""The three loops behind `consume` and `run`, written once for threads and tasks: around a `Stock`, under one lock.

The fetcher claims ahead while handlers work, the settler sends acks and fails, the keeper renews leases. A handler
never waits for the server; a lost lease is a warning in the log, and the message comes again.

In `async_consumption` each loop is a task. In `consumption` each is a thread: there what they await blocks, and so
never suspends (`coroutines`).
"""

import logging
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import anyio
from attrs import frozen

from . import claims, spans
from .calls import Call
from .delivery import Delivery
from .durations import Duration
from .errors import BadRequest, TarryError, Unavailable
from .holds import Hold, Settlement
from .pulse import Pulse
from .records import Alive
from .stock import PATIENCE, SIGN, Stock, Terms

_GOODBYE = SIGN / 5
"""Seconds for deregistering; if that fails, the server finds out when the signs of life stop."""

_log = logging.getLogger("tarry.client")

T = TypeVar("T")

ALL = 1 << 30
"""More waiters than there ever are, to wake all."""


class Bell(Protocol):
    """Tells waiters that something has changed, so that they look again. It is rung, and awaited, under the lock."""

    def ring(self, many: int = 1, /) -> None:
        """Wakes so many waiters, or more."""
        ...

    async def rung(self, seconds: float | None = None, /) -> None:
        """Waits until it rings, for `seconds` at most; the lock is free meanwhile."""
        ...


D = TypeVar("D", bound=Delivery)
E = TypeVar("E", threading.Event, anyio.Event)
E_contra = TypeVar("E_contra", threading.Event, anyio.Event, contravariant=True)


class Sender(Protocol[E_contra]):
    """Makes calls: a `Transport`."""

    async def send(self, call: Call[T], *, deadline: float | None = None, abandon: E_contra | None = None) -> T:
        """Makes a call, again and again until `deadline` seconds have passed or `abandon` is set."""
        ...

    async def close(self) -> None:
        """Closes its connections."""
        ...


@frozen
class Together:
    """What the loops over several topics share, beside their lock."""

    arrived: Bell
    """Rung for callers that wait for a message of any topic."""
    pulse: Pulse


class Loops(ABC, Generic[D, E]):
    """Messages of one group, held by one client: the logic that threads and tasks share."""

    def __init__(
        self,
        transport: Sender[E],
        terms: Terms,
        clock: Callable[[], float],
        lock: AbstractContextManager[object],
        bell: Callable[[], Bell],
        stopped: E,
        delivery: type[D],
        together: Together | None = None,
    ) -> None:
        self._transport: Sender[E] = transport
        self._terms = terms
        self._clock = clock
        self._delivery = delivery
        self._lock = lock
        """Guards all fields below."""
        self.stock = Stock(terms)
        """A `Rota` uses it too, under the lock."""
        self._holds = self.stock.holds
        # A bell for each kind of waiter, so that nobody is woken for nothing.
        self._arrived = bell() if together is None else together.arrived
        """For `next`."""
        self._room = bell()
        """For the fetcher."""
        self._owed = bell()
        """For the settler."""
        self._leases = bell()
        """For the keeper."""
        self._pulse = Pulse(clock()) if together is None else together.pulse
        self._pulse.join(self.stock)
        self._hungry = 0
        """How many callers of `next` have nothing to handle."""
        self._draining = False
        self.error: BaseException | None = None
        """The error that has ended the loops, to be raised by `next`."""
        self._stopped: E = stopped
        self._warned = False

    @abstractmethod
    async def _send(self, call: Call[T], *, deadline: float | None = None, claiming: bool = False) -> T:
        """Makes a call, again and again for `deadline` seconds: a claim until `stop`, any other until all is given up.

        The caller must not hold the lock.
        """

    @abstractmethod
    async def _pause(self, seconds: float) -> None:
        """Waits for `seconds`, or until `stop`."""

    # Called by the threads and tasks of users

    def hunger(self) -> None:
        """Under the lock: notes a caller that has nothing to handle, and waits until `sate`."""
        self._hungry += 1
        self._owed.ring()
        if self.stock.suspicious:
            self._leases.ring()

    def sate(self) -> None:
        """Under the lock: notes that it waits no longer."""
        self._hungry -= 1

    def sweep(self) -> None:
        """Under the lock: fails messages that nobody refers to any more."""
        if self.stock.sweep():
            self._room.ring()

    def hand_out(self) -> D | None:
        """Under the lock: takes the next message, if one may be handled now."""
        taken = self.stock.take(self._clock())
        self._room.ring()
        if taken is None:
            return None
        hold, message = taken
        delivery = self._delivery.of(message, hold, self)
        self.stock.watch(delivery, hold)
        return delivery

    def ack(self, hold: Hold, id_: str) -> bool:
        """Records that a message was handled; False if it is not held any more."""
        with self._lock:
            taken = self.stock.ack(hold, id_, self._clock())
            self._settled(hold)
            return taken

    def fail(self, hold: Hold, id_: str, reason: str | None, retry_after: Duration | None, *, count: bool) -> bool:
        """Records that a message is to be given back; False if it is not held any more."""
        with self._lock:
            taken = self.stock.fail(Settlement(hold, "fail", (id_,), reason, retry_after, count))
            self._settled(hold)
            return taken

    def lost(self, hold: Hold) -> bool:
        """Whether the lease is over, by what the server has said or by the client's clock."""
        return hold.lost or self._clock() >= hold.expires_at

    def _settled(self, hold: Hold) -> None:
        if hold.claim.ordered:
            self._arrived.ring()  # the next of its key may be handed out
        if self._hungry and self.stock.suspicious:
            self._leases.ring()
        self._owed.ring()
        self._room.ring()

    def end_loop(self) -> None:
        """Ends the user's loop: messages that it has left unsettled have failed."""
        with self._lock:
            self.stock.end_loop()

    def warn_of_left(self) -> None:
        """Warns once that the loop has left messages unsettled, at the line of the user that asked a `Rota` to."""
        if self.stock.left and not self._warned:
            self._warned = True
            warnings.warn(
                f"a message of {self._terms.topic} left the loop unsettled, which counts as a failed attempt: handle "
                "it in `with message:`, or call its ack, fail or retry",
                RuntimeWarning,
                stacklevel=4,
            )

    def stop(self) -> None:
        """Stops claiming and handing out; messages that are being handled may be finished."""
        with self._lock:
            self._stopped.set()
            self._arrived.ring(ALL)
            self._room.ring()

    # The end

    async def _let_go(self, *, but_in_hands: bool = False) -> None:
        """Gives back held messages, once the fetcher has ended; the settler ends when all results were sent."""
        await self._confirm()
        with self._lock:
            self.stock.give_back(but_in_hands=but_in_hands)
            self._draining = True
            self._owed.ring()
            self._leases.ring()

    async def _confirm(self) -> None:
        """Confirms the messages seen on a broadcast topic, by one more claim, whose own answer is not confirmed."""
        if not self.stock.unseen:
            return
        try:
            await self._send(self.stock.claim(1, last=True), deadline=PATIENCE)
        except TarryError as error:
            _log.warning("confirming on %s: %s; the last messages come again", self._terms.topic, error)
        with self._lock:
            self.stock.confirmed()

    async def _say_goodbye(self, *, but_in_hands: bool) -> None:
        """Deregisters the client when all loops have ended, unless that would end claims in the hands of handlers."""
        self.stock.absence.closed(self._clock())
        if self._pulse.leave() and not but_in_hands:
            with suppress(TarryError):
                await self._transport.send(claims.deregister(self._terms.client), deadline=_GOODBYE)

    async def _guard(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Runs a loop; an error in it ends the consumption, and is raised from `next`."""
        try:
            await loop()
        except Exception as error:
            with self._lock:
                self.error = error
            self.stop()

    # The fetcher

    async def _fetch(self) -> None:
        while (size := await self._await_room()) > 0:
            asked, since = self._clock(), spans.now()
            try:
                claim = await self._send(self.stock.claim(size), claiming=True)
            except Unavailable as error:
                with self._lock:
                    if not self._stopped.is_set():
                        self.stock.absence.failed("claiming from", error, self._clock())
                await self._rest(asked)
                continue
            except BadRequest as error:
                if not self.stock.asks_less({one.get("pointer") for one in error.errors}):
                    raise
                continue
            spans.received(claim, since)
            with self._lock:
                self.stock.claimed(claim, self._clock(), asked)
                if claim is not None:
                    self._arrived.ring(len(claim.messages))
                    self._pulse.hasten(self._clock())
                    self._leases.ring()
            if claim is None:
                await self._rest(asked)

    async def _rest(self, asked: float) -> None:
        # A server that does not hold the poll, such as one that is stopping, is not asked in a tight loop.
        if self._clock() - asked < self.stock.wait / 2:
            await self._pause(0.1)

    async def _await_room(self) -> int:
        """Waits until more messages are wanted, and says how many; 0 when the loop is over."""
        with self._lock:
            while not self._stopped.is_set():
                if size := self.stock.wanted():
                    return size
                await self._room.rung()
            return 0

    # The settler

    async def _settle(self) -> None:
        while due := await self._await_settlements():
            settlements = iter(due)
            for calls in claims.together(settlement.call() for settlement in due):
                since = spans.now()
                errors = await self._failures(calls)
                with self._lock:
                    for settlement, error in zip(islice(settlements, len(calls)), errors, strict=True):
                        spans.settled(settlement.verb, settlement.hold.claim, len(settlement.ids), since, error)
                        self.stock.settled(settlement, error, self._clock())
                        if error is not None or (self._hungry and self.stock.suspicious):
                            self._leases.ring()

    async def _failures(self, calls: list[Call[Any]]) -> list[TarryError | None]:
        """Sends acks and fails; returns the error of each, or None."""
        # A result is worth sending for as long as the lease may last.
        patience = max(30.0, self._terms.lease)
        if len(calls) == 1:
            return [await self._failure(calls[0], patience)]
        try:
            errors = await self._send(claims.settle(calls), deadline=patience)
        except Unavailable as error:
            return [error] * len(calls)
        except TarryError:  # the request failed as a whole: each call goes alone
            return [await self._failure(call, patience) for call in calls]
        return [
            await self._failure(call, patience) if isinstance(error, Unavailable) else error
            for call, error in zip(calls, errors, strict=True)
        ]

    async def _await_settlements(self) -> list[Settlement]:
        """Waits for settlements that are due; returns none when the loop is over."""
        with self._lock:
            while True:
                now = self._clock()
                idle = self._hungry > 0 and not self.stock.waiting
                hurry = self._draining or idle or bool(self.stock.alone)
                due = self._holds.take_settlements(now, hurry=hurry)
                if due or self._draining:
                    return due
                at = self._holds.next_settlement_at()
                await self._owed.rung(None if at is None else at - now)

    # The keeper

    async def _keep(self) -> None:
        while (due := await self._await_renewals()) is not None:
            await self._give_sign()
            for hold in due:
                with self._lock:
                    begun = [id_ for _, ids in self.stock.begun(hold) for id_ in ids]
                error = await self._failure(self.stock.extend(hold, begun), self._terms.lease / 3)
                if begun and isinstance(error, BadRequest):  # an older server, beside the one that gave the claim
                    error = await self._failure(self.stock.extend(hold), self._terms.lease / 3)
                with self._lock:
                    self.stock.renewed(hold, error, self._clock(), begun)
                    self._room.ring()
                    self._arrived.ring(ALL)  # its messages may have waited because it was doubtful

    async def _await_renewals(self) -> list[Hold] | None:
        """Waits until leases are to be renewed or a sign of life is due; None when the loop is over."""
        with self._lock:
            while not self._draining:
                now = self._clock()
                self.stock.suspect(self._hungry, now)
                due = self._holds.due_for_renewal(now)
                wait = self._pulse.wait(now)
                if due or wait <= 0:
                    return due
                at = self._holds.next_renewal_at()
                await self._leases.rung(wait if at is None else min(at - now, wait))
            return None

    async def _give_sign(self) -> None:
        asked = self._clock()
        with self._lock:
            if not self._pulse.begin(asked):
                return
            begun = self._pulse.begun()
        try:
            alive = await self._sign([(hold.claim.id, ids) for hold, ids in begun])
            with self._lock:
                for hold, ids in begun:
                    if hold.claim.id not in alive.untold:
                        hold.told.update(ids)
                self._pulse.heard(asked, alive.seconds)
                self._arrived.ring(ALL)  # messages may have waited for this
        except TarryError as error:
            # Without a sign, claims last as long as their leases, or end with the client; later calls show which.
            _log.debug("a sign of life to %s: %s", self._terms.topic, error)
        with self._lock:
            self._pulse.end(self._clock())

    async def _sign(self, begun: Sequence[tuple[str, Sequence[str]]]) -> Alive:
        if begun:
            with suppress(BadRequest):  # from an older server, beside the one that gave the claims
                return await self._send(claims.renew(self._terms.client, begun), deadline=0.0)
        return await self._send(claims.renew(self._terms.client), deadline=0.0)

    async def _failure(self, call: Call[Any], deadline: float) -> TarryError | None:
        try:
            await self._send(call, deadline=deadline)
        except TarryError as error:
            return error
        return None
