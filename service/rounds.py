"""Rounds: what is done over and over, the first time at once; a store that is away is asked again."""

import itertools
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from .outages import Trouble, tell_failure

T = TypeVar("T")

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between tries of what a start cannot do without."""


async def every(seconds: float | Callable[[], float], *steps: Callable[[], Awaitable[object]]) -> None:
    """Takes the steps for ever, one behind the other, resting between the rounds, so long or as long as is said then; a
    store that is away is asked again at the next one."""
    troubles = [Trouble(trio.current_time, step=_name(step)) for step in steps]
    while True:
        for step, trouble in zip(steps, troubles, strict=True):
            with trouble.survived():
                await step()
        await trio.sleep(seconds if isinstance(seconds, int | float) else seconds())


def _name(step: object) -> str:
    """Of a function, or of what a `partial` calls: never what it is called with, which is half of the server."""
    step = getattr(step, "func", step)
    return str(getattr(step, "__name__", type(step).__name__))


async def until_done(
    step: Callable[[], Awaitable[T]], waited_for: tuple[type[Exception], ...], event: str = "not_begun", **facts: str
) -> T:
    """What the step gives when it succeeds, with longer and longer rests after an error that is waited for. Each is in
    the log, under this event and with these facts."""
    pauses = itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))
    while True:
        try:
            return await step()
        except waited_for as error:
            pause = next(pauses)
            tell_failure(event, error, again_in=pause, **facts)
            await trio.sleep(pause)
