"""The tasks of the project."""

from datetime import UTC, datetime
from threading import Event
from typing import Any

from django_tasks import task

gate = Event()
"""What `wait` waits for."""


@task
def add(one: int, other: int = 0) -> int:
    return one + other


@task
def nothing() -> None:
    return None


@task
def fail(text: str) -> None:
    raise ValueError(text)


@task
def kind_of(value: Any) -> str:
    return type(value).__name__


@task
def unwritable() -> Any:
    return datetime.now(UTC)


@task(takes_context=True)
def told(context: Any, word: str) -> list[Any]:
    return [word, context.attempt, context.task_result.id]


@task(takes_context=True)
def third_time_lucky(context: Any) -> int:
    if context.attempt < 3:
        raise ConnectionError(f"attempt {context.attempt}")
    return int(context.attempt)


@task
async def later(word: str) -> str:
    return word.upper()


@task
def wait() -> None:
    assert gate.wait(20)
