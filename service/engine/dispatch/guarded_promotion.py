"""The promotion of messages whose guard has said whether they are sent."""

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from ....store.store import Store
from ....store.timers import guarded
from ....store.timers.guarded import Guarded
from ...clock import Clock
from ...metrics import Metrics
from ..signals import Signals
from ..state.directory import Directory
from .spoilt import Spoilt


@frozen(eq=False)
class GuardedPromotion:
    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _signals: Signals
    _spoilt: Spoilt

    async def read(self, ids: Sequence[int]) -> Sequence[Guarded]:
        """What the guard is to be asked about these messages. Raises `StoreError`."""
        return await self._store.read(guarded.questions, ids)

    async def promote(self, answers: Mapping[int, bool], fresh: Callable[[], bool]) -> set[int]:
        """Promotes or suppresses each message as the guard said, while its answer is `fresh`; returns those that could
        not go now. Raises `StoreError`."""

        async def some(ids: Sequence[int]) -> set[int]:
            these = {id_: answers[id_] for id_ in ids}
            promoted, suppressed, left = await self._store.promote_guarded(these, self._clock.now(), fresh)
            self._signals.streamed(promoted)
            for one in suppressed:
                self._metrics.suppressed(self._directory.name_of(one.topic_id), 1)
            return left

        return {id_ for left in await self._spoilt.wholly(list(answers), some) for id_ in left}
