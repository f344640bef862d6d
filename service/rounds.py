"""Rounds: runs steps over and over, the first time at once, and tries again when the store is away."""

import itertools
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from .outages import Trouble, tell_failure

T = TypeVar("T")

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between tries of a step without which the server cannot start."""


async def every(seconds: float | Callable[[], float], *steps: Callable[[], Awaitable[object]]) -> None:
    """Runs the steps for ever, one after the other. Sleeps `seconds` between rounds, or as many as that function
    returns then. A step that failed because the store is away is tried again in the next round."""
    troubles = [Trouble(trio.current_time, step=_name(step)) for step in steps]
    while True:
        for step, trouble in zip(steps, troubles, strict=True):
            with trouble.survived():
                await step()
        await trio.sleep(seconds if isinstance(seconds, int | float) else seconds())


def _name(step: object) -> str:
    """The name of a function, or of the function that a `partial` calls; never its arguments, whose repr is half of the
    server."""
    step = getattr(step, "func", step)
    return str(getattr(step, "__name__", type(step).__name__))


async def until_done(
    step: Callable[[], Awaitable[T]], waited_for: tuple[type[Exception], ...], event: str = "not_begun", **facts: str
) -> T:
    """Runs the step until it succeeds and returns its result, with growing pauses after each error in `waited_for`.
    Each such error is logged as `event` with these facts."""
    pauses = itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))
    while True:
        try:
            return await step()
        except waited_for as error:
            pause = next(pauses)
            tell_failure(event, error, again_in=pause, **facts)
            await trio.sleep(pause)
