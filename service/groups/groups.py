"""The coordinators of all groups: who claims, settles and goes away, and what the rest of the node hears of it."""

import functools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal

import structlog
import trio
from attrs import define, evolve, field

from ...store import catalogue
from ...store.errors import GroupGone, Locked, StoreError
from ...store.groups import holdings
from ...store.groups.claim_ids import format_claim, parse_claim
from ...store.records import (
    Claim,
    ClaimKey,
    ClaimRequest,
    Delivered,
    Gather,
    Group,
    GroupState,
    Settled,
    Settlement,
    Turn,
)
from ...store.store import Store
from ..alarm import Alarm
from ..batching.patience import until_free
from ..clock import Clock
from ..durations import format_time
from ..errors import NothingToSettle, ServiceError, Stopping, UnknownClaim
from ..metrics import Metrics
from ..notices import Tell
from ..outages import tell_failure
from ..topics.directory import Directory
from ..topics.rates import Rates
from .coordinator import Coordinator

_LINES = 4
"""Groups at a time that are stood in line for, each with a connection, when another transaction is working on them."""

_MEETING = 1.0
"""Seconds for which turns of a group stand in line at once, after one has met another transaction: mostly another
server's turn, which is over in a moment. A look first would be in vain, and reads what it then throws away."""

log = structlog.get_logger()


