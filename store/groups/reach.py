"""The reach of a turn: which queues of a group a node claims from when several nodes work on the group.

Each node has queues of its own, those that it publishes to (`placing.own_queues`), with their retry queues. A turn that
claims only from these waits for no other node's turn. This is only for speed. A node also claims from queues of a node
that does not seem to claim from them. When a client got nothing although other queues held messages, the next turn
reaches all queues, and so do those after it until the node's own queues hold messages. And when in turn after turn a
client had room for more while other queues held messages, the node helps: it reaches all queues until the others are
empty.
"""

from collections.abc import Mapping, Sequence, Set

from attrs import evolve, field, frozen

from ..records import Group
from ..stream.placing import own_queues

STILL = 500
"""Milliseconds after which other nodes claim from the queues of a node that has not moved the group there; and for
which a node's clients must have had room before it helps the other nodes."""


@frozen
class Part:
    """What a turn has seen of the queues of another node, with their retry queues."""

    at: Mapping[int, int]
    """The group's position in each queue when the turn was over, by queue id."""
    since: int
    """Since when no other node has moved these positions, Unix milliseconds."""
    holds: bool
    """There were messages to claim."""


@frozen
class Reach:
    """What a node knows before a turn of a group that it shares with other nodes. It may be out of date."""

    place: tuple[int, int]
    """The node's number, counted from 0, and the number of nodes."""
    own: Set[int]
    """The ids of its queues, with their retry queues."""
    others: Mapping[int, Sequence[int]]
    """The ids of the other nodes' queues, by the numbers of the nodes."""
    everywhere: bool = False
    """A client got nothing although other queues held messages; and the node's own queues have held none since."""
    seen: Mapping[int, Part] = field(factory=dict[int, Part])
    """By the number of another node."""
    short_since: int | None = None
    """Since when, in each turn, a client had room while other queues held messages."""
    helping: bool = False
    """That has lasted for long, and other queues still hold messages."""

    def queues(self, now: int) -> set[int]:
        """The ids of the queues to claim from: the node's own, and those with messages of nodes that seem to have no
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
        """What is known after a turn that has claimed. `found`, `left`: the group's positions before and after it.
        `ends`: the ends of the queues. `in_vain`: other queues held messages, and a client got nothing; `short`: a
        client had room for them."""
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
    """Whether this was long ago; also True when the clock has been set back meanwhile."""
    return not 0 <= now - since < STILL


def reach_of(group: Group, place: tuple[int, int], before: Reach | None) -> Reach | None:
    """The reach of a node's next turn, from what it knew before. None: all queues, since there is only one node or one
    queue, or since the turn needs all of them: in an ordered topic they are shared among clients, and a limit of
    messages in claims is counted over all."""
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
    """These queues, with the retry queue or the topic's queue that forms a pair with each. A message is only ever in
    one such pair, so holding both locks covers everything about it."""
    pairs = ((id_, back.id) for id_, back in group.retry_queue_of.items())
    return {id_ for pair in pairs if not queue_ids.isdisjoint(pair) for id_ in pair} if queue_ids else set()
