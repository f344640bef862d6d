"""Patience with a row that another transaction holds: a few looks, about a second in all, and then `Busy`."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from ...errors import Busy

T = TypeVar("T")

_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.35)
"""Seconds between two looks."""


async def until_free(ask: Callable[[], Awaitable[T]], locked: Callable[[T], bool], what: str) -> T:
    """Asks until an answer is not `locked`, and returns it. Raises `Busy` after the last look."""
    for pause in _PAUSES:
        answer = await ask()
        if not locked(answer):
            return answer
        await trio.sleep(pause)
    answer = await ask()
    if locked(answer):
        raise Busy(f"a transaction holds {what} at the moment; try again in a second")
    return answer
