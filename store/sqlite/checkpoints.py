"""Checkpoints: what is in the log goes into the file, in a thread beside the writer's.

SQLite would have the writer do it, in the COMMIT that fills the log: 7 ms in place of one, for whoever waits for that
commit. A pass beside it copies what the log held when it began. When nothing came since, the next transaction begins
the log anew. Where transactions follow each other without a rest something always came, and the log grows. So when it
is long, one pass follows the other until what came meanwhile is little, and the writer copies that between two
transactions.

No copy begins of a log of which all is copied. There a transaction may begin the log anew while the copy looks at it,
and up to 3.51.2 SQLite then takes what is written next for copied (sqlite.org/wal.html, "the WAL-reset bug"). While
something is left to copy nobody begins the log anew.
"""

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from .connection import connect
from .errors import translate
from .log import NOTHING, Log

_PASS = 4 << 20
"""Bytes of the log after which there is a pass."""
_LONG = 32 << 20
"""Bytes from which on the writer copies what passes have left, when nobody waits; from twice as many on, with each pass
that is due, it copies all that is there, whoever waits. What a file has beyond that is cut off when its log begins
anew; no sooner, since that takes the COMMIT which does it 12 ms."""
_LITTLE = 1 << 20
"""Bytes that a pass may leave to the writer."""
_PASSES = 5
"""One behind the other, at most."""
_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


class Checkpoints:
    """Of one file, whose writer's connection this is."""

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
        self._copied = NOTHING  # what is beyond it has come since the last copy
        self._help = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="tarry-sqlite-checkpoints", daemon=True)
        self._thread.start()

    def committed(self, *, waited_for: bool) -> None:
        """There was a commit, and somebody waits for the next transaction or not; in the writer's thread."""
        if self._log.began_anew():
            self._next, self._help = _PASS, False
        if not (self._help or self._log.exceeds(self._next)):
            return
        size = self._log.size()
        if size <= _PASS:  # the pass that wanted help was of the log before
            self._help = False
            return
        if size > self._next:
            self._next = size + _PASS
            self._wanted.set()
        if size > 2 * _LONG or (self._help and not waited_for):
            self._help = False
            self._copy(self._writer)

    def close(self) -> None:
        """Ends the thread, with a last pass; the writer has ended."""
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
            with suppress(sqlite3.Error):  # a full disk, say: the log keeps all, and the next commit tells
                connection.execute(_CHECKPOINT).fetchall()
            self._copied = self._log.extent()
