"""Rounds: a step that is taken over and over, the first at once; a store that is away is asked again."""

import itertools
from collections.abc import Awaitable, Callable

import trio

from ..store.errors import StoreError
from .outages import tell_failure

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between tries of what a start cannot do without."""


async def every(seconds: float, step: Callable[[], Awaitable[object]]) -> None:
    """Takes the step for ever, resting between; a store that is away is asked again at the next one."""
    while True:
        try:
            await step()
        except StoreError as error:
            tell_failure("round_failed", error, step=_name(step))
        await trio.sleep(seconds)


def _name(step: object) -> str:
    """Of a function, or of what a `partial` calls: never what it is called with, which is half of the server."""
    step = getattr(step, "func", step)
    return str(getattr(step, "__name__", type(step).__name__))


async def until_done(step: Callable[[], Awaitable[None]], waited_for: tuple[type[StoreError], ...]) -> None:
    """Takes the step until it succeeds, with longer and longer rests after an error that is waited for."""
    pauses = itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))
    while True:
        try:
            await step()
            return
        except waited_for as error:
            pause = next(pauses)
            tell_failure("not_begun", error, again_in=pause)
            await trio.sleep(pause)
