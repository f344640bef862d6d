"""Runs a task, and records in its row that it has begun, then finished, failed, or is ready for another attempt.

A message may come again after a lost lease. Then the row decides: a finished task is not run again, and only the run
that began last may write the result.
"""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

import json
from traceback import format_exception
from typing import Any

from django.db.models import F
from django.utils import timezone

from .framework import TaskContext, TaskResultStatus, task_finished, task_started
from .models import StoredTask
from .tasks import TarryBackend

_FINISHED = (TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED)


class TryAgain(Exception):
    """The task raised at this attempt, and has attempts left."""

    def __init__(self, attempt: int, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__} at attempt {attempt}")
        self.attempt = attempt


def run_stored(backend: TarryBackend, task_id: str, worker_id: str) -> None:
    """Runs the task of a row. Raises `TryAgain`."""
    rows = StoredTask.objects.using(backend.configuration.database).filter(pk=task_id)
    stored = rows.first()
    if stored is None or stored.status in _FINISHED:
        return
    now, attempt = timezone.now(), stored.attempts + 1
    begun = rows.filter(attempts=stored.attempts).exclude(status__in=_FINISHED)
    if not begun.update(
        status=TaskResultStatus.RUNNING,
        started_at=stored.started_at or now,
        last_attempted_at=now,
        attempts=F("attempts") + 1,
        worker_ids=[*stored.worker_ids, worker_id],
    ):
        return  # somebody else has begun it just now
    mine = rows.filter(attempts=attempt)
    try:
        stored.refresh_from_db()
        result = backend.result_of(stored)
        task_started.send(sender=type(backend), task_result=result)
        context = [TaskContext(task_result=result)] if result.task.takes_context else []
        value = json.loads(json.dumps(result.task.call(*context, *result.args, **result.kwargs)))
    except BaseException as error:
        again = attempt < backend.configuration.max_attempts
        _write_failure(mine, stored, error, again=again)
        if again:
            raise TryAgain(attempt, error) from error
        _tell(backend, rows)  # Django logs the error that is being handled
    else:
        mine.update(status=TaskResultStatus.SUCCESSFUL, finished_at=timezone.now(), return_value=value)
        _tell(backend, rows)


def _write_failure(mine: Any, stored: StoredTask, error: BaseException, *, again: bool) -> None:
    kind = type(error)
    told = {
        "exception_class_path": f"{kind.__module__}.{kind.__qualname__}",
        "traceback": "".join(format_exception(error)),
    }
    mine.update(
        status=TaskResultStatus.READY if again else TaskResultStatus.FAILED,
        finished_at=None if again else timezone.now(),
        errors=[*stored.errors, told],
    )


def _tell(backend: TarryBackend, rows: Any) -> None:
    stored = rows.get()
    try:
        result = backend.result_of(stored)
    except ImportError:
        return  # the task's code is not there: its error says so
    task_finished.send(sender=type(backend), task_result=result)
