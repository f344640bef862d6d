"""Clients as an operator sees them: which there are, whether they live, and what they hold.

A client is listed if it renews, waits for messages, has asked for some of an ordered topic not long ago, or holds a
claim. This file decides nothing: `liveness` and `coordinator` do.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from attrs import define, evolve, frozen

from ....store.groups import holdings
from ....store.records import Group
from ....store.store import Store
from ..state.directory import Directory
from .groups import Groups
from .liveness import Liveness


@frozen
class QueueHolding:
    """What a client holds of a queue of a topic, and of the retry queue that stands beside it."""

    group: Group
    queue: int
    claims: int
    owner: bool


@frozen
class ClientState:
    """A client, and what it holds, by topic, group and queue. Times are Unix milliseconds."""

    name: str
    registered_at: int | None
    """None: it never renewed, and lives by the leases of its claims alone."""
    renewed_at: int | None
    alive: bool | None
    """None: it is not watched."""
    holds: Sequence[QueueHolding]


@define(eq=False)
class Clients:
    _store: Store
    _directory: Directory
    _liveness: Liveness
    _groups: Groups

    async def page(self, after: str, limit: int) -> list[ClientState]:
        """Up to `limit` clients in order of their names, after the name `after`."""
        here = {*self._liveness.names(), *self._groups.present()}
        holders = await self._store.read(holdings.holders, after, limit)
        names = sorted(name for name in {*here, *holders} if name > after)[:limit]
        if not names:
            return []
        holds = await self._holds(names)
        found: list[ClientState] = []
        for name in names:
            registered_at, renewed_at, alive = self._liveness.watched(name) or (None, None, None)
            found.append(ClientState(name, registered_at, renewed_at, alive, holds.get(name, ())))
        return found

    async def _holds(self, names: Sequence[str]) -> Mapping[str, Sequence[QueueHolding]]:
        places: dict[tuple[str, int, int], QueueHolding] = {}
        for holding in await self._store.read(holdings.of_clients, names):
            group = self._directory.group_by_id(holding.group_id)
            number = None if group is None else group.number_of(holding.queue_id)
            if group is None or number is None:
                continue  # made by another node, and not known here yet
            place = holding.client, group.id, number
            before = places.get(place, QueueHolding(group, number, 0, owner=False))
            places[place] = evolve(before, claims=before.claims + holding.claims, owner=before.owner or holding.owner)
        holds: defaultdict[str, list[QueueHolding]] = defaultdict(list)
        for (name, _, _), one in places.items():
            holds[name].append(one)
        for several in holds.values():
            several.sort(key=lambda one: (one.group.topic.name, one.group.name, one.queue))
        return holds
