"""The history of a message's attempts: JSON that travels with it, an entry for each counted delivery that failed.

After a redrive attempts are counted from 1 again. The earlier attempts stay in the history, to show why the message had
become a dead letter.

A history that cannot be read is replaced by one entry that says so, and is no error.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec


class Attempt(msgspec.Struct):
    """A counted delivery that failed."""

    at: int
    client: str
    reason: str | None = None
    redrives: int | msgspec.UnsetType = msgspec.UNSET
    """How many times the message has been redriven since; left out: never."""

    @property
    def round(self) -> int:
        """`redrives` as a number."""
        return 0 if self.redrives is msgspec.UNSET else self.redrives


_REMEMBERED = 99
"""A redrive drops the oldest rounds of attempts while there are more attempts than this, but never the last round."""
UNREADABLE = "what was remembered of earlier attempts cannot be read"
_read = msgspec.json.Decoder(list[Attempt]).decode


def attempts_of(history: bytes) -> list[Attempt]:
    """All attempts, the first one first, those before a redrive included."""
    try:
        return _read(history)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [Attempt(0, "", UNREADABLE)]


def since_redrive(history: bytes) -> list[Attempt]:
    """The attempts since the last redrive, or all of them when there was none."""
    return [attempt for attempt in attempts_of(history) if not attempt.round]


def numbered(history: bytes) -> list[tuple[int, Attempt]]:
    """All attempts with their numbers, which begin with 1 again after a redrive."""
    attempts = attempts_of(history)
    counts = Counter[int]()
    found: list[tuple[int, Attempt]] = []
    for attempt in attempts:
        counts[attempt.round] += 1
        found.append((counts[attempt.round], attempt))
    return found


def nearest(ends: Sequence[int], attempts: Iterable[Attempt]) -> dict[int, Attempt]:
    """Assigns attempts to `ends`, the times at which deliveries with the same attempt number ended; by index in `ends`.

    A redriven message has each number more than once, and a purged letter has no attempts left. So each attempt goes to
    the end that is nearest in time, and an end keeps only the nearest of its attempts.
    """
    found: dict[int, Attempt] = {}
    for attempt in attempts if ends else ():
        place = min(range(len(ends)), key=lambda place: abs(ends[place] - attempt.at))
        rivals = (found.get(place, attempt), attempt)
        found[place] = min(rivals, key=lambda one: (abs(ends[place] - one.at), one.reason or ""))
    return found


def last_reason(history: bytes) -> str | None:
    """Why the last attempt failed."""
    attempts = since_redrive(history)
    return attempts[-1].reason if attempts else None


def redriven(history: bytes) -> bytes:
    """The history after a redrive, from which on attempts are counted from 1 again."""
    attempts = [msgspec.structs.replace(one, redrives=one.round + 1) for one in attempts_of(history)]
    while len(attempts) > _REMEMBERED and attempts[0].round > 1:
        attempts = [one for one in attempts if one.round != attempts[0].round]
    return written(attempts)


def written(attempts: list[Attempt]) -> bytes:
    """The history as JSON."""
    return msgspec.json.encode(attempts)
