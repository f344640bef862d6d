"""The sealer: moves the ends of queues on whose offsets Redis draws, after each commit that this node knows of.

Once a second it also looks for what others have committed, and for what a change of sequencer has left behind.
"""

from collections.abc import Callable

import trio

from ..store.errors import StoreError
from ..store.store import Store
from .clock import Clock
from .outages import tell_failure

_HOLE_PAUSE = 0.05
"""Seconds until a queue with a hole is looked at again."""


class Sealer:
    """Seals queues; `grown` hears of each that has a new end."""

    def __init__(self, store: Store, clock: Clock, grown: Callable[[int], None]) -> None:
        self._store = store
        self._clock = clock
        self._grown = grown
        self._queues: set[int] = set()
        self._holes: set[int] = set()
        self._some = trio.Event()
        self.needed = False
        """Whether any queue here is, or was, sequenced elsewhere."""

    def touch(self, queue_id: int) -> None:
        """Something was committed to this queue."""
        self._queues.add(queue_id)
        self._some.set()

    async def run(self) -> None:
        """Seals for ever."""
        while True:
            with trio.move_on_after(_HOLE_PAUSE if self._holes else float("inf")):
                await self._some.wait()
            self._some = trio.Event()
            queues, self._queues, self._holes = self._queues | self._holes, set(), set()
            for queue_id in sorted(queues):
                try:
                    await self._seal(queue_id)
                except StoreError as error:
                    tell_failure("sealing_failed", error, queue_id=queue_id)
                    self._holes.add(queue_id)

    async def look(self) -> None:
        """Touches the queues that others have made grow."""
        if self.needed:
            await self.look_everywhere()

    async def look_everywhere(self) -> None:
        """The same when nobody here knows of a reason: another node may."""
        for queue_id in await self._store.overrun():
            self.touch(queue_id)

    async def _seal(self, queue_id: int) -> None:
        while True:
            sealed = await self._store.seal(queue_id, self._clock.now())
            if sealed.moved:
                self._grown(queue_id)
            if not sealed.more:
                return
            if not sealed.moved:
                self._holes.add(queue_id)
                return
