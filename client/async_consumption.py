"""The loop behind the asynchronous `consume` and `run`: three tasks around a `Stock`.

The fetcher claims ahead while handlers work, the settler sends acks and fails, the keeper renews leases, as in
`consumption`. They are shielded from cancellation, because what is held wants to be given back; `stop` and `close` end
them. Nothing is awaited between a look at the state and the wait for its change, so no lock is needed.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from anyio import CancelScope, Event, create_task_group, move_on_after
from anyio.lowlevel import checkpoint

from .async_claims import AsyncClaims
from .async_delivery import AsyncDelivery
from .async_tasks import start
from .delivery import MESSAGE_FIELDS
from .durations import Duration
from .errors import LeaseLost, NotFound, TarryError, Unavailable
from .holds import Hold, Settlement
from .records import Claim
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

    def __init__(self, claims: AsyncClaims, terms: Terms, clock: Callable[[], float] = time.monotonic) -> None:
        self._claims = claims
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
                        await self._claims.deregister(self._terms.client, deadline=SIGN / 5)
        finally:
            self._ended.set()

    async def _confirm(self) -> None:
        """Of a broadcast topic: what was seen is not to come again. The answer is left, and not confirmed."""
        if not self._stock.unseen:
            return
        try:
            await self._claim(1, deadline=PATIENCE)
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
        fields = {name: getattr(message, name) for name in MESSAGE_FIELDS}
        delivery = AsyncDelivery(hold=hold, acknowledger=self, **fields)
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
                claim = await self._claim(size)
            except Unavailable as error:
                if not self._stopped.is_set():
                    self._stock.absence.failed("claiming from", error, self._clock())
                await self._rest(asked)
                continue
            self._stock.absence.answered(self._clock())
            self._stock.told_alive(asked)
            if claim is not None:
                self._stock.add(claim, self._clock(), asked)
                self._arrived.ring()
                if self._stock.watched and not self._registered:
                    self._sign_at = self._clock()  # whoever is killed now is missed from now on
                self._held.ring()
            else:
                await self._rest(asked)

    async def _rest(self, asked: float) -> None:
        # A server that does not hold the poll, as one that is stopping, is not asked in a tight circle.
        if self._clock() - asked < self._terms.wait / 2:
            with move_on_after(0.1):
                await self._stopped.wait()

    async def _claim(self, size: int, deadline: float | None = None) -> Claim | None:
        terms = self._terms
        last = deadline is not None
        return await self._claims.claim(
            terms.topic,
            terms.group,
            client=terms.client,
            size=size,
            wait=0 if last else round(terms.wait * 1000),
            lease=round(terms.lease * 1000),
            tags=terms.tags,
            start=terms.start,
            after=self._stock.after,
            deadline=deadline,
            abandon=None if last else self._stopped,
        )

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
        # A result is worth telling for as long as the lease may last.
        deadline = max(30.0, self._terms.lease)
        claim, ids = settlement.hold.claim.id, settlement.ids
        try:
            if settlement.verb == "ack":
                await self._claims.ack(claim, ids, deadline=deadline)
            else:
                await self._claims.fail(
                    claim,
                    ids,
                    reason=settlement.reason,
                    retry_after=settlement.retry_after,
                    count=settlement.count,
                    deadline=deadline,
                )
        except (LeaseLost, NotFound) as error:
            self._stock.absence.answered(self._clock())
            self._stock.told_too_late(settlement, error, self._clock())
            self._held.ring()
        except TarryError as error:
            self._stock.not_told(settlement, error, self._clock())
        else:
            self._stock.absence.answered(self._clock())

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
            alive = await self._claims.renew(self._terms.client, deadline=0.0)
            self._registered = True
            self._stock.told_alive(asked, alive.seconds)
            self._arrived.ring()  # they may have waited for this
        except TarryError as error:
            # Without one the claims live by their leases alone, or die with the silence: either is told by the claims.
            _log.debug("a sign of life to %s: %s", self._terms.topic, error)
        self._sign_at = self._clock() + self._stock.sign_every

    async def _renew(self, hold: Hold) -> None:
        lease = round(self._terms.lease * 1000)
        try:
            await self._claims.extend(hold.claim.id, lease, deadline=self._terms.lease / 3)
        except (LeaseLost, NotFound):
            self._stock.absence.answered(self._clock())
            self._stock.lose(hold)
            self._room.ring()
        except TarryError as error:
            self._stock.not_renewed(hold, error, self._clock())
            self._room.ring()
        else:
            self._stock.absence.answered(self._clock())
            self._holds.renewed(hold, self._clock())
            self._arrived.ring()  # it may have been in doubt
