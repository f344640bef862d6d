"""Requests that wait to be written, in lanes: those of one lane need the same rows, and a batch takes from several."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

import trio
from attrs import define, field

FIRST_REST, LONGEST_REST = 0.02, 0.25
"""Seconds from one look at a locked lane to the next, doubled each time."""
ASIDE_FOR = 10.0
"""Seconds that a lane stays aside after it was last found locked."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@define(eq=False)
class PendingRequest(Generic[Request, Answer]):
    lane: "Lane[Request, Answer]"
    request: Request
    weight: int
    task: trio.lowlevel.Task | None
    """The task that waits; None once it has gone. (An Event for each would cost a third of the whole.)"""
    answer: Answer | None = None
    error: Exception | None = None
    since: float = 0.0
    """When it came, by trio's time, if its lane was aside already; not used otherwise."""

    async def wait(self) -> None:
        await trio.lowlevel.wait_task_rescheduled(self._leave)

    def finish(self) -> None:
        """Wakes the task that waits: the answer, or the error, is there."""
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)

    def _leave(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


@define(eq=False)
class Lane(Generic[Request, Answer]):
    """Requests that need the same rows, in order of arrival. Kept while there is something to know of the lane."""

    key: Hashable
    waiting: deque[PendingRequest[Request, Answer]] = field(factory=lambda: deque[PendingRequest[Request, Answer]]())
    flying: int = 0
    """Batches under way that have requests of this lane."""
    slow: int = 0
    """Slow ones among them: the lane waits for them."""
    suspect: bool = False
    """The last batch with this lane was slow. Only one batch at a time takes from it."""
    aside_until: float | None = None
    """None: the lane is not aside."""
    locked_since: float | None = None
    """None: the lane was not locked at the last look."""
    rests_until: float = 0.0
    rest: float = FIRST_REST
    alone: bool = False
    """A batch with this lane has waited in vain, though `write_free` saw nothing locked."""
    trying: bool = False
    """Requests of this lane are being written aside."""

    @property
    def weight(self) -> int:
        return sum(item.weight for item in self.waiting)

    def found_free(self) -> None:
        self.locked_since, self.rest = None, FIRST_REST

    def found_locked(self, now: float) -> None:
        """The lane was locked at this look: it stays aside, and rests a little longer than the last time."""
        self.locked_since = now if self.locked_since is None else self.locked_since
        self.rests_until = now + self.rest
        self.rest = min(2 * self.rest, LONGEST_REST)
        self.aside_until = now + ASIDE_FOR


Items = list[PendingRequest[Request, Answer]]


@define(eq=False)
class Batch(Generic[Request, Answer]):
    items: Items[Request, Answer]
    lanes: list[Lane[Request, Answer]]
    began: float
    suspect: bool
    slow: bool = False


def lanes_of(items: Items[Request, Answer]) -> list[Lane[Request, Answer]]:
    return list(dict.fromkeys([item.lane for item in items]))


def refuse(items: Items[Request, Answer], error: Exception) -> None:
    for item in items:
        item.error = error
        item.finish()
