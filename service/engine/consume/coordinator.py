"""A group's coordinator: its waiting acks, fails and claims go into one transaction, a turn at a time.

A turn takes all that waits, which is where the gain lies. A claim that finds nothing stays here, without a connection
or a transaction, until there may be messages or its wait is over. A claim granted to a client that has gone meanwhile
is given back, uncounted. Leases are watched here too: one that runs out is settled as lost. A settlement that no caller
waits for is tried until it is done.
"""

import heapq
from collections.abc import Mapping, Sequence
from itertools import islice

import structlog
import trio
from attrs import define, field

from ....store.errors import GroupGone, Locked, StoreError, is_of_one
from ....store.records import Claim, ClaimKey, ClaimRequest, Group, Settled, Settlement, Turn
from ...clock import Clock
from ...errors import Busy, Overloaded
from ..state.directory import Directory
from ..state.doorbells import Doorbell
from .turns import Turns

_TOGETHER = 500
"""Settlements in one turn at most, and as many claims."""
_RANGES = 2_000
"""Ranges that are settled in one turn at most: each is a row."""
_WAITING = 20_000
"""Settlements that may wait at one coordinator, and as many claims."""
_PAUSE = 0.2
_SPOILT_REST = 60_000
"""Milliseconds before a settlement that no caller waits for is tried again, when its own data makes it fail."""
_LOCKED_REST = 1_000
"""Milliseconds before a lease that ran out is ended, when a user's transaction holds the claim."""
_FIRST_REST, _LONGEST_REST = 0.02, 0.5
"""Seconds before the next turn when another transaction holds the group, doubled each time."""
_LONGEST_WAIT = 3.0
"""Seconds that a caller waits for such a transaction."""
_HELD = "another transaction is working on this group; try again in a moment"
_PACE = 0.004
"""Seconds from one claiming turn that emptied the queues to the next. A steady trickle is then claimed in handfuls: at
1000 a second a third fewer requests, and a p99 of lateness that is a quarter lower on the embedded store. A client that
comes after a rest, or finds more waiting, does not wait."""

_SURE = 1.0
"""Seconds for which it is believed that there is nothing to claim. Other nodes work on the group, too; news of what
they publish, settle or seek comes here late, or not at all."""

log = structlog.get_logger()


@define(eq=False, kw_only=True)
class _Waiting:
    answered: trio.Event = field(factory=trio.Event)
    error: Exception | None = None
    held_since: float | None = None
    """When a turn of this caller first met another transaction that holds the group: trio's time."""


@define(eq=False)
class _Asking(_Waiting):
    request: ClaimRequest
    claim: Claim | None = None
    gone: bool = False
    final: bool = False
    """The caller does not wait: the next turn's answer stands, even if it is empty."""
    cut: bool = False
    """Its last turn stopped among messages of other tags, or left queues to other nodes: it goes on in the next turn,
    and does not return empty in between."""


@define(eq=False)
class _Settling(_Waiting):
    settlement: Settlement
    settled: Settled | None = None
    nobody: bool = False
    """No caller waits for it."""

    @property
    def ranges(self) -> int:
        return 1 + len(self.settlement.others)


@define(eq=False)
class _Lease:
    """An open claim whose end is watched here."""

    key: ClaimKey
    until: int
    places: Mapping[int, int] | None = None
    """Position by message id; None: another coordinator has granted the claim, or this one before a restart."""
    giving_back: Settlement | None = None
    """The settlement that gives the claim back, since its caller has gone; it is to be tried again."""


