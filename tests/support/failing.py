"""What stands in for a part that fails."""

from collections.abc import Callable, Coroutine
from typing import Any


def failing(error: Exception) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Fails so whatever it is asked."""

    async def fail(*_: object, **__: object) -> Any:
        raise error

    return fail
