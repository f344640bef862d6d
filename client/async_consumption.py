"""The loop behind the asynchronous `consume` and `run`: three tasks around a `Stock`.

The fetcher claims ahead while handlers work, the settler sends acks and fails, the keeper renews leases, as in
`consumption`. They are shielded from cancellation, because what is held must be given back; `stop` and `close` end
them. Nothing is awaited between a look at the state and the wait for its change, so no lock is needed.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from anyio import CancelScope, Event, create_task_group, move_on_after
from anyio.lowlevel import checkpoint

from . import claims
from .async_tasks import start
from .async_transport import AsyncTransport
from .calls import Call
from .delivery import AsyncDelivery
from .durations import Duration
from .errors import TarryError, Unavailable
from .holds import Hold, Settlement
from .stock import PATIENCE, SIGN, Stock, Terms

_log = logging.getLogger("tarry.client")


class _Bell:
    """Something has changed: whoever waits looks again."""

    def __init__(self) -> None:
        self._event = Event()

    def ring(self) -> None:
        self._event.set()
        self._event = Event()

    async def wait(self, seconds: float | None = None) -> None:
        event = self._event
        with CancelScope() if seconds is None else move_on_after(seconds):
            await event.wait()


class AsyncConsumption:
    """Messages of one group, held by one client, for the tasks of one event loop."""

    def __init__(self, transport: AsyncTransport, terms: Terms, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._terms = terms
        self._clock = clock
        self._stock = Stock(terms)
        self._holds = self._stock.holds
        self._arrived = _Bell()
        self._room = _Bell()
        self._owed = _Bell()
        self._held = _Bell()
        self._sign_at = clock()
        """When the next sign of life is due."""
        self._registered = False
        self._hungry = 0
        """Tasks in `next` that have nothing to handle."""
        self._draining = False
        self._error: BaseException | None = None
        self._stopped = Event()
        self._closing = Event()
        self._drained = Event()
        self._ended = Event()

    @property
    def topic(self) -> str:
        """What is consumed."""
        return self._terms.topic

    async def live(self) -> None:
        """Claims, settles and renews until `close`; then gives back what is held and sends what is owed."""
        try:
            with CancelScope(shield=True):
                async with create_task_group() as tasks:
                    start(tasks, self._guard, self._settle)
                    start(tasks, self._guard, self._keep)
                    await self._guard(self._fetch)
                    await self._closing.wait()
                    await self._confirm()
                    self._stock.give_back()
                    self._draining = True
                    self._owed.ring()
                    with move_on_after(PATIENCE):
                        await self._drained.wait()
                    tasks.cancel_scope.cancel()
                self._stock.absence.closed(self._clock())
                if self._registered and not self._stock.keeps_place:
                    with suppress(TarryError):
                        await self._transport.send(claims.deregister(self._terms.client), deadline=SIGN / 5)
        finally:
            self._ended.set()

    async def _confirm(self) -> None:
        """Confirms what was seen of a broadcast topic, by one more claim, whose own answer is not confirmed."""
        if not self._stock.unseen:
            return
        try:
            await self._transport.send(self._stock.claim(1, last=True), deadline=PATIENCE)
        except TarryError as error:
            _log.warning("confirming on %s: %s; the last messages come again", self._terms.topic, error)
        self._stock.confirmed()

    async def next(self, timeout: float | None = None) -> AsyncDelivery | None:
        """The next message; None when there was none for `timeout`, after `stop`, and past the limit.

        Cancelled, it has taken none.
        """
        await checkpoint()
        until = None if timeout is None else self._clock() + timeout
        while not self._stopped.is_set():
            if self._error is not None:
                raise self._error
            if (delivery := self._hand_out()) is not None:
                return delivery
            if self._stock.exhausted():
                return None
            rest = None if until is None else until - self._clock()
            if rest is not None and rest <= 0:
                return None
            self._hungry += 1
            self._owed.ring()
            try:
                await self._arrived.wait(rest)
            finally:
                self._hungry -= 1
        if self._error is not None:
            raise self._error
        return None

    def _hand_out(self) -> AsyncDelivery | None:
        taken = self._stock.take(self._clock())
        self._room.ring()
        if taken is None:
            return None
        if self._stock.exhausted():
            self._arrived.ring()
        hold, message = taken
        delivery = AsyncDelivery.of(message, hold, self)
        self._stock.watch(delivery, hold)
        return delivery

    def ack(self, hold: Hold, id_: str) -> bool:
        """Notes a handled message."""
        taken = self._stock.ack(hold, id_, self._clock())
        self._settled(hold)
        return taken

    def fail(self, hold: Hold, id_: str, reason: str | None, retry_after: Duration | None, *, count: bool) -> bool:
        """Notes a message to be given back."""
        taken = self._stock.fail(Settlement(hold, "fail", (id_,), reason, retry_after, count))
        self._settled(hold)
        return taken

    def end_loop(self) -> None:
        """The loop goes no further: what it has left unsettled has failed."""
        self._stock.end_loop()

    def left(self) -> int:
        """How many messages the loop has left unsettled."""
        return self._stock.left

    def _settled(self, hold: Hold) -> None:
        if hold.claim.ordered:
            self._arrived.ring()  # the next of its key may be handed out
        self._owed.ring()
        self._room.ring()

    def stop(self) -> None:
        """No more claims, and nothing more is handed out; what is being handled may be finished."""
        self._stopped.set()
        self._arrived.ring()
        self._room.ring()

    def leave(self) -> None:
        """Begins to close."""
        self.stop()
        self._closing.set()

    async def close(self) -> None:
        """Gives back what is held, sends what is owed, and ends the tasks; also where all else is cancelled."""
        self.leave()
        with CancelScope(shield=True):
            await self._ended.wait()

    def statistics(self) -> dict[str, int]:
        """What is held at this moment."""
        return {"messages": self._holds.messages, "bytes": self._holds.bytes, "waiting": len(self._stock.waiting)}

    async def _guard(self, loop: Callable[[], Awaitable[None]]) -> None:
        """A loop that breaks ends the consumption, and its error is raised from `next`."""
        try:
            await loop()
        except Exception as error:
            self._error = error
            self.stop()

    # The fetcher

    async def _fetch(self) -> None:
        while (size := await self._await_room()) > 0:
            asked = self._clock()
            try:
                claim = await self._transport.send(self._stock.claim(size), abandon=self._stopped)
            except Unavailable as error:
                if not self._stopped.is_set():
                    self._stock.absence.failed("claiming from", error, self._clock())
                await self._rest(asked)
                continue
            self._stock.claimed(claim, self._clock(), asked)
            if claim is not None:
                self._arrived.ring()
                if self._stock.watched and not self._registered:
                    self._sign_at = self._clock()  # from now on the server notices when this client dies
                self._held.ring()
            else:
                await self._rest(asked)

    async def _rest(self, asked: float) -> None:
        # A server that does not hold the poll, as one that is stopping, is not asked in a tight loop.
        if self._clock() - asked < self._terms.wait / 2:
            with move_on_after(0.1):
                await self._stopped.wait()

    async def _await_room(self) -> int:
        """Waits until more is wanted, and says how many; 0 when it is over."""
        while not self._stopped.is_set():
            if size := self._stock.wanted():
                return size
            await self._room.wait()
        return 0

    # The settler

    async def _settle(self) -> None:
        try:
            while due := await self._await_settlements():
                for settlement in due:
                    await self._send(settlement)
        finally:
            self._drained.set()

    async def _await_settlements(self) -> list[Settlement]:
        """Waits for calls that are due; none when it is over."""
        while True:
            now = self._clock()
            hurry = self._draining or (self._hungry > 0 and not self._stock.waiting)
            due = self._holds.take_settlements(now, hurry=hurry)
            if due or self._draining:
                return due
            at = self._holds.next_settlement_at()
            await self._owed.wait(None if at is None else max(0.0, at - now))

    async def _send(self, settlement: Settlement) -> None:
        # A result is worth sending for as long as the lease may last.
        deadline = max(30.0, self._terms.lease)
        error = await self._failure(settlement.call(), deadline)
        self._stock.settled(settlement, error, self._clock())
        if error is not None:
            self._held.ring()

    # The keeper

    async def _keep(self) -> None:
        while not self._draining:
            now = self._clock()
            if now >= self._sign_at:
                await self._give_sign()
            for hold in self._holds.due_for_renewal(now):
                await self._renew(hold)
            at = self._holds.next_renewal_at()
            at = self._sign_at if at is None else min(at, self._sign_at)
            await self._held.wait(max(0.0, at - self._clock()))

    async def _give_sign(self) -> None:
        if not self._stock.watched:
            self._sign_at = self._clock() + self._stock.sign_every / 5
            return
        asked = self._clock()
        try:
            alive = await self._transport.send(claims.renew(self._terms.client), deadline=0.0)
            self._registered = True
            self._stock.note_alive(asked, alive.seconds)
            self._arrived.ring()  # they may have waited for this
        except TarryError as error:
            # Without one, claims last as long as their leases, or end with the client; calls for them show which.
            _log.debug("a sign of life to %s: %s", self._terms.topic, error)
        self._sign_at = self._clock() + self._stock.sign_every

    async def _renew(self, hold: Hold) -> None:
        error = await self._failure(self._stock.extend(hold), self._terms.lease / 3)
        self._stock.renewed(hold, error, self._clock())
        self._room.ring()
        self._arrived.ring()  # it may have been in doubt

    async def _failure(self, call: Call[Any], deadline: float) -> TarryError | None:
        try:
            await self._transport.send(call, deadline=deadline)
        except TarryError as error:
            return error
        return None
