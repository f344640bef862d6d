"""Runs all cases of a test with the same fixtures, where a server for each would cost far more than the case."""

import inspect
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import Any

from support.spied import SpiedServer

Test = Callable[..., Coroutine[Any, Any, None]]


def in_one(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `parametrize`, but runs all cases in one test, one after another: for cases that leave nothing behind that
    could affect another. Before each case a spied server forgets its requests. A failure names its case, and the later
    cases are still run."""
    several = not isinstance(names, str)
    listed = names if isinstance(names, tuple) else (names,)
    cases = list(cases)
    assert cases

    def decorate(test: Test) -> Test:
        @wraps(test)
        async def run(**given: Any) -> None:
            server = given.get("server")
            failures: list[Exception] = []
            for case in cases:
                if isinstance(server, SpiedServer):
                    server.asked.clear()
                    server.errors.clear()
                try:
                    await test(**given, **dict(zip(listed, case if several else (case,), strict=True)))
                except Exception as error:
                    error.add_note(f"The case: {case!r}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup("cases that failed", failures)

        signature = inspect.signature(test)
        shared = [one for name, one in signature.parameters.items() if name not in listed]
        run.__signature__ = signature.replace(parameters=shared)  # type: ignore[attr-defined]
        return run

    return decorate
