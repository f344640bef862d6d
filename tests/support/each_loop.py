"""Runs an asynchronous test on the event loops that it is for; pytest-trio would run it on Trio alone."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

Test = Callable[..., Coroutine[Any, Any, None]]


def on_loops(*loops: str) -> Callable[[Test], Callable[..., None]]:
    def decorate(test: Test) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*, loop: str, **given: Any) -> None:
            anyio.run(functools.partial(test, **given), backend=loop)

        signature = inspect.signature(test)
        loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
        wanted = signature.replace(parameters=[*signature.parameters.values(), loop])
        vars(run)["__signature__"] = wanted  # by which pytest finds the fixtures
        marked: Callable[..., None] = pytest.mark.parametrize("loop", loops)(run)
        return marked

    return decorate


on_each_loop = on_loops("asyncio", "trio")
