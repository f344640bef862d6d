"""Time that a test has moved by hand: how far the outbox's time is ahead of the database's clock, for each database.

Only `tarry.testing` sets it, for a database of its own, and while its server is at work in this process.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

_ahead: dict[str, Callable[[], int]] = {}


def is_anywhere() -> bool:
    """Whether the time of any database is moved, as only in tests; if not, nobody need ask which database it is."""
    return bool(_ahead)


def ahead_of(database: str) -> int:
    """Milliseconds by which the time of a database is ahead; 0 if nobody has moved it."""
    ahead = _ahead.get(database.lower())
    return 0 if ahead is None else ahead()


@contextmanager
def moved(database: str, ahead: Callable[[], int]) -> Generator[None, None, None]:
    """Moves a database's time ahead by what `ahead` gives, within the block. Raises ValueError if it already is."""
    name = database.lower()  # some servers take Shop and shop for the same
    if _ahead.setdefault(name, ahead) is not ahead:
        raise ValueError(f"dsn: a server in this process has the time of a database {database!r} already: name another")
    try:
        yield
    finally:
        del _ahead[name]
