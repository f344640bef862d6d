"""Watches whether two of the DSN's hosts take writes at the same time, for the log, `/readyz?verbose` and the alarm.

Then some clients write to one and some to the other: two databases that nobody can merge again. The node that has the
duties looks; the others learn of it from the facts in its row.
"""

from collections.abc import Sequence

import structlog
from attrs import define, field

from ...store.ports import Backend
from ..alarm import Alarm
from ..clock import Clock
from ..durations import format_time

FACT = "rivals"
"""The name of the fact by which a node tells the others."""
_ADVICE = "each has what is written to it: set read_only on all but one"

log = structlog.get_logger()


@define(eq=False)
class WriterWatch:
    """The node that has the duties calls `look` regularly."""

    _backend: Backend
    _alarm: Alarm
    _clock: Clock
    found: Sequence[str] = field(default=(), init=False)
    """Hosts whose servers take writes, too."""

    async def look(self) -> None:
        """Looks once, and reports what is new. Raises `StoreError`."""
        before, self.found = self.found, await self._backend.rivals()
        if set(self.found) - set(before):
            log.warning("store_two_writers", hosts=list(self.found), because=_ADVICE)
            self._alarm.ring("store_two_writers", at=format_time(self._clock.now()), hosts=list(self.found))
        elif before and not self.found:
            log.info("store_one_writer")

    def forget(self) -> None:
        """Drops what was found, because another node has the duties now."""
        self.found = ()

    def wrong(self, elsewhere: Sequence[str]) -> str | None:
        """What is wrong, as a sentence; `elsewhere` is what another node has found. None if only one server takes
        writes."""
        hosts = self.found or elsewhere
        return f"another server takes writes, too, at {', '.join(hosts)}: {_ADVICE}" if hosts else None
