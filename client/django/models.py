"""A row for each task that was enqueued: its call, and its result.

It is written in the transaction of the request, and undone with it. The message in Tarry has its id and priority alone.
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
    """The path of the task in Python: module and name."""
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
    """The number of the last run that has begun; only that run may write the result."""
    worker_ids: Any = models.JSONField(default=list)
    errors: Any = models.JSONField(default=list)
    return_value: Any = models.JSONField(null=True)
    handed_over: Any = models.BooleanField(default=False)
    """Whether Tarry has its message."""

    class Meta:
        db_table = "tarry_task"
        # A worker looks for rows of processes that died between their commit and the publish.
        indexes: ClassVar[list[Any]] = [
            models.Index(fields=["handed_over", "enqueued_at"], name="idx_handed_over_enqueued_at")
        ]

    def __str__(self) -> str:
        return f"{self.path} {self.id}"
