"""How far the claims of a turn reach where several nodes work on one group: to which of its queues.

Each node has queues of its own, those that it publishes to (`placing.own_queues`), with their retry queues. A turn
that claims from these alone waits for no other node's. Nothing rests on it but speed: what lies in queues that nobody
else moves, a node takes, too. When somebody was given nothing while there was something elsewhere, the next turn
reaches everywhere, and so do those after it until its own queues hold something. And when turn by turn somebody had
room for more while there was something elsewhere, it helps: it reaches everywhere until the others' queues are empty.
"""

from collections.abc import Mapping, Sequence, Set

from attrs import evolve, field, frozen

from ..records import Group
from ..stream.placing import own_queues

STILL = 500
"""Milliseconds for which a node must not have moved the group in its queues for others to take these, too; and for
which others must have had room for what lies there to help it."""


@frozen
class Part:
    """The queues of another node, with their retry queues: what a turn has seen of them."""

    at: Mapping[int, int]
    """How far the group was there when the turn was over, by queue id."""
    since: int
    """Since when nobody else has moved it there: Unix milliseconds."""
    holds: bool
    """There was something to claim."""


@frozen
class Reach:
    """What a node knows before a turn of a group that it shares with others. It need not be true."""

    place: tuple[int, int]
    """Which of the nodes it is, counted from 0, and how many they are."""
    own: Set[int]
    """The ids of its queues, with their retry queues."""
    others: Mapping[int, Sequence[int]]
    """The ids of the other nodes' queues, by their places."""
    everywhere: bool = False
    """Somebody was given nothing while elsewhere there was something; and its own queues have held nothing since."""
    seen: Mapping[int, Part] = field(factory=dict[int, Part])
    """By another node's place."""
    short_since: int | None = None
    """Since when in each turn somebody had room while there was something elsewhere."""
    helping: bool = False
    """That was long, and elsewhere there is something still."""

    def queues(self, now: int) -> set[int]:
        """The ids of those that are claimed from: its own, and what lies in those of nodes that seem to have no
        consumers."""
        chosen = set(self.own)
        for place, queue_ids in self.others.items():
            part = self.seen.get(place)
            left_lying = part is not None and part.holds and _is_long(part.since, now)
            if self.everywhere or self.helping or left_lying:
                chosen.update(queue_ids)
        return chosen

    def after(
        self,
        found: Mapping[int, int],
        left: Mapping[int, int],
        ends: Mapping[int, int],
        now: int,
        *,
        in_vain: bool = False,
        short: bool = False,
    ) -> "Reach":
        """What is known when a turn is over that has claimed: where it found the group and left it, and where the
        queues ended. There was something elsewhere, and somebody was given nothing (`in_vain`), or had room for it
        (`short`)."""
        everywhere = in_vain or (self.everywhere and not any(found.get(id_, 0) < ends.get(id_, 0) for id_ in self.own))
        seen: dict[int, Part] = {}
        for place, queue_ids in self.others.items():
            before = self.seen.get(place, Part({}, now, holds=False))
            moved = any(found.get(id_) != before.at.get(id_) for id_ in queue_ids)
            at = {id_: left[id_] for id_ in queue_ids if id_ in left}
            holds = any(position < ends.get(id_, 0) for id_, position in at.items())
            seen[place] = Part(at, now if moved else before.since, holds)
        short_since = None if not short else now if self.short_since is None else self.short_since
        helping = self.helping and any(part.holds for part in seen.values())
        helping |= short_since is not None and _is_long(short_since, now)
        return evolve(self, everywhere=everywhere, seen=seen, short_since=short_since, helping=helping)


def _is_long(since: int, now: int) -> bool:
    """Also when the clock has been set back meanwhile."""
    return not 0 <= now - since < STILL


def reach_of(group: Group, place: tuple[int, int], before: Reach | None) -> Reach | None:
    """That of a node's next turn, from what it knew before; None: everywhere, for none of the nodes, or none of the
    queues, can go alone. An ordered topic's queues are its clients', and who counts what is in hand needs all."""
    at, nodes = place
    if nodes == 1 or len(group.topic.queues) == 1 or group.topic.ordered or group.concurrency is not None:
        return None
    others: dict[int, list[int]] = {}
    for index, queue in enumerate(group.topic.queues):
        others.setdefault(index % nodes, []).extend([queue.id, group.retry_queue_of[queue.id].id])
    own = frozenset(others.pop(own_queues(at, nodes, len(group.topic.queues)).start))
    if before is not None and before.place == place:
        return evolve(before, own=own, others=others)
    return Reach(place, own, others)


def with_partners(group: Group, queue_ids: Set[int]) -> set[int]:
    """These queues, those that their retries come back through, and those whose retries come back through them. A
    message is only ever in such a pair, so that who holds both holds all that there may be of it."""
    pairs = ((id_, back.id) for id_, back in group.retry_queue_of.items())
    return {id_ for pair in pairs if not queue_ids.isdisjoint(pair) for id_ in pair} if queue_ids else set()
