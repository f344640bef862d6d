"""Runs an asynchronous test on asyncio and on Trio; pytest-trio would run it on Trio alone."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest


def on_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @pytest.mark.parametrize("loop", ["asyncio", "trio"])
    @functools.wraps(test)
    def run(*, loop: str, **given: Any) -> None:
        anyio.run(functools.partial(test, **given), backend=loop)

    signature = inspect.signature(test)
    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), loop]
    )
    return run
