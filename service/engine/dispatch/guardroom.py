"""The room of a guard: messages that are due wait here until the guard has said whether they are sent.

Nothing else waits with them, and each guard has a room of its own. A batch is asked for together; one that fails is
parted, until it is known of which message the guard can say nothing: that one is asked for alone from then on, with
pauses that grow. A guard that cannot be asked at all, or answers for no message, is left alone for a while, a longer
one each time. A message without an answer stays, and is never sent.

An answer is used once, while it is young. A message that another server has handed out meanwhile, or that was
cancelled, is not found any more when its turn comes.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

import trio
from attrs import define, field

from ....store.errors import StoreError
from ...clock import Clock
from ...guards.question import Answers, NoAnswer
from ...outages import tell_failure
from .guard_telling import GuardTelling
from .guarded_promotion import GuardedPromotion

BATCH = 500
"""Messages that are asked for together, at most."""
YOUNG = 5.0
"""Seconds for which an answer is used."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0
"""Seconds before a guard that has not answered is asked again."""
_LOOK = 0.25
"""Seconds before another try with messages that another transaction holds."""
_AWAY = 0.5
"""Seconds before another try when the store is away."""
_SURE = 2
"""Messages that are asked for alone in vain, one after another, before the guard is held to be at fault."""


class Asking(Protocol):
    """A guard, as the room asks it."""

    async def ask(self, keys: Sequence[str]) -> Answers:
        """Raises `NoAnswer`."""
        ...


@define
class _Alone:
    """A message of which the guard could say nothing: it is asked for alone."""

    pause: float
    again_at: float
    why: str


@define(eq=False)
class GuardRoom:
    """The room of one guard. While the time is in doubt nothing is promoted. The room reports when messages are held,
    with the reason, and when they are no longer."""

    _name: str
    _guard: Asking
    _promotion: GuardedPromotion
    _telling: GuardTelling
    _clock: Clock
    _ready: dict[int, None] = field(factory=dict[int, None], init=False)
    _alone: dict[int, _Alone] = field(factory=dict[int, _Alone], init=False)
    _taken: set[int] = field(factory=set[int], init=False)
    """Messages that are being asked for or promoted."""
    _again: set[int] = field(factory=set[int], init=False)
    """Messages that came once more meanwhile: the transaction that has them may have passed them over."""
    _size: int = field(default=BATCH, init=False)
    _in_vain: int = field(default=0, init=False)
    """Messages asked for alone since the guard last had an answer."""
    _pause: float = field(default=0.0, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)
    why: str | None = field(default=None, init=False)
    """Why all messages are held, if the guard does not answer."""
    _told: bool = field(default=False, init=False)
    """It was reported that messages are held, and not yet that they no longer are."""

    @property
    def holds(self) -> str | None:
        """Why messages are held: all of them, or else the one that was last set aside to be asked for alone."""
        last = next(reversed(self._alone.items()), None)
        return self.why or (None if last is None else _of_one(last[0], last[1].why))

    def why_held(self, id_: int) -> str | None:
        """Why this message is held; None if it is not, or has not been asked for yet."""
        one = self._alone.get(id_)
        return (self.why if id_ in self._ready else None) if one is None else one.why

    def __contains__(self, entry: object) -> bool:
        return entry in self._ready or entry in self._alone

    def __len__(self) -> int:
        return len(self._ready) + len(self._alone)

    def put(self, id_: int) -> None:
        if id_ in self._taken:
            self._again.add(id_)
        elif id_ not in self._alone:
            self._ready[id_] = None
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._until_due()
            if self._ready:
                await self._bring(list(islice(self._ready, self._size)))
            if (id_ := self._due_alone()) is not None:
                await self._bring([id_])

    async def _until_due(self) -> None:
        if self._pause:
            await trio.sleep(self._pause)
        while self._clock.in_doubt or not (self._ready or self._due_alone() is not None):
            self._changed = trio.Event()
            rest = _LOOK if self._clock.in_doubt or self._alone else float("inf")
            with trio.move_on_after(rest):
                await self._changed.wait()

    def _due_alone(self) -> int | None:
        now = trio.current_time()
        return next((id_ for id_, one in self._alone.items() if one.again_at <= now), None)

    async def _bring(self, ids: Sequence[int]) -> None:
        self._taken = set(ids)
        try:
            await self._ask_for(ids)
        except StoreError as error:
            tell_failure("guarded_failed", error, messages=len(ids), again_in=_AWAY)
            await trio.sleep(_AWAY)
        finally:
            self._taken = set()
            if self._told and self.holds is None:
                self._told = False
                self._telling.answers(self._name, len(self))
            for id_ in self._again:
                if id_ not in self:
                    self._ready[id_] = None
            self._again = set()

    async def _ask_for(self, ids: Sequence[int]) -> None:
        now = self._clock.now()
        there = [one for one in await self._promotion.read(ids) if one.due <= now]
        self._forget(set(ids).difference([one.id for one in there]))
        if not there:
            return
        asked_at = trio.current_time()
        try:
            found = await self._guard.ask([one.key for one in there])
        except NoAnswer as error:
            self._failed([one.id for one in there], error)
            return
        self._well(len(there))
        for one in there:
            if (why := found.unclear.get(one.key)) is not None:
                self._hold(self._set_aside(one.id, why))
        answers = {one.id: found.said[one.key] for one in there if one.key in found.said}
        left = (
            await self._promotion.promote(answers, lambda: trio.current_time() - asked_at < YOUNG)
            if answers
            else set[int]()
        )
        self._forget(answers.keys() - left)
        for id_ in left:
            self._put_last(id_)
        if answers and left == answers.keys():
            await trio.sleep(_LOOK)

    def _well(self, messages: int) -> None:
        self._in_vain, self._pause = 0, 0.0
        self._size = min(BATCH, max(self._size, messages) * 2)
        self.why = None

    def _failed(self, ids: Sequence[int], error: NoAnswer) -> None:
        if not error.of_all and len(ids) > 1:
            self._size = max(1, len(ids) // 2)
            return
        self._hold(str(error))
        before = ids[0] in self._alone
        if not error.of_all and (before or self._in_vain < _SURE):
            self._in_vain += not before
            self._set_aside(ids[0], str(error))
            return
        self.why = str(error)
        self._pause = min(_LONGEST_PAUSE, self._pause * 2 or _FIRST_PAUSE)
        for id_ in ids:
            self._put_last(id_)

    def _hold(self, why: str) -> None:
        self._told = True
        self._telling.holds(self._name, why, len(self))

    def _set_aside(self, id_: int, because: str) -> str:
        """Has the message asked for alone, after a pause; returns why, with its id."""
        before = self._alone.pop(id_, None)
        pause = _FIRST_PAUSE if before is None else min(_LONGEST_PAUSE, before.pause * 2)
        self._ready.pop(id_, None)
        self._alone[id_] = _Alone(pause, trio.current_time() + pause, because)
        return _of_one(id_, because)

    def _put_last(self, id_: int) -> None:
        self._alone.pop(id_, None)
        self._ready.pop(id_, None)
        self._ready[id_] = None

    def _forget(self, ids: set[int]) -> None:
        for id_ in ids:
            self._ready.pop(id_, None)
            self._alone.pop(id_, None)


def _of_one(id_: int, why: str) -> str:
    return f"message {id_}: {why}"
