"""Promotion: what is due goes to the stream, all together; what somebody's lock or slowness holds back goes apart.

The dispatcher and the burst ask for it; so does `unblocking`, for what waits apart. Every promotion of a node passes
here, and here it is decided what is tried again.
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
"""Seconds between two looks whether what is earlier is free."""
_TURN = 0.05
"""Seconds after which other queues have their turn, where each look brings something further."""

Outcome = tuple[Sequence[Promoted], Sequence[int]]
"""What is in the stream now, and the last of what was asked for, whose turn is still to come."""


@define(eq=False)
class Promotion:
    """Hands wheel entries to the stream, and tells whoever has to know."""

    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _signals: Signals
    _accepted: Accepted
    _guards: Guards
    held: Held
    """What is due and waits apart."""
    spoilt: Spoilt
    """What is due and cannot be promoted."""
    pace: Pace

    async def promote(self, entries: Sequence[int]) -> Outcome:
        """What of these entries is in the stream now, and which of them are left to do; `held` takes the others, and
        `spoilt` what cannot go. It is tried until the store has answered."""
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
        """What becomes of entries that have failed together. None: the store is to be asked once more."""
        try:
            if isinstance(error, Locked):  # no look shows which queue it is that is locked: each finds out by itself
                self.held.put(await self._store.read(timers.queues_of, entries))
                self._metrics.promote_batch(trio.current_time() - began)
                return (), ()
            parts, left = await self.spoilt.part(entries, self._promote_part, error)
        except StoreError as failure:
            tell_failure("promotion_failed", failure, entries=len(entries), again_in=pause)
            await trio.sleep(pause)
            while self._clock.in_doubt:  # it may be another server that has the database by now
                await trio.sleep(_DOUBTED)
            return None
        promoted = _together(parts)
        self._signals.streamed(promoted)
        return promoted, left

    async def try_again(self) -> None:
        """Has a look at what is set aside. Raises `StoreError`."""
        await self.spoilt.try_again(self._promote_again)

    async def _promote_again(self, entries: Sequence[int]) -> None:
        self._signals.streamed(_together(await self.spoilt.wholly(entries, self._promote_part)))

    async def _promote_part(self, entries: Sequence[int]) -> Sequence[Promoted]:
        brought = await self._store.promote_some(entries, self._clock.now(), self.held.queues, whole=True)
        self._brought(brought)
        return brought.promoted

    async def promote_waiting(self, entries: Sequence[int]) -> Sequence[Promoted]:
        """Stands in line; and again while something earlier of their order is in somebody else's hands. Raises
        `Locked` when that was in vain."""
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
        """Without waiting for a queue; and what is held back, by its queue. Raises `Locked` for what it cannot see."""
        return await self._promote_wholly(entries, wait=False)

    async def _promote_wholly(
        self, entries: Sequence[int], *, wait: bool
    ) -> tuple[Sequence[Promoted], Mapping[int, Sequence[int]]]:
        """Part by part where they fail together."""
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
        """The topic that a queue is of, or a group's retry queue; 0 when it is not known here."""
        topic, group = self._directory.topic_of_queue(queue_id), self._directory.group_of_queue(queue_id)
        return topic.id if topic is not None else group.topic.id if group is not None else 0

    def _brought(self, brought: Brought) -> None:
        self.held.put(brought.held)
        self._tell(brought)

    def _tell(self, brought: Brought) -> None:
        """What of it others have to know; who reads the queues hears of it by `streamed`."""
        if brought.guarded:
            self._guards.put(brought.guarded)
        self._accepted.fired(brought.fired)
        first_heard = Counter(one.queue_id for one in brought.promoted if one.first_heard)  # outboxes have published it
        for queue_id, messages in first_heard.items():
            if (topic := self._directory.topic_of_queue(queue_id)) is not None:
                self._accepted.count(topic.id, messages)

    def _note_pace(self, promoted: Sequence[Promoted], took: float) -> None:
        self._metrics.promote_batch(took)
        self.pace.note(len(promoted), took)
        if self._store.backend.shared:  # where there is one writer nobody holds a queue, and `took` is who had his turn
            self.held.note({one.queue_id for one in promoted}, len(promoted), took)


def _together(parts: Iterable[Sequence[Promoted]]) -> list[Promoted]:
    return [one for part in parts for one in part]
