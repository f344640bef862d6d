"""An embedded store with its schema and no rows. To make the schema takes longer than the rest of a server's start."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from support.stores import migrate
from tarry.store.sqlite.backend import SQLiteBackend


@cache
def schema() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "tarry.db")
        maker = Thread(target=migrate, args=(f"sqlite:///{path}",))  # of its own: here Trio may be at work
        maker.start()
        maker.join()
        return path.read_bytes()


def embedded(path: Path) -> SQLiteBackend:
    """The store there; a new one is a copy."""
    if not path.exists():
        path.write_bytes(schema())
    return SQLiteBackend(path)
