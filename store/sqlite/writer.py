"""The writer thread: one connection; all light work that waits goes into one transaction.

Several pieces of work in one transaction run in a savepoint each, so that one that fails is undone alone; all are
committed together, and answered only then. So one fsync serves all work that came while the one before ran.

Heavy work has a transaction of its own, and its turn after light work. While it runs it may ask whether it is
`waited_for`, and end early. So a claim or a publish that comes while a thousand messages fall due waits only for a
piece of them.
"""

import queue
import sqlite3
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import trio
from attrs import define, field

from ..errors import StoreError, Unavailable
from ..ports import Work
from .checkpoints import Checkpoints
from .connection import SQLiteTransaction, connect, drive
from .errors import translate
from .fairness import Fairness

T = TypeVar("T")

_TOGETHER = 64
"""How many pieces of work one transaction has at most."""
_LINGER = 0.0015
"""Seconds that heavy work waits, after light work, for more light work. Most callers come back at once when their
commit is answered: promoted messages are claimed, claimed ones are acked. A piece of heavy work in between would take
twice as long."""


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
        try:
            self._checkpoints = Checkpoints(path, self._connection)
        except StoreError:
            self._connection.close()
            raise
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._light: deque[_Job[Any]] = deque()
        self._heavy: deque[_Job[Any]] = deque()
        self._thread = threading.Thread(target=self._run, name="tarry-sqlite-writer", daemon=True)
        self._closed = False
        self._ends = False
        self._fairness = Fairness()
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
        """Ends the thread after the waiting work."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join)
            await trio.to_thread.run_sync(self._checkpoints.close)
        self._connection.close()

    def waited_for(self) -> bool:
        """Whether light work waits and would have the next turn. Called by running work, in the writer's thread."""
        self._take_in()
        return bool(self._light) and self._fairness.light_first

    def _run(self) -> None:
        while self._light or self._heavy or not self._ends:
            if not (self._light or self._heavy):
                self._sort(self._jobs.get())
            self._take_in()
            began = time.perf_counter()
            if self._light and (self._fairness.light_first or not self._heavy):
                self._together([self._light.popleft() for _ in range(min(len(self._light), _TOGETHER))])
                self._linger()
                if self._heavy:
                    self._fairness.light(time.perf_counter() - began)
            elif self._heavy:
                self._together([self._heavy.popleft()])
                self._fairness.heavy(time.perf_counter() - began)
            self._checkpoints.committed(waited_for=self.waited_for())

    def _linger(self) -> None:
        """Waits a moment for more light work, if heavy work waits."""
        self._take_in()
        end = time.perf_counter() + _LINGER
        while self._heavy and not self._light and self._fairness.light_first:
            if (left := end - time.perf_counter()) <= 0:
                break
            with suppress(queue.Empty):
                self._sort(self._jobs.get(timeout=left))

    def _take_in(self) -> None:
        """Sorts all jobs that have arrived."""
        while not self._jobs.empty():
            self._sort(self._jobs.get())

    def _sort(self, job: _Job[Any] | None) -> None:
        if job is None:
            self._ends = True
        else:
            (self._heavy if job.heavy else self._light).append(job)

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
        with suppress(sqlite3.Error):  # nothing was committed in any case; if it persists, the next BEGIN fails
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
