"""The members of ordered groups at all servers: each writes its own and reads the others', so all share alike.

Every coordinator then shares its queues among the same clients. Without it each of two servers would give the queues to
its own clients, in turn. A server that has not read of a client elsewhere yet gives it nothing for a round; no order
depends on it, since rows say who owns a queue.
"""

from attrs import define, field

from ....store.groups import members
from ....store.groups.members import Member
from ....store.store import Store
from ...clock import Clock
from .groups import Groups

_ROUNDS = 5
"""How often a client that goes on asking is written in the time for which it is a member after it asked."""


@define(eq=False)
class Members:
    """Members over one store that several servers share. `present_for` is in milliseconds."""

    _store: Store
    _clock: Clock
    _groups: Groups
    _present_for: int
    _written: dict[Member, int] = field(factory=dict[Member, int], init=False)
    """When each member that is here was last written."""

    async def look(self) -> None:
        """One round: writes the members that are here, reads those elsewhere, and tells the coordinators."""
        here = self._groups.members()
        if not here:
            self._written.clear()
            return
        now = self._clock.now()
        seen = {(group_id, client): at for group_id, clients in here.items() for client, at in clients.items()}
        self._written = {member: at for member, at in self._written.items() if member in seen}
        due = {
            member: at
            for member, at in seen.items()
            if at - self._written.get(member, 0) >= self._present_for // _ROUNDS
        }
        if due:
            await self._store.write(members.see, list(due.items()))
            self._written |= due
        everywhere = await self._store.read(members.of_groups, sorted(here), now - self._present_for)
        for group_id in here:
            self._groups.share_among(group_id, everywhere.get(group_id, set()))

    async def forget(self) -> None:
        while await self._store.write(members.forget, self._clock.now() - 2 * self._present_for):
            pass
