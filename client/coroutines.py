"""What is written once for threads and tasks, as coroutines: in threads nothing that they await ever suspends."""

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends: one step is all. Raises `RuntimeError` for one that does."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    finally:
        work.close()
    raise RuntimeError("a coroutine that was to run without an event loop awaits one")
