"""Django's tasks: of Django 6, or of the package django-tasks where Django is older."""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

from importlib import import_module
from importlib.util import find_spec

from django.core.exceptions import ImproperlyConfigured

_HOME = next((name for name in ("django.tasks", "django_tasks") if find_spec(name)), None)
if _HOME is None:
    raise ImproperlyConfigured("tasks need Django 6, or its backport: pip install 'tarry[django]'")

BaseTaskBackend = import_module(f"{_HOME}.backends.base").BaseTaskBackend
TaskResultDoesNotExist = import_module(f"{_HOME}.exceptions").TaskResultDoesNotExist
_base, _signals = import_module(f"{_HOME}.base"), import_module(f"{_HOME}.signals")
Task, TaskContext, TaskError, TaskResult = _base.Task, _base.TaskContext, _base.TaskError, _base.TaskResult
TaskResultStatus = _base.TaskResultStatus
task_enqueued, task_started, task_finished = _signals.task_enqueued, _signals.task_started, _signals.task_finished
task_backends = import_module(_HOME).task_backends
