"""What goes to one place, a request at a time: while one is under way, what comes waits for the next. Pure.

Nothing lingers: who comes when nothing is under way sends at once. The next request has what came meanwhile, in its
order, up to its limits. `sharing` puts threads around it, `async_sharing` tasks; both bring the lock and the requests.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from attrs import define, field

from .calls import Call, Share
from .errors import Unavailable
from .shares import MAX_BYTES, MAX_SHARES, Outcome, fate


@define(eq=False)
class Turn:
    """One caller's place."""

    call: Call[Any]
    share: Share
    sends: bool = field(default=False, init=False)
    """Its caller sends the next request, or has sent the one that is under way."""
    outcome: Outcome | None = field(default=None, init=False)
    """What came of it."""


T = TypeVar("T", bound=Turn)


class Gathering(Generic[T]):
    """Those who have something for one place."""

    def __init__(self, max_shares: int = MAX_SHARES, max_bytes: int = MAX_BYTES) -> None:
        self._max_shares = max_shares
        self._max_bytes = max_bytes
        self._waiting: dict[T, None] = {}
        """Unsent, in the order in which they came."""
        self.busy = False
        """A request is under way, or somebody is about to send it."""

    def enter(self, turn: T) -> None:
        """Somebody comes, and sends at once when nothing is under way."""
        self._waiting[turn] = None
        if not self.busy:
            self.busy = turn.sends = True

    def take(self) -> list[T]:
        """What goes in the next request: who has waited for the longest, and all for whom there is room."""
        taken: list[T] = []
        size = 0
        for turn in self._waiting:
            size += turn.share.size + 1  # and what is between two
            if taken and (size > self._max_bytes or len(taken) >= self._max_shares):
                break
            taken.append(turn)
        for turn in taken:
            del self._waiting[turn]
        return taken

    def end(self) -> T | None:
        """The request has ended: who sends the next; None when nobody waits, and then nothing is under way."""
        for turn in self._waiting:
            turn.sends = True
            return turn
        self.busy = False
        return None

    def go_on(self) -> bool:
        """The request has ended, and whoever sent it sends the next as well, if there is one."""
        self.busy = bool(self._waiting)
        return self.busy

    def leave(self, turn: T) -> T | None:
        """Somebody gives up, and is taken out if unsent. If it was to send or has sent: who sends the next."""
        self._waiting.pop(turn, None)
        if not turn.sends:
            return None
        turn.sends = False
        return self.end()

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
