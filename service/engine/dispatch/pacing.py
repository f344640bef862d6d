"""Burst pacing: how much of a burst may go before something of another topic falls due.

A message that comes while a batch of a burst is written waits for it, at the one writer or at a database with all
processors busy. But it is known when a message falls due, so none need meet a batch. A batch is no larger than what is
through before the next message of another topic is due; then the burst rests until that message is in the stream, and a
moment more, for its claim. Where other topics leave no gaps, the burst rests a quarter of the time, and no more.
"""

import math
from collections.abc import Generator
from contextlib import contextmanager

import trio
from attrs import define, field

from ..state.pace import Pace
from ..state.pending import Pending

_LEAST = 50
"""Messages: a smaller batch is hardly through sooner."""
_MARGIN = 0.001
"""Seconds by which a batch is to be through before a message of another topic is due."""
_PLANNED = 0.8
"""The part of a gap that is planned for; a batch may take longer than those before it."""
_COMES = 0.005
"""Seconds within which most messages that are due are on their way into the stream."""
_CLAIM = 0.003
"""Seconds in which most messages of other topics are claimed, once they are in the stream."""
_RESTS = 1 / 3
"""Seconds that the burst may rest for each second in which it was under way."""
_LONGEST_REST = 0.02
"""Seconds of rest that it can gather at most."""
PAUSE = 0.0005
"""Seconds between two looks whether the burst may go on."""


@define(eq=False)
class BurstPacing:
    """Paces a burst by when the next message of another topic falls due, as far as `pending` knows."""

    _pending: Pending
    _pace: Pace = field(factory=Pace, init=False)
    """The pace of the burst's promotions."""
    _may_rest: float = field(default=_LONGEST_REST, init=False)
    """Seconds that the burst may still rest."""
    _under_way: int = field(default=0, init=False)
    """Promotions of other topics that are under way."""
    _due: float = field(default=math.inf, init=False)
    """When the next message of another topic falls due, as of the last look."""
    _theirs_until: float = field(default=-math.inf, init=False)
    _rests_since: float | None = field(default=None, init=False)
    """Since when its rest has not been counted; None where there was room, when last looked."""

    @contextmanager
    def other_topic(self) -> Generator[None, None, None]:
        """Around a promotion of other topics."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._theirs_until = trio.current_time() + _CLAIM

    @property
    def rests(self) -> bool:
        """Whether the burst had no room, when last looked."""
        return self._rests_since is not None

    def room(self, wanted: int) -> int:
        """How many of the burst's next `wanted` messages may go now; 0 while it is another topic's turn."""
        now = trio.current_time()
        if self._rests_since is not None:
            self._may_rest = max(0.0, self._may_rest - (now - self._rests_since))
        fit = self._fit(now, wanted)
        if self._may_rest <= 0:
            fit = wanted
        elif fit < min(wanted, _LEAST):
            fit = 0
        self._rests_since = None if fit else now
        return fit

    async def turn(self, wanted: int) -> int:
        while not (many := self.room(wanted)):
            await trio.sleep(PAUSE)
        return many

    def went(self, messages: int, seconds: float) -> None:
        """The burst promoted so many messages in so many seconds."""
        self._pace.note(messages, seconds)
        self._may_rest = min(self._may_rest + _RESTS * seconds, _LONGEST_REST)

    def _fit(self, now: float, wanted: int) -> int:
        """How many of `wanted` would be through in time."""
        if self._due <= now:  # from then on until it is under way
            self._theirs_until = max(self._theirs_until, self._due + _COMES)
        left = self._pending.until_other_topic()
        self._due = now + left
        if self._under_way or now < self._theirs_until:
            return 0
        return wanted if self._pace.per_s is None else int(min(wanted, (left - _MARGIN) * _PLANNED * self._pace.per_s))
