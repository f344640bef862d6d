"""The lookahead: finds out before a crowded second begins which topics its messages belong to.

When nearly all messages of a crowded second are of one topic, the few that are not are looked for ahead of time. So a
burst is laid in lanes without a look into the store, and a message of another topic that is due in the midst of a
million does not wait until they have been looked up. Topics that are not known are looked up when their turn comes.
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
"""Seconds ahead that are looked at."""
_CROWDED = 50_000
"""Entries from which on a second counts as crowded: more than are promoted in one."""


@frozen(eq=False)
class Lookahead:
    """Call `look_ahead` now and then."""

    _pending: Pending
    _topics: DueTopics
    _clock: Clock

    async def look_ahead(self) -> None:
        """Looks at the crowded seconds that begin soon. Raises `StoreError`."""
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
        """The topic of each of these, by entry; entries of topic `burst` may be left out. Raises `StoreError`."""
        seconds = self._pending.seconds
        if not seconds:
            return await self._topics.topics_of(timers, burst)
        await trio.lowlevel.checkpoint()  # the lanes fill without a look into the store: lets other tasks go on
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
