"""Runs coroutines, written once for threads and tasks, in threads: there none of them ever suspends."""

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends, in one step, and returns its result. Raises `RuntimeError` if it does."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    finally:
        work.close()
    raise RuntimeError("a coroutine that was to run without an event loop awaits one")
