"""Tarry in a Django project: `INSTALLED_APPS = [..., "tarry.client.django"]`, and `TARRY = {...}` beside it.

    from tarry.client.django import publish_on_commit, publish, client

    publish_on_commit("orders", {"order": 7}, delay="30m")   # any database: sent when the transaction has committed
    publish("orders", {"order": 7}, delay="30m")             # Tarry's own MySQL: committed with your rows

- `configuration`  the settings, read and checked.
- `sending`        the client of this process, and publishing with the transaction of the request.
- `tasks`          `TarryBackend`, for the setting TASKS: Django's tasks over topics.
- `framework`      Django's tasks, of Django 6 or of the package django-tasks.
- `lanes`          the topic of a task, by its queue and priority.
- `models`         a row for each task that was enqueued, with its result.
- `running`        runs a task, and records it in its row.
- `priority_gate`  gives workers the waiting task of the highest priority.
- `worker`         the work of `manage.py tarry_worker`.

Nothing else of Tarry imports Django.
"""

from .sending import client, publish, publish_on_commit

__all__ = ["client", "publish", "publish_on_commit"]