class Coordinator:
    """Serves one group. `turns` runs the transaction, and gathers the waiting callers once more if it had to stand in
    line. The `bell` is rung when there may be messages for the group.

    A client has a share of the queues of an ordered topic for `present_for` milliseconds after it last asked.
    """

    def __init__(
        self,
        group: Group,
        directory: Directory,
        clock: Clock,
        turns: Turns,
        bell: Doorbell[_Asking],
        present_for: int = 15_000,
    ) -> None:
        self._group = group
        self._directory = directory
        self._clock = clock
        self._turns = turns
        self._bell = bell
        self._present_for = present_for
        self._settling: list[_Settling] = []
        self._leases: dict[tuple[int, int], _Lease] = {}  # by queue and number of the claim
        self._ends: list[tuple[int, int, int]] = []  # (when to look, queue, number), a heap; may hold ended claims
        self._claiming = False  # a turn is claiming, and what it leaves is not known yet
        self._claims_from = 0.0  # trio's time before which a trickle is not claimed
        self._sure_until = 0.0  # trio's time up to which an empty turn is believed
        self._stopped = False
        self._asked_at: dict[str, int] = {}  # when each client last asked, of an ordered topic
        self._elsewhere: set[str] = set()  # clients that ask for it at other servers
        self._sharing: set[str] = set()  # clients among whom the last turn shared the queues
        self._left = False  # the last turn left messages that none of its callers may have
        self._rest = _FIRST_REST  # before the next turn, while another transaction holds the group

    def stop(self) -> None:
        """Stops claims: callers that wait return empty. Settlements go on."""
        self._stopped = True
        self._bell.send_home()

    @property
    def retired(self) -> bool:
        return self._bell.retired

    @property
    def _stopping(self) -> bool:
        return self._stopped or self._bell.retired

    def present(self) -> set[str]:
        """The clients that share the queues of an ordered topic: they wait, or asked lately, here or elsewhere."""
        return {*self.members(), *self._elsewhere}

    def members(self) -> dict[str, int]:
        """The clients among them that ask here, and when each last did: Unix milliseconds."""
        now = self._clock.now()
        self._asked_at = {client: at for client, at in self._asked_at.items() if at > now - self._present_for}
        return self._asked_at | {asking.request.client: now for asking in self._bell.asking}

    def share_among(self, clients: set[str]) -> None:
        """Takes the members of the group that all servers have written down; those that ask here are known better."""
        self._elsewhere = clients - self._asked_at.keys()
        self.look_around()

    def look_around(self) -> None:
        """Rings the bell if the clients have changed: one may have a right to messages that another has left."""
        if self._left and self._bell.asking and self.present() != self._sharing:
            self._bell.ring()

    def dismiss(self, client: str) -> None:
        """The client is gone: its waits end, and its share of the queues is free."""
        for asking in [asking for asking in self._bell.asking if asking.request.client == client]:
            del self._bell.asking[asking]
            asking.answered.set()
        self._elsewhere.discard(client)
        if self._asked_at.pop(client, None) is not None:
            self._bell.ring()

    def watch(self, key: ClaimKey, lease_until: int) -> None:
        """Watches the lease of a claim that another coordinator, or this one before a restart, has granted.

        Also corrects the end of a lease that was granted here: another server may have ended it.
        """
        place = key.queue_id, key.number
        if (lease := self._leases.get(place)) is not None and lease.key == key:
            lease.until = lease_until
        else:
            self._leases[place] = _Lease(key, lease_until)
        self._look_at(place, lease_until)

    def _look_at(self, place: tuple[int, int], at: int) -> None:
        heapq.heappush(self._ends, (at, *place))
        self._bell.wake.set()

    def forget(self, keys: Sequence[ClaimKey]) -> None:
        """Watches the leases of these claims no longer: the claims have ended."""
        for key in keys:
            self._leases.pop((key.queue_id, key.number), None)

    def places(self, key: ClaimKey) -> dict[int, int] | None:
        """Position by message id in an open claim that this coordinator granted; None if it does not know it."""
        lease = self._leases.get((key.queue_id, key.number))
        return None if lease is None or lease.key != key or lease.places is None else dict(lease.places)

    async def claim(self, request: ClaimRequest, wait: int) -> Claim | None:
        """A claim, or None when there is nothing within `wait` milliseconds."""
        if self._stopping:
            return None
        if self.ordered:
            self._bell.may_find |= self._left or request.client not in self._asked_at
            self._asked_at[request.client] = self._clock.now()
        if not self._bell.may_find and not self._claiming and wait <= 0:
            if trio.current_time() < self._sure_until:
                return None  # the last turn left nothing, and nothing came since
            self._bell.look_again()
        if len(self._bell.asking) >= _WAITING:
            raise Overloaded("too many claims are waiting for this group; try again in a moment")
        asking = _Asking(request, final=wait <= 0)
        self._bell.asking[asking] = None
        if self._bell.may_find:
            self._bell.wake.set()
        try:
            with trio.move_on_after(wait / 1000 if wait > 0 else float("inf")):
                await asking.answered.wait()
            if not asking.answered.is_set() and asking in self._bell.asking and (self._paused or not asking.cut):
                del self._bell.asking[asking]
                if asking.held_since is not None:
                    raise Busy(_HELD)
                return None
            asking.final = True
            await asking.answered.wait()  # a turn has it: its answer is near, and must not be lost
        except trio.Cancelled:
            asking.gone = True
            self._bell.asking.pop(asking, None)
            if asking.claim is not None:
                self._give_back(asking.claim)
            raise
        if asking.error is not None:
            raise asking.error
        return asking.claim

    async def settle(self, settlement: Settlement) -> Settled | None:
        """The answer to a settlement, after its commit; None when the store knows no such claim. Raises `GroupGone`."""
        if self._bell.retired:
            raise GroupGone("the group has been removed meanwhile")
        if len(self._settling) >= _WAITING:
            raise Overloaded("too many settlements are waiting for this group; try again in a moment")
        settling = _Settling(settlement)
        self._settling.append(settling)
        self._bell.wake.set()
        await settling.answered.wait()
        if settling.error is not None:
            raise settling.error
        return settling.settled

    @property
    def _found_group(self) -> Group:
        """The group as it is now: its topic may have gained queues, or its ladder may have changed."""
        return self._directory.group_by_id(self._group.id) or self._group

    @property
    def ordered(self) -> bool:
        return self._found_group.topic.ordered

    @property
    def _paused(self) -> bool:
        """Whether the group is paused: claims that do not wait return empty, others wait as if nothing were there."""
        return self._found_group.paused

    @property
    def idle(self) -> bool:
        return not self._settling

    async def run(self) -> None:
        """Takes turns for ever, one after another."""
        while not self._bell.retired or self._settling:
            await self._wait_for_work()
            self._bell.wake = trio.Event()
            if self._bell.retired:  # no lease of a removed group is watched
                self._leases.clear()
                self._ends.clear()
            settling, asking = list[_Settling](), list[_Asking]()
            self._gather_settling(settling)
            settling += self._lost()
            self._gather(settling, asking)
            if settling or asking:
                await self._turn(settling, asking)

    def _gather(self, settling: list[_Settling], asking: list[_Asking]) -> None:
        """Adds waiting callers to those of a turn, as many as it may take. The turn has not read the queues yet."""
        self._gather_settling(settling)
        if settling and self._bell.full:
            self._bell.full, self._bell.may_find = False, True
        if asking or (self._bell.may_find and trio.current_time() >= self._claims_from and not self._paused):
            came = list(islice(self._bell.asking, max(0, _TOGETHER - len(asking))))
            for one in came:
                del self._bell.asking[one]
            asking += came
        self._bell.may_find = self._bell.may_find and not asking  # set again by whoever streams while the turn runs
        self._claiming = bool(asking)

    def _gather_settling(self, settling: list[_Settling]) -> None:
        room = _RANGES - sum([one.ranges for one in settling])
        more = 0
        for one in islice(self._settling, max(0, _TOGETHER - len(settling))):
            room -= one.ranges
            if room < 0:
                break
            more += 1
        settling += self._settling[:more]
        del self._settling[:more]

    async def _wait_for_work(self) -> None:
        while not self._settling and not self._bell.retired:
            rest = 3600.0
            if self._paused:
                self._send_home()
            elif self._bell.asking and self._bell.may_find:
                rest = self._claims_from - trio.current_time()
            if self._ends:
                rest = min(rest, self._clock.seconds_until(self._ends[0][0]))
            if rest <= 0:
                return
            with trio.move_on_after(rest):
                await self._bell.wake.wait()
            self._bell.wake = trio.Event()

    def _lost(self) -> list[_Settling]:
        """Settlements for leases that have run out, and those that are to be tried again."""
        lost: list[_Settling] = []
        now = self._clock.now()
        while self._ends and self._ends[0][0] <= now and len(lost) < _TOGETHER:
            _, queue_id, number = heapq.heappop(self._ends)
            if (lease := self._leases.get((queue_id, number))) is None:
                continue  # the claim has ended
            if lease.giving_back is not None:
                lost.append(_Settling(lease.giving_back, nobody=True))
                lease.giving_back = None
            elif lease.until <= now:
                lost.append(_Settling(Settlement(lease.key, "end"), nobody=True))
                if lease.places is None:
                    self.forget([lease.key])
        return lost

    async def _turn(self, settling: list[_Settling], asking: list[_Asking], *, whole: bool = True) -> None:
        """Takes a turn. `whole`: callers that wait when its transaction begins are part of it, too."""
        group = self._found_group
        began = trio.current_time()
        sharing = self.present() if group.topic.ordered else set[str]()

        def gather() -> tuple[Sequence[Settlement], Sequence[ClaimRequest], int]:
            if whole:
                self._gather(settling, asking)
            return [one.settlement for one in settling], [one.request for one in asking], self._clock.now()

        try:
            turn = await self._turns.take(group, gather, sharing)
        except Locked:
            self._bell.may_find, self._claiming = True, False
            self._put_back(settling, asking)
            await trio.sleep(self._rest)
            self._rest = min(2 * self._rest, _LONGEST_REST)
            return
        except Exception as error:
            self._bell.may_find, self._claiming = True, False
            if len(settling) + bool(asking) > 1 and is_of_one(error) and not isinstance(error, GroupGone):
                await self._part(settling, asking)
            else:
                await self._failed(settling, asking, error)
            return
        self._rest = _FIRST_REST
        self._note(settling, turn)
        self._turns.tell(group, [one.settlement for one in settling], turn)
        if asking:
            self._claiming = False
            self._left, self._sharing, self._bell.full = turn.left, sharing, turn.full
            self._sure_until = trio.current_time() + _SURE
        if self._bell.full:
            self._bell.may_find = False
        elif turn.more:
            self._bell.may_find = True
        elif asking:
            self._claims_from = began + _PACE
        for waiting, settled in zip(settling, turn.settled, strict=True):
            waiting.settled = settled
            waiting.answered.set()
        if asking and not self._bell.may_find:
            self._send_home()
        for asker, claim in zip(asking, turn.claims, strict=True):
            passing = asker.request.tags is not None or turn.expired > 0
            asker.cut = claim is None and (turn.beside or (turn.cut and passing))
            self._answer(asker, claim)

    async def _part(self, settling: list[_Settling], asking: list[_Asking]) -> None:
        """Takes the turn once more, in parts: a spoilt row concerns one caller, and the others need not hear of it."""
        middle = len(settling) // 2
        for some in (settling[:middle], settling[middle:]):
            if some:
                await self._turn(some, [], whole=False)
        if asking:
            await self._turn([], asking, whole=False)

    def _send_home(self) -> None:
        """Returns empty to the callers that do not wait."""
        for asking in [asking for asking in self._bell.asking if asking.final]:
            del self._bell.asking[asking]
            asking.answered.set()

    def _answer(self, asking: _Asking, claim: Claim | None) -> None:
        asking.claim = claim
        if claim is not None and asking.gone:
            self._give_back(claim)
        elif claim is None and not (asking.final and not asking.cut) and not asking.gone and not self._stopping:
            asking.held_since = None
            self._bell.asking[asking] = None  # it goes on waiting
            return
        asking.answered.set()

    def _note(self, settling: Sequence[_Settling], turn: Turn) -> None:
        """Keeps track of the open claims and their leases as the turn left them."""
        for one, settled in zip(settling, turn.settled, strict=True):
            settlement = one.settlement
            keys = [part.key for part in settlement.ranges]
            if settled is None or settled.ended:
                self.forget(keys)
            elif settled.locked:
                if one.nobody or settlement.verb == "end":  # a user's transaction is acking some of it
                    self._try_again(settlement, _LOCKED_REST)
            elif settled.lost:
                continue  # nothing was done, or what is still open ends with its lease
            elif settled.lease_until:
                for key in keys:
                    self.watch(key, settled.lease_until)
        for claim in turn.ranges:
            key = claim.key
            self._leases[key.queue_id, key.number] = _Lease(key, claim.lease_until, claim.places)
            self._look_at((key.queue_id, key.number), claim.lease_until)

    def _put_back(self, settling: list[_Settling], asking: list[_Asking]) -> None:
        """Another transaction holds the group, nothing was done: callers come first in the next turn, or get `Busy`."""
        now = trio.current_time()
        everybody: list[_Waiting] = [*settling, *asking]
        for one in everybody:
            one.held_since = now if one.held_since is None else one.held_since
            if self._stopping or now - one.held_since >= _LONGEST_WAIT:
                one.error = Busy(_HELD)
        staying: list[_Settling] = []
        for one in settling:
            if one.nobody:
                self._try_again(one.settlement, round(1000 * self._rest))
            elif one.error is None:
                staying.append(one)
        self._settling[:0] = staying
        first = [one for one in asking if one.error is None and not one.gone]
        waiting = dict.fromkeys([*first, *self._bell.asking])
        self._bell.asking.clear()
        self._bell.asking.update(waiting)
        for one in everybody:
            if one.error is not None:
                one.answered.set()

    async def _failed(self, settling: list[_Settling], asking: list[_Asking], error: Exception) -> None:
        """Gives the error to every caller; settlements without a caller, and those of lost leases, are tried again."""
        rest = _SPOILT_REST if is_of_one(error) and not isinstance(error, GroupGone) else 0
        for waiting in settling:
            if waiting.nobody or waiting.settlement.verb == "end":
                self._try_again(waiting.settlement, rest)
        everybody: list[_Waiting] = [*settling, *asking]
        for one in everybody:
            one.error = error
            one.answered.set()
        if not isinstance(error, StoreError):
            log.error("turn_failed", exc_info=error)
        await trio.sleep(_PAUSE)

    def _give_back(self, claim: Claim) -> None:
        """The caller has gone: the claim goes back to the group, uncounted."""
        for part in claim.ranges:
            gone = Settlement(part.key, "fail", reason="the client went away", retry_after=0, count=False)
            self._settling.append(_Settling(gone, nobody=True))
        self._bell.wake.set()

    def _try_again(self, settlement: Settlement, rest: int) -> None:
        """Tries a settlement again in `rest` milliseconds. A claim not given back when its lease ends is lost."""
        at, place = self._clock.now() + rest, (settlement.key.queue_id, settlement.key.number)
        if settlement.verb == "end":
            self.watch(settlement.key, at)
        elif (lease := self._leases.get(place)) is not None and at < lease.until:
            lease.giving_back = settlement
            self._look_at(place, at)
