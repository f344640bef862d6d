"""A row for each task that was enqueued: what it is, and what came of it.

It is written in the transaction of the request, and goes with it. The message in Tarry has its id and nothing else.
"""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false, reportArgumentType=false

from typing import Any, ClassVar

from django.db import models


class StoredTask(models.Model):
    """What Django calls a task result."""

    objects: Any
    id: Any = models.CharField(primary_key=True, max_length=32)
    path: Any = models.CharField(max_length=255)
    """Of the task in Python: module and name."""
    backend: Any = models.CharField(max_length=64)
    queue_name: Any = models.CharField(max_length=128)
    priority: Any = models.SmallIntegerField()
    run_after: Any = models.DateTimeField(null=True)
    args: Any = models.JSONField()
    kwargs: Any = models.JSONField()
    status: Any = models.CharField(max_length=16)
    enqueued_at: Any = models.DateTimeField()
    started_at: Any = models.DateTimeField(null=True)
    last_attempted_at: Any = models.DateTimeField(null=True)
    finished_at: Any = models.DateTimeField(null=True)
    attempts: Any = models.IntegerField(default=0)
    """The last run that has begun; only that one may write what came of it."""
    worker_ids: Any = models.JSONField(default=list)
    errors: Any = models.JSONField(default=list)
    return_value: Any = models.JSONField(null=True)
    handed_over: Any = models.BooleanField(default=False)
    """Whether Tarry has its message."""

    class Meta:
        db_table = "tarry_task"
        # What a process left behind that died between its commit and the publish is looked for by a worker.
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["handed_over", "enqueued_at"], name="idx_handed_over_enqueued_at")
        ]

    def __str__(self) -> str:
        return f"{self.path} {self.id}"
