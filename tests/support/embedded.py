"""An embedded store with its schema and no rows, copied, since creating the schema takes most of a server's start."""

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
        maker = Thread(target=migrate, args=(f"sqlite:///{path}",))  # Trio may already run in this thread
        maker.start()
        maker.join()
        return path.read_bytes()


def embedded(path: Path) -> SQLiteBackend:
    """Opens the store at this path; a new one is a copy of the empty store."""
    if not path.exists():
        path.write_bytes(schema())
    return SQLiteBackend(path)
