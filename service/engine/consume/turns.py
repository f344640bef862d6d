"""Turns: the transaction that serves all callers waiting at a group's coordinator, and the signals behind it.

If another transaction is at work on the group, the turn stands in line for it, and few turns do so at a time.
"""

from collections.abc import Awaitable, Collection, Sequence

import structlog
import trio
from attrs import define, field

from ....store.errors import Locked
from ....store.groups.claim_ids import format_claim
from ....store.records import Claim, ClaimKey, Gather, Group, Settled, Settlement, Turn
from ....store.store import Store
from ...alarm import Alarm
from ...clock import Clock
from ...durations import format_time
from ...metrics import Metrics
from ..cluster.nodes import Nodes
from ..signals import Signals
from .deliveries import Deliveries

_LINES = 4
"""Groups whose turns stand in line at a time, each with a connection, while another transaction is working on them."""

_MEETING = 1.0
"""Seconds for which turns of a group stand in line at once, after one has met another transaction: mostly another
server's turn, which is over in a moment. To look first would be in vain, and would read rows only to drop them."""

log = structlog.get_logger()


@define(eq=False)
class Turns:
    _store: Store
    _clock: Clock
    _metrics: Metrics
    _alarm: Alarm
    _nodes: Nodes
    _signals: Signals
    _deliveries: Deliveries
    _met_until: dict[int, float] = field(factory=dict[int, float], init=False)
    """By group id: up to when its turns stand in line at once, in trio's time."""
    _furthest: dict[int, dict[int, int]] = field(factory=dict[int, dict[int, int]], init=False)
    """By group id and id of the topic's own queue: the offset from which on this server has handed out nothing."""
    _line: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(_LINES), init=False)

    def forget(self, group_id: int) -> None:
        self._met_until.pop(group_id, None)
        self._furthest.pop(group_id, None)

    async def take(self, group: Group, gather: Gather, present: Collection[str]) -> Turn:
        """Takes a turn for the gathered callers; gathers again when it had to stand in line. Raises `Locked`."""

        def turn(*, free: bool) -> Awaitable[Turn]:
            place, later = self._nodes.place, None if free else gather
            return self._store.turn(group, *gather(), present, free=free, place=place, gather=later)

        if trio.current_time() >= self._met_until.get(group.id, 0.0) or self._line.available_tokens < 1:
            try:
                return await turn(free=True)
            except Locked:
                # Another transaction is working on the group, for a moment or for long. Groups that are held for long
                # must not take all connections from the others.
                self._met_until[group.id] = trio.current_time() + _MEETING
                if self._line.available_tokens < 1:
                    raise
        async with self._line:
            return await turn(free=False)

    def tell(self, group: Group, settlements: Sequence[Settlement], turn: Turn) -> None:
        """The turn is committed: counts what it did, and tells the parts and nodes that have to know."""
        topic = group.topic.name
        if turn.acked:
            self._metrics.of_group("acked", topic, group.name, turn.acked)
        if turn.expired:
            self._metrics.of_group("expired", topic, group.name, turn.expired)
        for settlement, settled in zip(settlements, turn.settled, strict=True):
            if settled is None:
                continue
            self._signals.timers_added(settled.timers)
            self._metrics.of_group("retried", topic, group.name, settled.retried)
            self._metrics.of_group("dead", topic, group.name, settled.dead)
            if settlement.verb == "end" and settled.lost:
                self._metrics.lease_lost(1)
                self._consume_timeout(group, settlement.key, settled)
        if settlements and (group.concurrency is not None or group.topic.ordered):
            self._signals.group_changed(group.id)  # there is room, or the next message of a key may go
        for claim in turn.ranges:
            self._deliveries.note(group, claim.messages, claim.claimed_at, first=self._is_first(claim))

    def _is_first(self, claim: Claim) -> bool:
        """Whether the claim is handed out for the first time, as far as this server knows: messages given back or
        redriven come from a retry queue, and a seek goes back to offsets that were handed out."""
        queue_id, first = claim.key.queue_id, claim.key.first
        if self._signals.directory.group_of_queue(queue_id) is not None:
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
