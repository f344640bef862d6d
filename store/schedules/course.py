"""A schedule's course as the store sees it: times and messages, worked out by functions that are handed in.

The store knows no calendar.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

from attrs import evolve, frozen

from ..content import Attributes

Outcome = Literal["fired", "missed", "overlapped", "run", "backfilled", "cancelled", "kept"]
"""What became of a fire time. `missed`: its turn came too late. `overlapped`: the message before was unsettled still.
`run`, `backfilled`: somebody asked for it. `cancelled`: its message was cancelled, or was due when the schedule was
paused. `kept`: its turn has been, and its message is kept back until the one before is settled; it will be something
else."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Post(Attributes, frozen=True, kw_only=True):
    """The message of a fire time."""

    body: bytes


class Judgement(NamedTuple):
    """What is to be done when the turn of a fire time has come. Times are Unix milliseconds."""

    sent: bool
    """Whether its message goes to the stream."""
    next_at: int | None
    """The fire time that the schedule waits for from now on."""
    missed_until: int | None = None
    """The fire times after it and before then are left out, since they are too late; None: there are none."""


@frozen
class Course:
    """What a schedule's specification says. Times are Unix milliseconds."""

    after: Callable[[int], int | None]
    """The first fire time later than this one."""
    due: Callable[[int], int]
    """When the message of a fire time is due."""
    judge: Callable[[int, int], Judgement]
    """Of a fire time whose turn it is, and now."""
    post: Callable[[int], Post]
    group: str | None
    """A message is not sent while one before it is unsettled in this group."""
    keeps: bool = False
    """It is kept back then, and those of the fire times that come meanwhile are left out; False: it is left out."""

    def made(self, change: Callable[[Post], Post]) -> "Course":
        """The same with other messages."""

        def post(fire_at: int) -> Post:
            return change(self.post(fire_at))

        return evolve(self, post=post)


class Armed(NamedTuple):
    """A message of a schedule that waits from now on."""

    due: int
    id: int
    topic_id: int
    fresh: bool = True
    """False: it has waited before, for another time."""


Courses = Callable[[str, bytes, int], Course | None]
"""By name, specification and when it was made, a schedule's course; None while nobody here can tell."""


class Fired(NamedTuple):
    """What a transaction over schedules has changed of what waits."""

    armed: Sequence[Armed] = ()
    """It waits from now on."""
    dropped: Sequence[tuple[int, int]] = ()
    """(due, id) of what waits no more, though its time has not come."""
