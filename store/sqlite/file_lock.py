"""Makes sure that one server alone uses a file: two locks, of its name and of the file itself, while the store is open.

The name is locked because SQLite finds the write-ahead log by it: so a server is also refused when the file was moved
away and another one made in its place. The file is locked because it may be reached under another name: through a link
to a folder, or mounted elsewhere. A file with a second hard link is refused outright: under the other name its
write-ahead log would not be found, and acknowledged commits would be missing.

SQLite's own locks are POSIX locks: the process loses all of them when it closes any descriptor of the file. So this one
is opened before SQLite's and closed after them. The name is locked first, so that a second attempt from within the same
process fails before it opens the file.
"""

import fcntl
import os
import stat
from pathlib import Path

from ..errors import Refused, StoreInUse, Unavailable

_MODE = 0o600
"""The mode of files made here: other users must not read messages. SQLite gives its own files the database's mode."""


class FileLock:
    """Held from when it is made to `close`, or to the end of the process. Raises `StoreInUse`, `Refused`,
    `Unavailable`."""

    def __init__(self, path: Path) -> None:
        """`path` must be resolved; the file is made if it is missing."""
        self._descriptors: list[int] = []
        try:
            self._take(path.with_name(path.name + ".lock"), path)
            if path.exists():
                _check(path, path.stat())
            _check(path, os.fstat(self._take(path, path)))
        except BaseException:
            self.close()
            raise

    def _take(self, name: Path, path: Path) -> int:
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT, _MODE)
        except OSError as error:
            raise Unavailable(f"cannot open {name}: {error.strerror}; choose a directory to write to") from error
        self._descriptors.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreInUse(
                f"another server uses {path}: stop it, or give this one a file of its own with --dsn"
            ) from error
        return descriptor

    def close(self) -> None:
        """Releases the locks; to be called after SQLite's own connections are closed."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path} is not a file: give the store a file of its own with --dsn")
    if status.st_nlink > 1:
        raise Refused(
            f"{path} has {status.st_nlink} names (hard links), and its write-ahead log belongs to one of them: "
            f"remove the others, or serve a copy"
        )
