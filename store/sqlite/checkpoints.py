"""Checkpoints: copies the write-ahead log into the file, in a thread beside the writer's.

SQLite itself would make the writer do it, in the COMMIT that fills the log: that takes 7 ms in place of one, for the
callers that wait for it. A pass in another thread copies what the log held when the pass began. If nothing was written
since, the next transaction restarts the log. While transactions follow each other without a pause something is always
written, and the log grows. So when it is long, passes follow each other until little was written meanwhile, and the
writer copies that between two transactions.

No copy is begun when all of the log is copied: then a transaction may restart the log while the copy reads it, and up
to 3.51.2 SQLite takes what is written next for copied (sqlite.org/wal.html, "the WAL-reset bug"). While something is
left to copy, no transaction restarts the log.
"""

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from .connection import connect
from .errors import translate
from .log import NOTHING, Log

_PASS = 4 << 20
"""Bytes of the log after which there is another pass."""
_LONG = 32 << 20
"""Bytes: from this size on the writer copies what passes have left, while nothing waits. From twice this size on it
copies all of it with each pass that is due, even if callers wait. A log file longer than that is truncated when the log
restarts; no sooner, since that takes the COMMIT that does it 12 ms."""
_LITTLE = 1 << 20
"""Bytes that a pass may leave to the writer."""
_PASSES = 5
"""How many passes follow each other at most."""
_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


class Checkpoints:
    """The checkpoints of one file; `writer` is the connection of its writer."""

    def __init__(self, path: Path, writer: sqlite3.Connection) -> None:
        try:
            writer.execute("PRAGMA wal_autocheckpoint = 0")
            writer.execute(f"PRAGMA journal_size_limit = {2 * _LONG}")
        except sqlite3.Error as error:
            raise translate(error) from error
        self._writer = writer
        self._log = Log(path)
        self._connection = connect(path)
        self._next = _PASS
        self._wanted = threading.Event()
        self._copying = threading.Lock()
        self._copied = NOTHING  # frames beyond it were written after the last copy
        self._help = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="tarry-sqlite-checkpoints", daemon=True)
        self._thread.start()

    def committed(self, *, waited_for: bool) -> None:
        """To be called after each commit, in the writer's thread. `waited_for`: light work waits for the next
        transaction."""
        if self._log.began_anew():
            self._next, self._help = _PASS, False
        if not (self._help or self._log.exceeds(self._next)):
            return
        size = self._log.size()
        if size <= _PASS:  # the pass that asked for help was before the log restarted
            self._help = False
            return
        if size > self._next:
            self._next = size + _PASS
            self._wanted.set()
        if size > 2 * _LONG or (self._help and not waited_for):
            self._help = False
            self._copy(self._writer)

    def close(self) -> None:
        """Ends the thread, with a last pass; to be called when the writer has ended."""
        self._closed = True
        self._wanted.set()
        self._thread.join()
        self._copy(self._connection)
        self._log.close()
        self._connection.close()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            self._pass()

    def _pass(self) -> None:
        size = self._log.size()
        for _ in range(_PASSES if size > _LONG else 1):
            self._copy(self._connection)
            before, size = size, self._log.size()
            if size - before <= _LITTLE:
                break
        self._help = size > _LONG

    def _copy(self, connection: sqlite3.Connection) -> None:
        with self._copying:
            if self._copied.reaches(self._log.extent()):
                return
            with suppress(sqlite3.Error):  # such as a full disk: the log keeps everything, and the next commit fails
                connection.execute(_CHECKPOINT).fetchall()
            self._copied = self._log.extent()
