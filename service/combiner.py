"""Group commit: what waits is written together, by a task of the service's own, and answered after its commit.

No linger: a batch is whatever came while the one before it was written. When the database refuses a batch for its data,
the batch is split, so that only the caller whose data it is sees the error.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import trio
from attrs import define

from ..store.errors import Refused
from .errors import Overloaded

_WORTH_SHARING = 100
"""Requests of a batch at the least, when there are so many: each transaction costs a commit."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


@define(eq=False)
class _Waiting(Generic[Request, Answer]):
    request: Request
    weight: int
    task: trio.lowlevel.Task | None
    """Who waits; None when nobody does any more. (An Event for each would cost a third of the whole.)"""
    answer: Answer | None = None
    error: Exception | None = None

    async def wait(self) -> None:
        """Until `finish`."""
        await trio.lowlevel.wait_task_rescheduled(self._leave)

    def finish(self) -> None:
        """The answer, or the error, is there."""
        if self.task is not None:
            trio.lowlevel.reschedule(self.task)

    def _leave(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Combiner(Generic[Request, Answer]):
    """`ask` from any task; `run` in one of the service's own (or in several, for as many batches at a time)."""

    def __init__(
        self,
        write: Callable[[Sequence[Request]], Awaitable[Sequence[Answer]]],
        *,
        weigh: Callable[[Request], int] = lambda _: 1,
        batch: int = 1000,
        waiting: int = 100_000,
    ) -> None:
        self._write = write
        self._weigh = weigh
        self._batch = batch
        """The weight at which a batch is full; one request may weigh more."""
        self._limit = waiting
        """The weight that may wait; past it a caller is told to come back."""
        self._queue: deque[_Waiting[Request, Answer]] = deque()
        self._weight = 0
        self._some = trio.Event()
        self._resting = 0
        """Tasks in `run` that have nothing to write."""
        self._writing = 0

    async def ask(self, request: Request) -> Answer:
        """Has the request written; its answer, or what went wrong raised. Cancelling the caller stops nothing."""
        weight = self._weigh(request)
        if self._weight and self._weight + weight > self._limit:
            raise Overloaded("too much is waiting to be written; try again in a moment")
        item: _Waiting[Request, Answer] = _Waiting(request, weight, trio.lowlevel.current_task())
        self._queue.append(item)
        self._weight += weight
        self._some.set()
        await item.wait()
        if item.error is not None:
            raise item.error
        return item.answer  # type: ignore[return-value]  # set before `finish`

    async def run(self) -> None:
        """Writes batch after batch, for ever."""
        while True:
            self._resting += 1
            while not self._queue:
                if self._some.is_set():  # or else another task waits for it already
                    self._some = trio.Event()
                await self._some.wait()
            batch = self._take()
            self._resting -= 1
            self._writing += 1
            try:
                await self._write_or_split(batch)
            finally:
                self._writing -= 1

    @property
    def waiting(self) -> int:
        """Requests that are in no batch yet."""
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is being written."""
        return not self._queue and not self._writing

    def _take(self) -> list[_Waiting[Request, Answer]]:
        # With another task at rest it is shared, so that one batch is made ready while the other is being written.
        many = max(_WORTH_SHARING, -(-len(self._queue) // self._resting))
        batch = [self._queue.popleft()]
        weight = batch[0].weight
        while self._queue and len(batch) < many and weight + self._queue[0].weight <= self._batch:
            weight += self._queue[0].weight
            batch.append(self._queue.popleft())
        self._weight -= weight
        return batch

    async def _write_or_split(self, batch: list[_Waiting[Request, Answer]]) -> None:
        try:
            answers = await self._write([item.request for item in batch])
        except Refused as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._write_or_split(batch[:middle])
                await self._write_or_split(batch[middle:])
                return
            _finish(batch, error)
        except Exception as error:
            _finish(batch, error)
        else:
            for item, answer in zip(batch, answers, strict=True):
                item.answer = answer
                item.finish()


def _finish(batch: Sequence[_Waiting[Request, Answer]], error: Exception) -> None:
    for item in batch:
        item.error = error
        item.finish()
