"""Timers by key: requests are written in batches, and the parts that need to know are told."""

from collections.abc import Sequence

import trio
from attrs import define, field

from ....store.errors import TopicGone
from ....store.store import Store
from ....store.timers import keyed
from ....store.timers.keyed import Answer, Wish
from ...clock import Clock
from ...metrics import Metrics
from ..batching.combiner import Combiner
from ..batching.patience import until_free
from ..signals import Signals
from ..state.directory import Directory
from .accepted import Accepted
from .limits import Limits

_BATCH_BYTES = 2 << 20
_PAGE, _PAGES, _REST = 500, 200, 0.02
"""Timers in a transaction, transactions in a round, seconds between two: a million are looked at in ten rounds."""
_WISH = 300
"""Bytes that a request counts beside its message."""


@define(eq=False)
class KeyedTimers:
    _store: Store
    _directory: Directory
    _clock: Clock
    _metrics: Metrics
    _accepted: Accepted
    _signals: Signals
    _limits: Limits
    _max_waiting: int
    _doing: Combiner[Wish, Answer] = field(init=False)
    _behind: tuple[int, bytes] = field(default=(0, b""), init=False)
    """The timer where the last round of `forget` ended."""

    def __attrs_post_init__(self) -> None:
        self._doing = Combiner(
            self._do,
            lane=lambda wish: (wish.topic.id, wish.key),
            weigh=_weight,
            batch=_BATCH_BYTES,
            waiting=self._max_waiting,
            halves=True,
        )

    def open(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self._doing.run)

    @property
    def idle(self) -> bool:
        return self._doing.idle

    def hurry(self) -> None:
        self._doing.hurry()

    async def do(self, wish: Wish) -> Answer:
        """Sets or cancels a timer. Raises `Busy` while another transaction holds the timer or its message, and
        `TooMany` where a limit of the topic is reached; a timer that replaces another does not add to those that wait.
        """
        topic = wish.topic
        if wish.draft is None or not topic.limited:
            return await self._do_one(wish)
        await self._limits.look(topic)
        waiting = 0 if self._limits.is_full(topic, 1) and await self._waits(wish) else 1
        self._limits.take(topic, 1, waiting)
        written = False
        try:
            answer = await self._do_one(wish)
            written = answer.result in ("made", "replaced") and not answer.replayed
        finally:
            self._limits.landed(topic, 1, waiting, written=written)
        return answer

    async def _waits(self, wish: Wish) -> bool:
        found = await self._store.read(keyed.find_timer, wish.topic, wish.key)
        return found is not None and found.state == "scheduled"

    async def _do_one(self, wish: Wish) -> Answer:
        try:
            return await until_free(lambda: self._doing.ask(wish), lambda one: one.result == "locked", "this timer")
        except TopicGone:
            self._directory.forget_topic(wish.topic)
            raise

    async def forget(self) -> None:
        """Forgets timers whose message waits no more, as long after it was due as idempotency keys are remembered. A
        round looks at so many pages, and the next one goes on behind them."""
        for _ in range(_PAGES):
            until = self._clock.now() - self._store.window
            _, on = await self._store.write(keyed.forget, self._behind, until, _PAGE)
            self._behind = on or (0, b"")
            if on is None:
                break
            await trio.sleep(_REST)  # writers come first

    async def _do(self, wishes: Sequence[Wish]) -> list[Answer]:
        done = await self._store.set_timers(wishes, self._clock.now())
        for wish, answer in zip(wishes, done, strict=True):
            if answer.replayed:
                continue
            if answer.due_before is not None:
                self._signals.timer_gone(answer.due_before, answer.id if answer.replaced is None else answer.replaced)
                self._accepted.count(wish.topic.id, int(answer.first_heard))
            if answer.result in ("made", "replaced"):
                self._signals.timer_added(answer.due, answer.id)
                self._accepted.count(wish.topic.id, 1)
            elif answer.result == "cancelled" and answer.fresh:
                self._metrics.cancelled(wish.topic.name, 1)
        return done


def _weight(wish: Wish) -> int:
    draft = wish.draft
    return _WISH if draft is None else _WISH + len(draft.body) + len(draft.headers or b"")
