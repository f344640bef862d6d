"""What goes to one place, in two requests under way at most: what comes meanwhile waits for the next. Pure.

Nothing lingers: who comes when nothing is under way sends at once. The next request has what came meanwhile, in its
order, up to its limits. Of a crowd each request has half, so that the server works on one while the other's callers
have their answers and come again. A small crowd goes together: two requests would cost more than they gain.

`sharing` brings the lock and the requests, and whoever waits.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from attrs import define, field

from .calls import Call, Share
from .errors import Unavailable
from .shares import MAX_BYTES, MAX_SHARES, Outcome, fate

_AT_ONCE = 2
"""Requests under way."""
WORTH = 32
"""Calls that are worth a second request: those that wait, and half of the crowd."""


T = TypeVar("T", bound="Turn")


@define(eq=False)
class Load(Generic[T]):
    """What is under way in one request."""

    turns: Sequence[T]
    """In their order."""
    unanswered: int


@define(eq=False)
class Turn:
    """One caller's place."""

    call: Call[Any]
    share: Share
    sends: bool = field(default=False, init=False)
    """Its caller is to send a request, or has sent one that is under way."""
    load: "Load[Any] | None" = field(default=None, init=False)
    """What its caller has sent."""
    outcome: Outcome | None = field(default=None, init=False)
    """What came of it."""


class Gathering(Generic[T]):
    """Those who have something for one place."""

    def __init__(self, max_shares: int = MAX_SHARES, max_bytes: int = MAX_BYTES, worth: int = WORTH) -> None:
        self._max_shares = max_shares
        self._max_bytes = max_bytes
        self._worth = worth
        self._waiting: dict[T, None] = {}
        """Unsent, in the order in which they came."""
        self._requests = 0
        """Under way."""
        self._unanswered = 0
        """Calls that are in them."""
        self._called = False
        """Somebody is about to send."""

    @property
    def busy(self) -> bool:
        """A request is under way, or somebody is about to send it."""
        return self._called or self._requests > 0

    def enter(self, turn: T) -> T | None:
        """Somebody comes: who sends now, if anybody does; at once when nothing is under way."""
        self._waiting[turn] = None
        return self.call()

    def call(self) -> T | None:
        """Who sends now: whoever has waited for the longest, if a request may go."""
        if self._called or not self._waiting or not self._may_go():
            return None
        self._called = True
        turn = next(iter(self._waiting))
        turn.sends = True
        return turn

    def _may_go(self) -> bool:
        if not self._requests:
            return True
        half = self._crowd // 2
        return self._requests < _AT_ONCE and half >= self._worth and len(self._waiting) >= half

    def take(self) -> Load[T]:
        """What goes in the request of whoever was called: who has waited for the longest, and all who have room."""
        taken: list[T] = []
        size = 0
        most = self._most()
        for turn in self._waiting:
            size += turn.share.size + 1  # and what is between two
            if taken and (size > self._max_bytes or len(taken) >= most):
                break
            taken.append(turn)
        for turn in taken:
            del self._waiting[turn]
        self._called = False
        self._requests += 1
        self._unanswered += len(taken)
        return Load(taken, len(taken))

    def _most(self) -> int:
        """How many go in the next request."""
        half = self._crowd // 2
        return min(self._max_shares, self._crowd - half if half >= self._worth else self._crowd)

    @property
    def _crowd(self) -> int:
        """Calls that have no outcome yet."""
        return len(self._waiting) + self._unanswered

    def answered(self, load: Load[T], count: int) -> None:
        """So many more of a request have an outcome."""
        load.unanswered -= count
        self._unanswered -= count

    def end(self, load: Load[T]) -> None:
        """A request has ended."""
        self.answered(load, load.unanswered)
        self._requests -= 1

    def leave(self, turn: T) -> T | None:
        """Somebody has an outcome or gives up, and is taken out if unsent: who sends now in its place, if it did."""
        self._waiting.pop(turn, None)
        if not turn.sends:
            return None
        turn.sends = False
        if turn.load is None:
            self._called = False
        else:
            self.end(turn.load)
        return self.call()

    def unsent(self, turn: T) -> bool:
        """Whether it waits yet."""
        return turn in self._waiting


class Distribution(Generic[T]):
    """The answer to a shared request on its way to those who share it, each its own."""

    def __init__(self, turns: Sequence[T]) -> None:
        self.share = turns[0].share
        self._turns = turns
        self._answers = self.share.form.answers()
        self._answered = 0

    def content(self) -> bytes:
        """The request's body."""
        return self.share.form.content([turn.share.content for turn in self._turns])

    def feed(self, piece: bytes) -> Sequence[T]:
        """A piece of the answer has come: who has an outcome now. Raises `ValueError` for what is none."""
        return self._hand_out(self._answers.feed(piece))

    def end(self) -> Sequence[T]:
        """The answer has come whole: who has an outcome now. Who has none is in doubt. Raises `ValueError`."""
        return self._hand_out(self._answers.end())

    def fail(self, error: BaseException | None) -> Sequence[T]:
        """Nothing more comes, because of an error or without one: all others have an outcome now."""
        left = self._turns[self._answered :]
        if error is None:
            error = Unavailable(f"the answer ended early: {self._answered} of {len(self._turns)} had theirs")
        for turn in left:
            turn.outcome = fate(error)
        self._answered = len(self._turns)
        return left

    @contextmanager
    def handed_out(self, wake: Callable[[Sequence[T]], object]) -> Generator[None, None, None]:
        """Around the request that brings the answers: at its end `wake` has had everybody, whatever became of it."""
        error: BaseException | None = None
        try:
            yield
            wake(self.end())
        except Exception as caught:
            error = caught  # each has its own, or asks for it
        except BaseException as caught:
            wake(self.fail(caught))
            raise
        wake(self.fail(error))

    def _hand_out(self, outcomes: Sequence[Outcome]) -> Sequence[T]:
        first = self._answered
        done = self._turns[first : first + len(outcomes)]
        for turn, outcome in zip(done, outcomes, strict=False):  # more than were asked for are nobody's
            turn.outcome = outcome
        self._answered += len(done)
        return done


def not_sent(patience: float) -> Unavailable:
    """The error of who has waited for so many seconds, and gives up unsent."""
    error = Unavailable(f"not sent: the request before it takes longer than {patience:g} s")
    error.__cause__ = TimeoutError()
    return error
