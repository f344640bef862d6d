"""Time that a test has moved by hand: how far the outbox's time is ahead of the database's clock, by the database.

Only `tarry.testing` says so, of a database of its own, and for as long as its server is at work in this process.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

_ahead: dict[str, Callable[[], int]] = {}


def is_anywhere() -> bool:
    """Whether any is: nowhere but in a test, and then nobody has to be asked which database it is."""
    return bool(_ahead)


def ahead_of(database: str) -> int:
    """Milliseconds; 0 where nobody has moved it."""
    ahead = _ahead.get(database.lower())
    return 0 if ahead is None else ahead()


@contextmanager
def moved(database: str, ahead: Callable[[], int]) -> Generator[None, None, None]:
    """Within the block the time of that database is ahead by what this says. Raises ValueError where it is already."""
    name = database.lower()  # as servers have it that take Shop and shop for the same
    if _ahead.setdefault(name, ahead) is not ahead:
        raise ValueError(f"dsn: a server in this process has the time of a database {database!r} already: name another")
    try:
        yield
    finally:
        del _ahead[name]
