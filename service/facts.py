"""Facts: what this node tells the other nodes about itself, in its row of the table of nodes."""

from typing import Any

from attrs import define, frozen

from .. import __version__
from ..store.ports import Backend
from .engine.dispatch.spoilt import FACT as SPOILT
from .engine.dispatch.spoilt import TOLD
from .engine.state.pending import Pending
from .engine.state.spoilt_rows import SpoiltRows
from .upkeep.writer_watch import FACT as RIVALS
from .upkeep.writer_watch import WriterWatch


@define
class Address:
    """The URL at which the server is reached; its port is known only once it listens."""

    url: str


@frozen(eq=False)
class Facts:
    """Collects the facts as they are at the moment of the call."""

    _place: Address
    _backend: Backend
    _pending: Pending
    _writers: WriterWatch
    _spoilt: SpoiltRows

    def told(self) -> dict[str, Any]:
        behind, timers = self._pending.behind, len(self._pending)
        told = {"version": __version__, "url": self._place.url, "hand_behind": behind, "timers": timers}
        told |= {"skew": self._backend.skew(), RIVALS: list(self._writers.found)}
        return told | {SPOILT: self._spoilt.named(TOLD)}
