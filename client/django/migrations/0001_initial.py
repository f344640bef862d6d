"""The table of tasks."""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false, reportArgumentType=false

from typing import Any, ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="StoredTask",
            fields=[
                ("id", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("path", models.CharField(max_length=255)),
                ("backend", models.CharField(max_length=64)),
                ("queue_name", models.CharField(max_length=128)),
                ("priority", models.SmallIntegerField()),
                ("run_after", models.DateTimeField(null=True)),
                ("args", models.JSONField()),
                ("kwargs", models.JSONField()),
                ("status", models.CharField(max_length=16)),
                ("enqueued_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("last_attempted_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("attempts", models.IntegerField(default=0)),
                ("worker_ids", models.JSONField(default=list)),
                ("errors", models.JSONField(default=list)),
                ("return_value", models.JSONField(null=True)),
                ("handed_over", models.BooleanField(default=False)),
            ],
            options={
                "db_table": "tarry_task",
                "indexes": [models.Index(fields=["handed_over", "enqueued_at"], name="idx_handed_over_enqueued_at")],
            },
        ),
    ]
