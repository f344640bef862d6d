"""The ladder of retries: how long a message rests after its first, second, ... counted failure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

_SECOND = 1_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE

MAX_RUNGS = 64
MAX_REST_MS = 10 * 365 * 24 * _HOUR

# Sixteen rungs, so seventeen deliveries, the last 4 h 45 min 40 s after the first at the earliest.
DEFAULT_RUNGS: tuple[int, ...] = (
    10 * _SECOND,
    30 * _SECOND,
    *(minutes * _MINUTE for minutes in range(1, 11)),
    20 * _MINUTE,
    30 * _MINUTE,
    1 * _HOUR,
    2 * _HOUR,
)


def _rungs_are_sound(_ladder: object, _field: object, rungs: tuple[int, ...]) -> None:
    if len(rungs) > MAX_RUNGS:
        raise ValueError(f"a ladder has at most {MAX_RUNGS} rungs, not {len(rungs)}")
    for number, rest in enumerate(rungs, 1):
        if type(rest) is not int:
            raise TypeError(f"rung {number} is {rest!r}; a rung is a whole number of milliseconds")
        if not 0 <= rest <= MAX_REST_MS:
            raise ValueError(f"rung {number} is {rest} ms; a rung lies between 0 and {MAX_REST_MS} ms (10 years)")


def _jitter_is_sound(_ladder: object, _field: object, jitter: float) -> None:
    if not 0 <= jitter <= 1:
        raise ValueError(f"jitter is {jitter}; it lies between 0 and 1")


def _as_tuple(rungs: Iterable[int]) -> tuple[int, ...]:
    return tuple(rungs)


@attrs.frozen
class Ladder:
    """The waits in milliseconds, first failure first. An empty ladder sends every failure to the dead letters."""

    rungs: tuple[int, ...] = attrs.field(default=DEFAULT_RUNGS, converter=_as_tuple, validator=_rungs_are_sound)
    jitter: float = attrs.field(default=0.0, converter=float, validator=_jitter_is_sound)
    """The part of itself, 0 to 1, by which a rest may be longer, so that messages failing together return apart."""

    def rung(self, attempt: int) -> int | None:
        """The wait after the failure of the counted attempt (1 is the first); None when the ladder is exhausted."""
        if attempt < 1:
            raise ValueError(f"attempt {attempt}: attempts count from 1")
        return self.rungs[attempt - 1] if attempt <= len(self.rungs) else None

    def longest(self, rest: int) -> int:
        """The longest rest that the jitter can make of a rung's; the shortest is the rung's rest itself."""
        return rest + int(rest * self.jitter)
