"""The writer thread: one connection, and everything that waits goes into one transaction.

Where there are several, each runs in a savepoint of its own, so that one that fails is undone alone; then all are
committed together, and only then answered. One fsync serves all that came while the one before it ran.

Heavy work has a transaction of its own, and its turn after the others: a claim or a publish that comes while a thousand
messages fall due waits for the thousand that are on their way, and not for the next thousand, too.
"""

import queue
import sqlite3
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import trio
from attrs import define, field

from ..errors import Unavailable
from ..ports import Work
from .connection import SQLiteTransaction, connect, drive
from .errors import translate

T = TypeVar("T")

_TOGETHER = 64
"""At most so many pieces of work in one transaction."""


@define
class _Job(Generic[T]):
    """A piece of work and its answer."""

    work: Work[T]
    token: trio.lowlevel.TrioToken
    heavy: bool
    done: trio.Event = field(factory=trio.Event)
    result: T | None = None
    error: BaseException | None = None

    def finish(self) -> None:
        with suppress(trio.RunFinishedError):  # nobody is left to hear the answer
            self.token.run_sync_soon(self.done.set)


class Writer:
    """Runs work in transactions, in a thread of its own. Cancelling a caller does not stop its work."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._light: deque[_Job[Any]] = deque()
        self._heavy: deque[_Job[Any]] = deque()
        self._thread = threading.Thread(target=self._run, name="tarry-sqlite-writer", daemon=True)
        self._closed = False
        self.transactions = 0
        self.works = 0
        self._thread.start()

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        """Runs `work` and returns its result once it is committed."""
        if self._closed:
            raise Unavailable("the store is closed")
        job: _Job[T] = _Job(work, trio.lowlevel.current_trio_token(), heavy)
        self._jobs.put(job)
        await job.done.wait()
        if job.error is not None:
            raise job.error
        return cast(T, job.result)

    async def aclose(self) -> None:
        """Ends after the work that is waiting."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join)
        self._connection.close()

    def _run(self) -> None:
        goes_on = True
        while goes_on or self._light or self._heavy:
            goes_on = goes_on and self._sort()
            # In turns, so that neither waits for more than one transaction of the other.
            if self._light:
                self._together([self._light.popleft() for _ in range(min(len(self._light), _TOGETHER))])
            if self._heavy:
                self._together([self._heavy.popleft()])

    def _sort(self) -> bool:
        """Takes all that is there, and waits for the first if nothing waits; whether more may come."""
        while not (self._light or self._heavy) or not self._jobs.empty():
            if (job := self._jobs.get()) is None:
                return False
            (self._heavy if job.heavy else self._light).append(job)
        return True

    def _together(self, jobs: list[_Job[Any]]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if len(jobs) == 1:
                self._alone(jobs[0])
            else:
                for job in jobs:
                    self._one(job)
            self._connection.execute("COMMIT")
            self.transactions += 1
            self.works += len(jobs)
        except Exception as error:
            self._roll_back()
            for job in jobs:
                job.error = job.error or translate(error)
        for job in jobs:
            job.finish()

    def _alone(self, job: _Job[Any]) -> None:
        try:
            job.result = drive(job.work(SQLiteTransaction(self._connection)))
        except Exception as error:
            job.error = error
            raise

    def _one(self, job: _Job[Any]) -> None:
        self._connection.execute("SAVEPOINT work")
        try:
            job.result = drive(job.work(SQLiteTransaction(self._connection)))
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # the whole transaction is gone, as after a full disk
            self._connection.execute("ROLLBACK TO work")
            job.error = error
        self._connection.execute("RELEASE work")

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):  # what cannot be rolled back was not committed either; the next BEGIN tells
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
