"""The coordinators of all groups: passes claims, settlements and the end of clients on to them."""

from collections.abc import Mapping, Sequence
from typing import Literal

import trio
from attrs import define, evolve, field

from ....store import catalogue
from ....store.errors import GroupGone, StoreError
from ....store.groups import holdings
from ....store.groups.claim_ids import parse_claim
from ....store.records import Claim, ClaimKey, ClaimRequest, Group, GroupState, Settled, Settlement
from ....store.store import Store
from ...clock import Clock
from ...errors import NothingToSettle, ServiceError, Stopping, UnknownClaim
from ...metrics import Metrics
from ...outages import tell_failure
from ..batching.patience import until_free
from ..signals import Signals
from ..state.cleaning_notes import CleaningNotes
from ..state.directory import Directory
from .coordinator import Coordinator
from .turns import Turns


@define(eq=False)
class Groups:
    """A coordinator for each group that somebody has asked for here."""

    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _signals: Signals
    _cleaning: CleaningNotes
    _turns: Turns
    _present_for: int
    _coordinators: dict[int, Coordinator] = field(factory=dict[int, Coordinator], init=False)
    _nursery: trio.Nursery | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)

    def open(self, nursery: trio.Nursery) -> None:
        """From now on coordinators run as tasks of this nursery."""
        self._nursery = nursery

    def stop(self) -> None:
        self._stopping = True
        for coordinator in self._coordinators.values():
            coordinator.stop()

    @property
    def idle(self) -> bool:
        return all(coordinator.idle for coordinator in self._coordinators.values())

    async def state(self, group: Group) -> GroupState:
        """The group's counters and its clients: those that hold something, and those that are here."""
        state = await self._store.read(catalogue.group_state, group)
        clients = {*state.clients, *state.owners.values(), *self.present(group)}
        return evolve(state, clients=tuple(sorted(clients)))

    async def claim(self, group: Group, request: ClaimRequest, wait: int) -> Claim | None:
        """A claim, or None when there is nothing within `wait` milliseconds, or no such group any more."""
        self._cleaning.see(group.id)
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
        """Acks, fails or extends a claim, and notes which messages were `begun`; the verb "begin" does only that.
        `Settled.lost` says that nothing was done. Raises `UnknownClaim` or `NothingToSettle`."""
        keys = parse_claim(claim_id)
        group = await self._group_of_claim(keys)
        if claim_id == "null" or (group is not None and group.topic.kind == "broadcast"):
            raise NothingToSettle(
                "a broadcast topic hands messages out without a claim: there is nothing to ack, fail or extend;"
                " confirm them with after: next in the next claim"
            )
        if group is None:
            raise UnknownClaim(f"there is no claim {claim_id[:100]!r}")
        self._cleaning.see(group.id)
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
        """The group of a claim, by the claim's public name; the claim itself need not exist."""
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
                there = await self._store.write(holdings.find_places_now, keys)
                if not there:
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
        """A seek has moved the group: these claims are over, and there may be messages to claim."""
        if acked:
            self._metrics.of_group("acked", group.topic.name, group.name, acked)
        coordinator = self._coordinator(group)
        coordinator.forget(keys)
        self._signals.doorbells.ring_group(group.id)
        self._signals.group_changed(group.id)

    def present(self, group: Group | None = None) -> set[str]:
        """The clients of ordered topics that are present; of one group, or of all."""
        ids = self._coordinators.keys() if group is None else self._coordinators.keys() & {group.id}
        return {client for id_ in ids for client in self._coordinators[id_].present()}

    def members(self) -> dict[int, dict[str, int]]:
        """For each group of an ordered topic: the clients that ask for it here, and when each last did."""
        found = {id_: coordinator.members() for id_, coordinator in self._coordinators.items() if coordinator.ordered}
        return {id_: members for id_, members in found.items() if members}

    def share_among(self, group_id: int, clients: set[str]) -> None:
        """Tells the coordinator which clients share the queues of a group, here and elsewhere."""
        if (coordinator := self._coordinators.get(group_id)) is not None:
            coordinator.share_among(clients)

    def look_around(self) -> None:
        """Lets each coordinator look whether a client may have messages that another has left."""
        for coordinator in self._coordinators.values():
            coordinator.look_around()

    async def _group_of_claim(self, keys: Sequence[ClaimKey]) -> Group | None:
        """The group of a claim with these ranges, if all of their queues are its own."""
        if not keys:
            return None
        queue_ids = {key.queue_id for key in keys}
        group = await self._directory.look_up_group(keys[0].group_id, queue_ids)
        return group if group is not None and queue_ids.issubset(group.queue_ids) else None

    def _coordinator(self, group: Group) -> Coordinator:
        coordinator = self._coordinators.get(group.id)
        if coordinator is None or coordinator.retired:
            if self._directory.group_by_id(group.id) is None:
                raise GroupGone("the group has been removed meanwhile")
            if self._nursery is None:
                raise Stopping("the server is starting: its store has not answered yet")
            self._turns.forget(group.id)  # the id may have been another group's
            bell = self._signals.doorbells.open(group)
            coordinator = self._coordinators[group.id] = Coordinator(
                group, self._directory, self._clock, self._turns, bell, self._present_for
            )
            if self._stopping:
                coordinator.stop()
            self._nursery.start_soon(self._run, group.id, coordinator)
        return coordinator

    async def _run(self, group_id: int, coordinator: Coordinator) -> None:
        await coordinator.run()
        if self._coordinators.get(group_id) is coordinator:  # unless the id is another group's by now
            del self._coordinators[group_id]
            self._turns.forget(group_id)

    async def watch(self, key: ClaimKey, lease_until: int) -> None:
        group = await self._group_of_claim([key])
        if group is not None:
            self._coordinator(group).watch(key, lease_until)


def _count(places: Mapping[ClaimKey, Sequence[int]] | None) -> int:
    return 0 if places is None else sum(map(len, places.values()))
