"""The lookahead: finds out before a crowded second begins which topics its messages belong to.

When a second is crowded, and nearly all of it is of one topic, those few are looked for ahead of time that are not; so
a burst needs no look into the store for what it lays in lanes, and a message of another topic that is due in the midst
of a million does not wait until they have been looked up. What is not known is looked up in its turn.
"""

from collections.abc import Mapping

import trio
from attrs import frozen

from ....wheel.columns import Columns
from ...clock import Clock
from ..state.pending import Pending
from .due_topics import DueTopics

_SECOND = 1_000
_AHEAD = 20
"""Seconds that are looked at before they begin."""
_CROWDED = 50_000
"""Entries from which on a second is looked at: more than are promoted in one."""


@frozen(eq=False)
class Lookahead:
    """`look_ahead` now and then."""

    _pending: Pending
    _topics: DueTopics
    _clock: Clock

    async def look_ahead(self) -> None:
        """Looks at the crowded seconds that come soon. Raises `StoreError`."""
        if self._clock.in_doubt:
            return
        second, known = self._clock.now() // _SECOND, self._pending.seconds
        known.forget_before(second - _AHEAD)
        for one in range(second + 1, second + _AHEAD + 1):
            if one not in known and (self._pending.wheel.load(one) or 0) > _CROWDED:
                await self._look_at(one)

    async def _look_at(self, second: int) -> None:
        known = self._pending.seconds.begin(second)
        try:
            found = await self._topics.others_in(second)
        except BaseException:
            self._pending.seconds.forget(second)
            raise
        if found is not None:
            known.found(*found)

    async def topics_of(self, timers: Columns, burst: int) -> Mapping[int, int]:
        """By entry the topic of each of these; it need not tell of those that are of topic `burst`. Raises
        `StoreError`."""
        seconds = self._pending.seconds
        if not seconds:
            return await self._topics.topics_of(timers, burst)
        await trio.lowlevel.checkpoint()  # the lanes fill without a look into the store: others go on in between
        topics: dict[int, int] = {}
        unknown: list[tuple[int, int]] = []
        for second, some in timers.by(_SECOND):
            known = seconds.of(second)
            if known.tells_all(some):
                told = some.ids
            else:
                tells = [known.tells(due, entry) for due, entry in some]
                unknown += some.chosen([not one for one in tells])
                told = some.chosen(tells).ids
            if known.burst != burst:
                topics |= dict.fromkeys(told, known.burst)
            topics |= known.others_among(told)
        return topics | dict(await self._topics.topics_of(Columns.of(unknown), burst)) if unknown else topics