@define(eq=False)
class Groups:
    """A coordinator for each group that somebody has asked for here.

    `add` takes the timers of what goes onto the ladder, `see` hears that somebody asked for a group, `tell` tells
    other nodes that there may be something to claim, `place` says which of the nodes this is, and how many they are.
    """

    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _rates: Rates
    _alarm: Alarm
    _present_for: int
    _add: Callable[[int, int], None] = field(kw_only=True, alias="add")
    _see: Callable[[int], None] = field(kw_only=True, alias="see")
    _tell: Tell = field(kw_only=True, alias="tell")
    _place: Callable[[], tuple[int, int]] = field(kw_only=True, alias="place")
    _coordinators: dict[int, Coordinator] = field(factory=dict[int, Coordinator], init=False)
    _of_topic: defaultdict[int, list[Coordinator]] = field(factory=lambda: defaultdict(list), init=False)
    _met_until: dict[int, float] = field(factory=dict[int, float], init=False)
    """By group id, up to when its turns stand in line at once: trio's time."""
    _furthest: dict[int, dict[int, int]] = field(factory=dict[int, dict[int, int]], init=False)
    """By group id and the topic's own queue's, from which offset on this server has handed out nothing."""
    _line: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_LINES), init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)

    def open(self, nursery: trio.Nursery) -> None:
        """From now on coordinators are at work, as tasks of this nursery."""
        self._nursery = nursery

    def stop(self) -> None:
        """No more claims; settlements go on."""
        self._stopping = True
        for coordinator in self._coordinators.values():
            coordinator.stop()

    @property
    def idle(self) -> bool:
        """Whether nothing waits for a turn."""
        return all(coordinator.idle for coordinator in self._coordinators.values())

    @property
    def awaited(self) -> set[int]:
        """The ids of groups of which somebody waits for messages."""
        return {id_ for id_, coordinator in self._coordinators.items() if coordinator.waiting}

    async def state(self, group: Group) -> GroupState:
        """Its counters, and its clients: those that hold something, and those that are here."""
        state = await self._store.read(catalogue.group_state, group)
        clients = {*state.clients, *state.owners.values(), *self.present(group)}
        return evolve(state, clients=tuple(sorted(clients)))

    async def claim(self, group: Group, request: ClaimRequest, wait: int) -> Claim | None:
        """A claim, or None when there is nothing within `wait` milliseconds, or no such group any more."""
        self._see(group.id)
        try:
            return await self._coordinator(group).claim(request, wait)
        except GroupGone:
            self._directory.forget_group(group)
            return None

    async def settle(
        self,
        claim_id: str,
        verb: Literal["ack", "fail", "extend", "begin"],
        *,
        ids: Sequence[int] | None = None,
        begun: Sequence[int] = (),
        reason: str | None = None,
        retry_after: int | None = None,
        count: bool = True,
        lease: int = 0,
    ) -> Settled:
        """Acks, fails or extends, and notes what was `begun`; to begin is to do no more than that. `Settled.lost` says
        that nothing was done. Raises `UnknownClaim`."""
        keys = parse_claim(claim_id)
        group = await self._group_of_claim(keys)
        if claim_id == "null" or (group is not None and group.topic.kind == "broadcast"):
            raise NothingToSettle(
                "a broadcast topic hands messages out without a claim: there is nothing to ack, fail or extend;"
                " confirm them with after: next in the next claim"
            )
        if group is None:
            raise UnknownClaim(f"there is no claim {claim_id[:100]!r}")
        self._see(group.id)
        coordinator = self._coordinator(group)
        wish = Settlement(keys[0], verb, None, reason, retry_after, count, lease)
        places = None if ids is None else await self._find(coordinator, keys, ids)
        started = await self._find(coordinator, keys, begun) if begun else dict[ClaimKey, tuple[int, ...]]()
        if (ids is not None and places is None) or started is None:
            raise UnknownClaim(f"there is no claim {claim_id[:100]!r}")
        if _count(places) < len(set(ids or ())) or _count(started) < len(set(begun)):
            self._metrics.fenced_write()
            return Settled(lost=True)
        parts = [
            evolve(wish, key=key, places=None if places is None else places.get(key, ()), begun=started.get(key, ()))
            for key in keys
            if key in started or (verb != "begin" and (places is None or key in places))
        ] or [evolve(wish, places=())]
        settlement = evolve(parts[0], others=tuple(parts[1:]))
        try:
            settled = await until_free(
                lambda: coordinator.settle(settlement), lambda one: one is not None and one.locked, "this claim"
            )
        except GroupGone:
            self._directory.forget_group(group)
            settled = None
        if settled is None:
            raise UnknownClaim(f"there is no claim {claim_id[:100]!r}")
        if settled.lost:
            self._metrics.fenced_write()
        return settled

    async def group_of(self, claim_id: str) -> Group | None:
        """The group that a claim is of, by its name outside; there need be no such claim."""
        keys = parse_claim(claim_id)
        return await self._group_of_claim(keys)

    async def _find(
        self, coordinator: Coordinator, keys: Sequence[ClaimKey], ids: Sequence[int]
    ) -> dict[ClaimKey, tuple[int, ...]] | None:
        """The positions of these messages in the ranges of a claim that have some; None when there is no such claim."""
        places: dict[ClaimKey, tuple[int, ...]] = {}
        missing = dict.fromkeys(ids)

        def look(known: Mapping[ClaimKey, Mapping[int, int]]) -> None:
            for key, own in known.items():
                if found := [id_ for id_ in missing if id_ in own]:
                    places[key] = tuple([own[id_] for id_ in found])
                    for id_ in found:
                        del missing[id_]

        here = {key: own for key in keys if (own := coordinator.places(key)) is not None}
        look(here)
        if missing or not here:
            others = [key for key in keys if key not in here]
            there = await self._store.read(holdings.find_places, others) if others else {}
            if not here and not there:
                return None
            look(there)
        return places or {keys[0]: ()}

    async def dismiss(self, client: str, claims: Sequence[ClaimKey]) -> None:
        """A client is gone: it waits no longer, and its claims, whose leases are over, are ended at once."""
        for coordinator in self._coordinators.values():
            coordinator.dismiss(client)
        async with trio.open_nursery() as nursery:
            for key in claims:
                nursery.start_soon(self._end_at_once, key)

    async def _end_at_once(self, key: ClaimKey) -> None:
        try:
            group = await self._group_of_claim([key])
            if group is not None:
                await self._coordinator(group).settle(Settlement(key, "end", at_once=True))
        except (StoreError, ServiceError) as error:
            tell_failure("claim_ends_later", error)  # the sweep finds that its lease is over

    def closed(self, group: Group, keys: Sequence[ClaimKey], acked: int) -> None:
        """A seek has moved the group: these claims are over, and there may be messages."""
        if acked:
            self._metrics.of_group("acked", group.topic.name, group.name, acked)
        coordinator = self._coordinator(group)
        coordinator.forget(keys)
        coordinator.notify()
        self._tell("group", group.id)

    def present(self, group: Group | None = None) -> set[str]:
        """The clients of ordered topics that are there; of one group, or of all."""
        ids = self._coordinators.keys() if group is None else self._coordinators.keys() & {group.id}
        return {client for id_ in ids for client in self._coordinators[id_].present()}

    def members(self) -> dict[int, dict[str, int]]:
        """By group of an ordered topic: the clients that ask for it here, and when each was there last."""
        found = {id_: coordinator.members() for id_, coordinator in self._coordinators.items() if coordinator.ordered}
        return {id_: members for id_, members in found.items() if members}

    def share_among(self, group_id: int, clients: set[str]) -> None:
        """The clients that share the queues of a group, here and elsewhere."""
        if (coordinator := self._coordinators.get(group_id)) is not None:
            coordinator.share_among(clients)

    def retire(self, group: Group) -> None:
        """The group is gone."""
        if (coordinator := self._coordinators.pop(group.id, None)) is not None:
            self._of_topic[group.topic.id].remove(coordinator)
            if not self._of_topic[group.topic.id]:
                del self._of_topic[group.topic.id]
            coordinator.retire()
            self._met_until.pop(group.id, None)
            self._furthest.pop(group.id, None)

    def look_again(self, group_id: int) -> None:
        """There may be messages for the group, or room for more in hand, whatever its last turn has found."""
        if (coordinator := self._coordinators.get(group_id)) is not None:
            coordinator.look_again()

    def look_around(self) -> None:
        """Somebody may have a right to messages that another has left."""
        for coordinator in self._coordinators.values():
            coordinator.look_around()

    def notify(self, queue_id: int) -> None:
        """A queue has grown."""
        # Of a topic with very many groups, only those that somebody has claimed for here.
        if (topic := self._directory.topic_of_queue(queue_id)) is not None:
            for coordinator in self._of_topic.get(topic.id, ()):
                coordinator.notify()
        elif (group := self._directory.group_of_queue(queue_id)) is not None and group.id in self._coordinators:
            self._coordinators[group.id].notify()

    async def _group_of_claim(self, keys: Sequence[ClaimKey]) -> Group | None:
        """The group of a claim of these ranges, if it has all of their queues."""
        if not keys:
            return None
        queue_ids = {key.queue_id for key in keys}
        group = await self._directory.look_up_group(keys[0].group_id, queue_ids)
        return group if group is not None and queue_ids.issubset(group.queue_ids) else None

    def _coordinator(self, group: Group) -> Coordinator:
        coordinator = self._coordinators.get(group.id)
        if coordinator is None:
            if self._directory.group_by_id(group.id) is None:
                raise GroupGone("the group has been removed meanwhile")
            if self._nursery is None:
                raise Stopping("the server is starting: its store has not answered yet")
            find = functools.partial(self._group_now, group)
            coordinator = self._coordinators[group.id] = Coordinator(
                *(find, self._clock, self._take_turn, self._turn_done), self._present_for
            )
            self._of_topic[group.topic.id].append(coordinator)
            if self._stopping:
                coordinator.stop()
            self._nursery.start_soon(coordinator.run)
        return coordinator

    def _group_now(self, group: Group) -> Group:
        """The group as it is now: its topic may have gained queues, its ladder may be another."""
        return self._directory.group_by_id(group.id) or group

    async def _take_turn(self, group: Group, gather: Gather) -> Turn:
        present = self._coordinator(group).present() if group.topic.ordered else ()

        def turn(*, free: bool) -> Awaitable[Turn]:
            place, later = self._place(), None if free else gather
            return self._store.turn(group, *gather(), present, free=free, place=place, gather=later)

        if trio.current_time() >= self._met_until.get(group.id, 0.0) or self._line.available_tokens < 1:
            try:
                return await turn(free=True)
            except Locked:
                # Another transaction is working on the group, for a moment or for long. Many groups that are held for
                # long must not take all connections from the others.
                self._met_until[group.id] = trio.current_time() + _MEETING
                if self._line.available_tokens < 1:
                    raise
        async with self._line:
            return await turn(free=False)

    def _turn_done(self, group: Group, settlements: Sequence[Settlement], turn: Turn) -> None:
        topic = group.topic.name
        if turn.acked:
            self._metrics.of_group("acked", topic, group.name, turn.acked)
        if turn.expired:
            self._metrics.of_group("expired", topic, group.name, turn.expired)
        for settlement, settled in zip(settlements, turn.settled, strict=True):
            if settled is None:
                continue
            for due, entry in settled.timers:
                self._add(due, entry)
            self._metrics.of_group("retried", topic, group.name, settled.retried)
            self._metrics.of_group("dead", topic, group.name, settled.dead)
            if settlement.verb == "end" and settled.lost:
                self._metrics.lease_lost(1)
                self._consume_timeout(group, settlement.key, settled)
        if settlements and (group.concurrency is not None or group.topic.ordered):
            self._tell("group", group.id)  # there is room, or a key goes on
        for claim in turn.ranges:
            self.handed_out(group, claim.messages, claim.claimed_at, first=self._is_first(claim))

    def _is_first(self, claim: Claim) -> bool:
        """Whether what is claimed is handed out for the first time, as far as this server knows: what was given back or
        redriven comes from a retry queue, and a seek leads back to where the group has been."""
        queue_id, first = claim.key.queue_id, claim.key.first
        if self._directory.group_of_queue(queue_id) is not None:
            return False
        furthest = self._furthest.setdefault(claim.key.group_id, {})
        been = furthest.get(queue_id, 0)
        furthest[queue_id] = max(been, first + claim.size)
        return first >= been

    def _consume_timeout(self, group: Group, key: ClaimKey, settled: Settled) -> None:
        facts = {
            "topic": group.topic.name,
            "group": group.name,
            "queue": group.number_of(key.queue_id),
            # Without its token: whoever has the whole name may settle the claim.
            "claim": format_claim(key).rpartition("-")[0],
            "retried": settled.retried,
            "dead": settled.dead,
        }
        log.warning("consume_timeout", **facts)
        self._alarm.ring("consume_timeout", at=format_time(self._clock.now()), **facts)

    def handed_out(self, group: Group, messages: Sequence[Delivered], at: int, *, first: bool = True) -> None:
        self._metrics.of_group("delivered", group.topic.name, group.name, len(messages))
        self._rates.count(group.topic.id, delivered=len(messages))
        if not first:
            return
        # What was asked for in the past was due when it was accepted.
        dues = [max(message.deliver_at, message.accepted_at) for message in messages if message.attempt == 1]
        self._metrics.lateness(group.topic.name, [(at - due) / 1000 for due in dues])

    async def watch(self, key: ClaimKey, lease_until: int) -> None:
        group = await self._group_of_claim([key])
        if group is not None:
            self._coordinator(group).watch(key, lease_until)


def _count(places: Mapping[ClaimKey, Sequence[int]] | None) -> int:
    return 0 if places is None else sum(map(len, places.values()))
