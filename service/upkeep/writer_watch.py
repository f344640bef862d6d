"""Two of the DSN's hosts that take writes at once, for the log, `/readyz?verbose` and the alarm.

Whoever reaches the one writes there, and whoever reaches the other there: two databases, which nobody puts together
again. The node that has the duties looks; the others hear of it with what it tells of itself.
"""

from collections.abc import Sequence

import structlog
from attrs import define, field

from ...store.ports import Backend
from ..alarm import Alarm
from ..clock import Clock
from ..durations import format_time

FACT = "rivals"
"""What a node tells the others under."""
_ADVICE = "each has what is written to it: set read_only on all but one"

log = structlog.get_logger()


@define(eq=False)
class WriterWatch:
    """`look` every so often, by who has the duties."""

    _backend: Backend
    _alarm: Alarm
    _clock: Clock
    found: Sequence[str] = field(default=(), init=False)
    """Hosts at which another server takes writes, too."""

    async def look(self) -> None:
        """One more look, and a word about what is new. Raises `StoreError`."""
        before, self.found = self.found, await self._backend.rivals()
        if set(self.found) - set(before):
            log.warning("store_two_writers", hosts=list(self.found), because=_ADVICE)
            self._alarm.ring("store_two_writers", at=format_time(self._clock.now()), hosts=list(self.found))
        elif before and not self.found:
            log.info("store_one_writer")

    def forget(self) -> None:
        """Another has the duties, and looks."""
        self.found = ()

    def wrong(self, elsewhere: Sequence[str]) -> str | None:
        """As a sentence, with what another node has found; None where one takes writes."""
        hosts = self.found or elsewhere
        return f"another server takes writes, too, at {', '.join(hosts)}: {_ADVICE}" if hosts else None
