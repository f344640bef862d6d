"""Promotion: what is due goes to the stream, all together; what somebody's lock or slowness holds back goes apart.

The hand asks for it; so does `held`, for what waits apart. Every promotion of a node passes `Promotion`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import trio
from attrs import define, field

from ...store.errors import Locked
from ...store.ids import SHARDS
from ...store.records import Promoted
from ...store.store import Store
from ...store.timers import crowds, timers
from ...wheel.columns import Columns
from ..clock import Clock
from ..metrics import Metrics
from ..stream.growth import Growth
from ..stream.intake import Intake
from ..stream.pace import Pace
from ..topics.directory import Directory
from .held import Held
from .spoilt import Spoilt

_STRANGERS = 20_000
"""Messages in a crowded second that are not of the crowd's topic, of which it is worth to know before it begins."""
_BREATH, _LONGEST_BREATH = 0.01, 0.1
"""Seconds between two looks whether what is earlier is free."""
_TURN = 0.05
"""Seconds after which other queues have their turn, where each look brings something further."""


@define(eq=False)
class Promotion:
    """Hands wheel entries to the stream, and tells whoever has to know."""

    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _growth: Growth
    _intake: Intake
    _elsewhere: Callable[[], Sequence[str]] = field(default=tuple[str, ...], kw_only=True, alias="elsewhere")
    pace: Pace = field(factory=Pace, init=False)
    held: Held = field(init=False)
    """What is due and waits apart."""
    spoilt: Spoilt = field(init=False)
    """What is due and cannot be promoted."""

    def __attrs_post_init__(self) -> None:
        self.spoilt = Spoilt(self._store, self._clock, self._elsewhere)
        self.held = Held(
            *(self._promote_waiting, self._promote_free, self.streamed),
            topic_of=self._topic_of,
            doubted=lambda: self._clock.in_doubt,
        )

    async def promote(self, entries: Sequence[int], now: int) -> tuple[Sequence[Promoted], Sequence[int]]:
        """What of these entries is in the stream now, and the last of them, whose turn is still to come; `held` takes
        the others, and `spoilt` what cannot go. Raises `StoreError`."""
        began = trio.current_time()
        if not (entries := self.spoilt.without(entries)):
            return (), ()
        try:
            promoted, held, left = await self._store.promote_some(entries, now, self.held.queues)
        except Locked:  # no look shows which queue it is that is locked otherwise: each finds out by itself
            promoted, held, left = [], await self._store.read(timers.queues_of, entries), ()
        except Exception as error:
            parts, left = await self.spoilt.part(entries, self._promote_part, error)
            return _together(parts), left
        took = trio.current_time() - began
        self._metrics.promote_batch(took)
        self.pace.note(len(promoted), took)
        if self._store.backend.shared:  # where there is one writer nobody holds a queue, and `took` is who had his turn
            self.held.note({one.queue_id for one in promoted}, len(promoted), took)
        self.held.put(held)
        self._count(promoted)
        return promoted, left

    async def try_again(self) -> None:
        """Has a look at what is set aside. Raises `StoreError`."""

        async def promote(entries: Sequence[int]) -> None:
            self.streamed(_together(await self.spoilt.wholly(entries, self._promote_part)))

        await self.spoilt.try_again(promote)

    async def _promote_part(self, entries: Sequence[int]) -> Sequence[Promoted]:
        promoted, held = await self._store.promote_free(entries, self._clock.now(), self.held.queues)
        self.held.put(held)
        self._count(promoted)
        return promoted

    async def topics_of(self, timers: Columns, crowd: int) -> Mapping[int, int]:
        """By entry the topics of these, as far as they are there and not of topic `crowd`."""
        topics, groups = await self._store.read(crowds.topics_of, list(timers), crowd)
        for entry, group_id in groups.items():
            group = self._directory.group_by_id(group_id)
            topics[entry] = -group_id if group is None else group.topic.id
        return topics

    async def strangers(self, second: int) -> tuple[int, Mapping[int, int]] | None:
        """The topic of which nearly all are that fall due in a second, and the topics of the others by their entries.
        None where that is too many. Raises `StoreError`."""
        if not (crowd := await self._store.read(crowds.crowd_in, second)):
            return None
        others: dict[int, int] = {}
        for shard in range(SHARDS):  # each by itself: others read meanwhile
            others |= await self._store.read(crowds.strangers, second, shard, crowd, _STRANGERS)
            if len(others) >= _STRANGERS:
                return None
        return crowd, others

    def streamed(self, promoted: Sequence[Promoted]) -> None:
        """They are in their queues: wakes whoever reads these."""
        for queue_id in {one.queue_id for one in promoted}:
            self._growth.committed(queue_id)

    async def _promote_waiting(self, entries: Sequence[int]) -> Sequence[Promoted]:
        """Stands in line; and again while something earlier of their order is in somebody else's hands."""
        promoted: list[Promoted] = []
        rest, until = _BREATH, trio.current_time() + _TURN
        while True:
            some, held = await self._promote_wholly(entries, wait=True)
            self._count(some)
            promoted += some
            if some and trio.current_time() > until:
                self.held.put(held)
                return promoted
            if not held:
                return promoted
            self.streamed(some)
            if not some:
                await trio.sleep(rest)
                rest = min(2 * rest, _LONGEST_BREATH)

    async def _promote_free(self, entries: Sequence[int]) -> tuple[Sequence[Promoted], Mapping[int, Sequence[int]]]:
        promoted, held = await self._promote_wholly(entries, wait=False)
        self._count(promoted)
        return promoted, held

    async def _promote_wholly(
        self, entries: Sequence[int], *, wait: bool
    ) -> tuple[Sequence[Promoted], Mapping[int, Sequence[int]]]:
        """As the store's `promote_free`, part by part where they fail together; waiting for queues or not."""
        held: dict[int, list[int]] = {}

        async def some(part: Sequence[int]) -> Sequence[Promoted]:
            promoted, back = await self._store.promote_free(part, self._clock.now(), None if wait else held.keys())
            for queue_id, those in back.items():
                held.setdefault(queue_id, []).extend(those)
            return promoted

        return _together(await self.spoilt.wholly(entries, some)), held

    def _count(self, promoted: Sequence[Promoted]) -> None:
        """Counts what outboxes have published."""
        first_heard = Counter(one.queue_id for one in promoted if one.first_heard)
        for queue_id, messages in first_heard.items():
            if (topic := self._directory.topic_of_queue(queue_id)) is not None:
                self._intake.accepted(topic.id, messages)

    def _topic_of(self, queue_id: int) -> int:
        """The topic that a queue is of, or a group's retry queue; 0 when it is not known here."""
        topic, group = self._directory.topic_of_queue(queue_id), self._directory.group_of_queue(queue_id)
        return topic.id if topic is not None else group.topic.id if group is not None else 0


def _together(parts: Iterable[Sequence[Promoted]]) -> list[Promoted]:
    return [one for part in parts for one in part]
