"""Promotion: due messages go to the stream together; those that a lock or a slow queue holds back go apart.

The dispatcher and the burst ask for it; so does `unblocking`, for messages that wait apart. Every promotion of a node
passes through here, and here it is decided what is tried again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import trio
from attrs import define

from ....store.errors import Locked, StoreError
from ....store.records import Promoted
from ....store.store import Store
from ....store.timers import timers
from ....store.timers.timers import Brought
from ...clock import Clock
from ...metrics import Metrics
from ...outages import tell_failure
from ..publish.accepted import Accepted
from ..signals import Signals
from ..state.directory import Directory
from ..state.pace import Pace
from .guards import Guards
from .held import Held
from .spoilt import Spoilt

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""Seconds before another try when the store is away."""
_DOUBTED = 0.1
"""Seconds between two looks whether the time is still in doubt."""
_BREATH, _LONGEST_BREATH = 0.01, 0.1
"""Seconds between two looks whether earlier messages of the order are free."""
_TURN = 0.05
"""Seconds after which other queues have their turn, even if each look still promotes something."""

Outcome = tuple[Sequence[Promoted], Sequence[int]]
"""The messages that are in the stream now, and the last of the entries asked for, whose turn is still to come."""


@define(eq=False)
class Promotion:
    """Hands wheel entries to the stream, and tells the parts that have to know."""

    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _signals: Signals
    _accepted: Accepted
    _guards: Guards
    held: Held
    """Entries that are due and wait apart."""
    spoilt: Spoilt
    """Entries that are due and cannot be promoted."""
    pace: Pace

    async def promote(self, entries: Sequence[int]) -> Outcome:
        """Promotes entries; returns which are in the stream now, and which are left to do. `held` takes those that are
        held back, and `spoilt` those that cannot go. Tries until the store has answered."""
        pause = _FIRST_PAUSE
        while rest := self.spoilt.rows.without(entries):
            began = trio.current_time()
            try:
                brought = await self._store.promote_some(rest, self._clock.now(), self.held.queues)
            except Exception as error:
                if (done := await self._part(rest, error, began, pause)) is not None:
                    return done
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            self._note_pace(brought.promoted, trio.current_time() - began)
            self._brought(brought)
            self._signals.streamed(brought.promoted)
            return brought.promoted, brought.left
        return (), ()

    async def _part(self, entries: Sequence[int], error: Exception, began: float, pause: float) -> Outcome | None:
        """Deals with entries that have failed together. None: the store is to be asked once more."""
        try:
            if isinstance(error, Locked):  # no look shows which queue is locked: each finds out by itself
                self.held.put(await self._store.read(timers.queues_of, entries))
                self._metrics.promote_batch(trio.current_time() - began)
                return (), ()
            parts, left = await self.spoilt.part(entries, self._promote_part, error)
        except StoreError as failure:
            tell_failure("promotion_failed", failure, entries=len(entries), again_in=pause)
            await trio.sleep(pause)
            while self._clock.in_doubt:  # the database may be another server by now
                await trio.sleep(_DOUBTED)
            return None
        promoted = _together(parts)
        self._signals.streamed(promoted)
        return promoted, left

    async def try_again(self) -> None:
        """Tries again what is set aside. Raises `StoreError`."""
        await self.spoilt.try_again(self._promote_again)

    async def _promote_again(self, entries: Sequence[int]) -> None:
        self._signals.streamed(_together(await self.spoilt.wholly(entries, self._promote_part)))

    async def _promote_part(self, entries: Sequence[int]) -> Sequence[Promoted]:
        brought = await self._store.promote_some(entries, self._clock.now(), self.held.queues, whole=True)
        self._brought(brought)
        return brought.promoted

    async def promote_waiting(self, entries: Sequence[int]) -> Sequence[Promoted]:
        """Stands in line for the queue, and does so again while other transactions hold earlier messages of its order.
        Raises `Locked` when that was in vain."""
        promoted: list[Promoted] = []
        rest, until = _BREATH, trio.current_time() + _TURN
        while True:
            some, held = await self._promote_wholly(entries, wait=True)
            promoted += some
            if some and trio.current_time() > until:
                self.held.put(held)
                return promoted
            if not held:
                return promoted
            self._signals.streamed(some)
            if not some:
                await trio.sleep(rest)
                rest = min(2 * rest, _LONGEST_BREATH)

    async def promote_free(self, entries: Sequence[int]) -> tuple[Sequence[Promoted], Mapping[int, Sequence[int]]]:
        """Promotes without waiting for a queue; also returns what is held back, by queue. Raises `Locked` for locks
        that it cannot see."""
        return await self._promote_wholly(entries, wait=False)

    async def _promote_wholly(
        self, entries: Sequence[int], *, wait: bool
    ) -> tuple[Sequence[Promoted], Mapping[int, Sequence[int]]]:
        """Promotes all entries at once, or part by part if they fail together."""
        held: dict[int, list[int]] = {}

        async def some(part: Sequence[int]) -> Sequence[Promoted]:
            behind = None if wait else held.keys()
            brought = await self._store.promote_some(part, self._clock.now(), behind, whole=True)
            self._tell(brought)
            for queue_id, those in brought.held.items():
                held.setdefault(queue_id, []).extend(those)
            return brought.promoted

        return _together(await self.spoilt.wholly(entries, some)), held

    def topic_of(self, queue_id: int) -> int:
        """The topic of a queue, or of a group's retry queue; 0 when it is not known here."""
        topic, group = self._directory.topic_of_queue(queue_id), self._directory.group_of_queue(queue_id)
        return topic.id if topic is not None else group.topic.id if group is not None else 0

    def _brought(self, brought: Brought) -> None:
        self.held.put(brought.held)
        self._tell(brought)

    def _tell(self, brought: Brought) -> None:
        """Tells the parts that have to know; readers of the queues hear of it by `streamed`."""
        if brought.guarded:
            self._guards.put(brought.guarded)
        self._accepted.fired(brought.fired)
        first_heard = Counter(one.queue_id for one in brought.promoted if one.first_heard)  # published by outboxes
        for queue_id, messages in first_heard.items():
            if (topic := self._directory.topic_of_queue(queue_id)) is not None:
                self._accepted.count(topic.id, messages)

    def _note_pace(self, promoted: Sequence[Promoted], took: float) -> None:
        self._metrics.promote_batch(took)
        self.pace.note(len(promoted), took)
        if self._store.backend.shared:  # else there is one writer: no queue is locked, and `took` is time spent waiting
            self.held.note({one.queue_id for one in promoted}, len(promoted), took)


def _together(parts: Iterable[Sequence[Promoted]]) -> list[Promoted]:
    return [one for part in parts for one in part]
