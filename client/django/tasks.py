"""`TarryBackend`: Django's tasks over topics of Tarry.

A task that is enqueued is a row in the project's database, in the transaction of the request, and a message in Tarry
with the row's id. With the outbox both are in one transaction. Without it the message is published when the transaction
has committed; when that fails, or the process dies before it, a worker publishes it later. The row's id is its
idempotency key, so nobody publishes it twice within the server's window, and a row that is finished is not run again.
"""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

import logging
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.module_loading import import_string

from .. import spans
from ..errors import TarryError
from .configuration import Configuration, configuration
from .framework import BaseTaskBackend, TaskError, TaskResult, TaskResultDoesNotExist, TaskResultStatus, task_enqueued
from .lanes import topic_of
from .models import StoredTask
from .sending import client, publish_made

log = logging.getLogger("tarry.client.django")
atomic: Any = transaction.atomic


class TarryBackend(BaseTaskBackend):
    """For TASKS: `{"default": {"BACKEND": "tarry.client.django.tasks.TarryBackend", "QUEUES": [...], "OPTIONS": {}}}`.

    OPTIONS override the settings of TARRY with the same names.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        configuration(self.options)  # reports wrong settings at the start

    @property
    def configuration(self) -> Configuration:
        """The settings as they are now, since tests override them."""
        return configuration(self.options)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueues a task in the open transaction; it is not run before that commits, and never if it rolls back."""
        self.validate_task(task)
        of = self.configuration
        stored = StoredTask(
            id=get_random_string(32),
            path=task.module_path,
            backend=self.alias,
            queue_name=task.queue_name,
            priority=task.priority,
            run_after=task.run_after,
            args=args,
            kwargs=kwargs,
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            handed_over=of.outbox,
        )
        result = _result(stored, task)
        stored.args, stored.kwargs = result.args, result.kwargs  # as JSON can hold them
        with atomic(using=of.database):
            stored.save(using=of.database, force_insert=True)
            if of.outbox:
                topic = topic_of(of, task.queue_name, task.priority)
                publish_made(of, topic, self._body(stored), deliver_at=_due(task.run_after), key=result.id)
            else:
                transaction.on_commit(spans.later(partial(self._try_to_hand_over, stored)), using=of.database)
            signal = partial(task_enqueued.send, type(self), task_result=result)
            transaction.on_commit(signal, using=of.database)
        return result

    def get_result(self, result_id: str) -> Any:
        """The result of a task that was enqueued, as far as known. Raises `TaskResultDoesNotExist`."""
        rows = StoredTask.objects.using(self.configuration.database)
        stored = rows.filter(pk=str(result_id), backend=self.alias).first()
        if stored is None:
            raise TaskResultDoesNotExist(result_id)
        return self.result_of(stored)

    def result_of(self, stored: StoredTask) -> Any:
        """The row as Django's result."""
        task = import_string(stored.path).using(
            priority=stored.priority, queue_name=stored.queue_name, run_after=stored.run_after, backend=stored.backend
        )
        return _result(stored, task)

    def hand_over(self, stored: StoredTask) -> None:
        """Publishes the message of a row that is committed. Raises `TarryError`."""
        of = self.configuration
        client(of).publish(
            topic_of(of, stored.queue_name, stored.priority),
            self._body(stored),
            deliver_at=_due(stored.run_after),
            key=stored.id,
            idempotency_key=stored.id,
        )
        StoredTask.objects.using(of.database).filter(pk=stored.id).update(handed_over=True)

    def _try_to_hand_over(self, stored: StoredTask) -> None:
        """Publishes, and only logs that the server is away: the task is kept, and the request has not failed."""
        try:
            self.hand_over(stored)
        except TarryError as error:
            log.warning("task %s waits for a worker to hand it over: %s", stored.id, error)

    def _body(self, stored: StoredTask) -> dict[str, Any]:
        return {"task": stored.id, "priority": stored.priority}


def _result(stored: StoredTask, task: Any) -> Any:
    result = TaskResult(
        task=task,
        id=stored.id,
        status=TaskResultStatus(stored.status),
        enqueued_at=stored.enqueued_at,
        started_at=stored.started_at,
        last_attempted_at=stored.last_attempted_at,
        finished_at=stored.finished_at,
        args=stored.args,
        kwargs=stored.kwargs,
        backend=stored.backend,
        errors=[TaskError(**error) for error in stored.errors],
        worker_ids=list(stored.worker_ids),
    )
    object.__setattr__(result, "_return_value", stored.return_value)
    return result


def _due(run_after: datetime | None) -> datetime | None:
    """The due time, rounded up to the millisecond. Without USE_TZ, times are in the project's own zone."""
    if run_after is None:
        return None
    at = timezone.make_aware(run_after) if timezone.is_naive(run_after) else run_after
    return at + timedelta(microseconds=-at.microsecond % 1000)
