"""A file that a task has written and nobody has committed yet."""

import os
from contextlib import suppress
from pathlib import Path

from attrs import frozen


@frozen
class Added:
    """A file that a task wrote, below the folder of its table."""

    path: str
    size: int
    rows: int
    topic: str
    day: str
    stats: str
    """JSON, as Delta has it."""


def sync(path: Path) -> None:
    """Written through to the disk; a file that is gone is nobody's loss."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
