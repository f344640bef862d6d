"""A schedule's course: its fire times and messages, computed by functions that are passed in.

The store itself knows no calendar.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

from attrs import evolve, frozen

from ..content import Attributes

Outcome = Literal["fired", "missed", "overlapped", "run", "backfilled", "cancelled", "kept"]
"""What became of a fire time. `missed`: its turn came too late. `overlapped`: the message before it was still
unsettled. `run`, `backfilled`: an operator asked for it. `cancelled`: its message was cancelled, or was due when the
schedule was paused or removed. `kept`: its message is kept back until the one before is settled; then the outcome
changes."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Post(Attributes, frozen=True, kw_only=True):
    """The message of a fire time."""

    body: bytes


class Judgement(NamedTuple):
    """What to do at the turn of a fire time. Times are Unix milliseconds."""

    sent: bool
    """Whether its message goes to the stream."""
    next_at: int | None
    """The fire time that the schedule waits for from now on."""
    missed_until: int | None = None
    """The fire times between this one and then are left out, since they are too late; None: there are none."""


@frozen
class Course:
    """What a schedule's specification says. Times are Unix milliseconds."""

    after: Callable[[int], int | None]
    """The first fire time later than this one."""
    due: Callable[[int], int]
    """When the message of a fire time is due."""
    judge: Callable[[int, int], Judgement]
    """Judges a fire time whose turn it is, given that time and the current time."""
    post: Callable[[int], Post]
    group: str | None
    """A message is not sent while the one before it is unsettled in this group."""
    keeps: bool = False
    """In that case the message is kept back, and the fire times that come meanwhile are left out; False: the message
    itself is left out."""

    def made(self, change: Callable[[Post], Post]) -> "Course":
        """The same course with changed messages."""

        def post(fire_at: int) -> Post:
            return change(self.post(fire_at))

        return evolve(self, post=post)


class Armed(NamedTuple):
    """A message of a schedule that waits from now on."""

    due: int
    id: int
    topic_id: int
    fresh: bool = True
    """False: the message has waited before, for another time."""


Courses = Callable[[str, bytes, int], Course | None]
"""Returns a schedule's course from its name, its specification and when it was made; None while this node cannot
tell."""


class Fired(NamedTuple):
    """Which messages wait or no longer wait after a transaction over schedules."""

    armed: Sequence[Armed] = ()
    """Messages that wait from now on."""
    dropped: Sequence[tuple[int, int]] = ()
    """(due, id) of messages that no longer wait, though they are not due yet."""
