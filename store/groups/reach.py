"""How far the claims of a turn reach where several nodes work on one group: to which of its queues.

Each node has queues of its own, those that it publishes to (`placing.own_queues`), with their retry queues. A turn
that claims from these alone waits for no other node's. Nothing rests on it but speed: whose queues nobody else moves,
a node takes, too. When somebody was given nothing while there was something elsewhere, the next turn reaches
everywhere, and so do those after it until its own queues hold something. And when turn by turn somebody had room for
more while there was something elsewhere, it helps: it reaches everywhere until the others' queues are empty.
"""

from collections import defaultdict
from collections.abc import Mapping, Set

from attrs import field, frozen

from ..records import Group
from ..stream.placing import own_queues

STILL = 500
"""Milliseconds for which a node must not have moved the group in its queues for others to take these, too; and for
which others must have had room for what lies there to help it."""


@frozen
class Reach:
    """What a node knows before a turn of a group that it shares with others. It need not be true."""

    place: int
    """Among the nodes, counted from 0."""
    nodes: int
    everywhere: bool = False
    """Somebody was given nothing while elsewhere there was something; and its own queues have held nothing since."""
    seen: Mapping[int, tuple[Mapping[int, int], int]] = field(factory=dict[int, tuple[Mapping[int, int], int]])
    """By another node's place: how far the group was in its queues, and since when nobody else has moved it there."""
    short_since: int | None = None
    """Since when in each turn somebody had room while there was something elsewhere."""
    helping: bool = False
    """That was long, and elsewhere there is something still."""

    def queues(self, group: Group, now: int) -> set[int]:
        """The ids of those that are claimed from: its own, and those of nodes that seem to have no consumers."""
        parts = self._parts(group)
        chosen = {self._own(group)}
        for place in parts:
            _, since = self.seen.get(place, ({}, now))
            if self.everywhere or self.helping or _is_long(since, now):
                chosen.add(place)
        return {queue_id for place in chosen for queue_id in parts[place]}

    def after(
        self,
        group: Group,
        found: Mapping[int, int],
        left: Mapping[int, int],
        ends: Mapping[int, int],
        now: int,
        *,
        in_vain: bool = False,
        short: bool = False,
    ) -> "Reach":
        """What is known when a turn is over that has claimed: where it found the group and left it, and where the
        queues ended that it claimed from. There was something elsewhere, and somebody was given nothing (`in_vain`), or
        had room for it (`short`)."""
        parts = self._parts(group)
        own = parts[self._own(group)]
        everywhere = in_vain or (self.everywhere and not any(found.get(id_, 0) < ends.get(id_, 0) for id_ in own))
        seen: dict[int, tuple[Mapping[int, int], int]] = {}
        rest = False
        for place, queue_ids in parts.items():
            if place != self._own(group):
                before, since = self.seen.get(place, ({}, now))
                moved = any(found.get(id_) != before.get(id_) for id_ in queue_ids)
                seen[place] = {id_: left[id_] for id_ in queue_ids if id_ in left}, now if moved else since
                rest |= any(left.get(id_, 0) < ends.get(id_, 0) for id_ in queue_ids)
        short_since = None if not short else now if self.short_since is None else self.short_since
        helping = (self.helping and rest) or (short_since is not None and _is_long(short_since, now))
        return Reach(self.place, self.nodes, everywhere, seen, short_since, helping)

    def _own(self, group: Group) -> int:
        return own_queues(self.place, self.nodes, len(group.topic.queues)).start

    def _parts(self, group: Group) -> dict[int, list[int]]:
        """By place: the ids of the queues that are a node's, each with its retry queue."""
        parts: dict[int, list[int]] = defaultdict(list)
        for index, queue in enumerate(group.topic.queues):
            parts[index % self.nodes] += [queue.id, group.retry_queue_of[queue.id].id]
        return parts


def _is_long(since: int, now: int) -> bool:
    """Also when the clock has been set back meanwhile."""
    return not 0 <= now - since < STILL


def reach_of(group: Group, place: tuple[int, int], before: Reach | None) -> Reach | None:
    """That of a node's next turn, from what it knew before; None: everywhere, for none of the nodes, or none of the
    queues, can go alone. An ordered topic's queues are its clients', and who counts what is in hand needs all."""
    at, nodes = place
    if nodes == 1 or len(group.topic.queues) == 1 or group.topic.ordered or group.concurrency is not None:
        return None
    return before if before is not None and (before.place, before.nodes) == place else Reach(at, nodes)


def with_partners(group: Group, queue_ids: Set[int]) -> set[int]:
    """These queues, those that their retries come back through, and those whose retries come back through them. A
    message is only ever in such a pair, so that who holds both holds all that there may be of it."""
    pairs = ((id_, back.id) for id_, back in group.retry_queue_of.items())
    return {id_ for pair in pairs if not queue_ids.isdisjoint(pair) for id_ in pair} if queue_ids else set()
