"""Decides which calls for one place go together, in two requests under way at most. Pure.

Nothing is delayed: a call that comes while nothing is under way is sent at once. The next request has the calls that
came meanwhile, in their order, up to its limits. Of many callers each request has half, so that the server works on one
while the callers of the other get their answers and come again. A few callers go together: two requests would cost more
than they gain.

`sharing` supplies the lock, the requests and the waiting.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from attrs import define, field

from .calls import Call, Share
from .errors import Unavailable
from .shares import MAX_BYTES, MAX_SHARES, Outcome, fate

_AT_ONCE = 2
"""Most requests under way."""
WORTH = 32
"""Calls that are worth a second request: half of those without an outcome must be so many, and wait."""


T = TypeVar("T", bound="Caller")


@define(eq=False)
class Load(Generic[T]):
    """The calls under way in one request."""

    callers: Sequence[T]
    """In their order."""
    unanswered: int


@define(eq=False)
class Caller:
    """A caller with its call, on the way into a request."""

    call: Call[Any]
    share: Share
    sends: bool = field(default=False, init=False)
    """Whether it is to send a request, or has sent one that is under way."""
    load: "Load[Any] | None" = field(default=None, init=False)
    """The request that it has sent."""
    outcome: Outcome | None = field(default=None, init=False)
    """The result of the call, once there is one."""


class Gathering(Generic[T]):
    """The callers that have a call for one place."""

    def __init__(self, max_shares: int = MAX_SHARES, max_bytes: int = MAX_BYTES, worth: int = WORTH) -> None:
        self._max_shares = max_shares
        self._max_bytes = max_bytes
        self._worth = worth
        self._waiting: dict[T, None] = {}
        """Unsent, in the order in which they came."""
        self._requests = 0
        """Requests that are under way."""
        self._unanswered = 0
        """Calls in these requests that have no outcome yet."""
        self._called = False
        """Whether a caller is about to send."""

    @property
    def busy(self) -> bool:
        """Whether a request is under way, or a caller is about to send one."""
        return self._called or self._requests > 0

    def enter(self, caller: T) -> T | None:
        """Adds a caller; returns the one that sends now, if any: at once if nothing is under way."""
        self._waiting[caller] = None
        return self.call()

    def call(self) -> T | None:
        """The caller that sends now: the one that has waited for the longest, if a request may go."""
        if self._called or not self._waiting or not self._may_go():
            return None
        self._called = True
        caller = next(iter(self._waiting))
        caller.sends = True
        return caller

    def _may_go(self) -> bool:
        if not self._requests:
            return True
        half = self._crowd // 2
        return self._requests < _AT_ONCE and half >= self._worth and len(self._waiting) >= half

    def take(self) -> Load[T]:
        """Takes the calls for the request of the caller that sends now: the longest waiting, and all that have room."""
        taken: list[T] = []
        size = 0
        most = self._most()
        for caller in self._waiting:
            size += caller.share.size + 1  # and the separator
            if taken and (size > self._max_bytes or len(taken) >= most):
                break
            taken.append(caller)
        for caller in taken:
            del self._waiting[caller]
        self._called = False
        self._requests += 1
        self._unanswered += len(taken)
        return Load(taken, len(taken))

    def _most(self) -> int:
        """Most calls in the next request."""
        half = self._crowd // 2
        return min(self._max_shares, self._crowd - half if half >= self._worth else self._crowd)

    @property
    def _crowd(self) -> int:
        """Calls that have no outcome yet."""
        return len(self._waiting) + self._unanswered

    def answered(self, load: Load[T], count: int) -> None:
        """Notes that `count` more calls of a request have an outcome."""
        load.unanswered -= count
        self._unanswered -= count

    def end(self, load: Load[T]) -> None:
        """Notes that a request has ended."""
        self.answered(load, load.unanswered)
        self._requests -= 1

    def leave(self, caller: T) -> T | None:
        """Removes a caller that has an outcome or gives up; returns the one that sends now in its place, if it did."""
        self._waiting.pop(caller, None)
        if not caller.sends:
            return None
        caller.sends = False
        if caller.load is None:
            self._called = False
        else:
            self.end(caller.load)
        return self.call()

    def unsent(self, caller: T) -> bool:
        """Whether the caller still waits."""
        return caller in self._waiting


class Distribution(Generic[T]):
    """Hands out the answer to a shared request, to each caller its own part."""

    def __init__(self, callers: Sequence[T]) -> None:
        self.share = callers[0].share
        self._callers = callers
        self._answers = self.share.form.answers()
        self._answered = 0

    def content(self) -> bytes:
        """The request's body."""
        return self.share.form.content([caller.share.content for caller in self._callers])

    def feed(self, piece: bytes) -> Sequence[T]:
        """Takes a piece of the answer; returns callers that have an outcome now. Raises `ValueError` if malformed."""
        return self._hand_out(self._answers.feed(piece))

    def end(self) -> Sequence[T]:
        """Takes the end of the answer; returns the callers that have an outcome now. Those without one are in doubt.
        Raises `ValueError`."""
        return self._hand_out(self._answers.end())

    def fail(self, error: BaseException | None) -> Sequence[T]:
        """Gives all remaining callers an outcome, as no more answers come, with an error or without; returns them."""
        left = self._callers[self._answered :]
        if error is None:
            error = Unavailable(f"the answer ended early: {self._answered} of {len(self._callers)} had theirs")
        for caller in left:
            caller.outcome = fate(error)
        self._answered = len(self._callers)
        return left

    @contextmanager
    def handed_out(self, wake: Callable[[Sequence[T]], object]) -> Generator[None, None, None]:
        """Around the request that brings the answers: at its end `wake` was given every caller, whatever happened."""
        error: BaseException | None = None
        try:
            yield
            wake(self.end())
        except Exception as caught:
            error = caught  # each caller has its own error, or asks alone
        except BaseException as caught:
            wake(self.fail(caught))
            raise
        wake(self.fail(error))

    def _hand_out(self, outcomes: Sequence[Outcome]) -> Sequence[T]:
        first = self._answered
        done = self._callers[first : first + len(outcomes)]
        for caller, outcome in zip(done, outcomes, strict=False):  # surplus answers are nobody's
            caller.outcome = outcome
        self._answered += len(done)
        return done


def not_sent(patience: float) -> Unavailable:
    """The error of a caller that has waited for so many seconds, and gives up unsent."""
    error = Unavailable(f"not sent: the request before it takes longer than {patience:g} s")
    error.__cause__ = TimeoutError()
    return error
