"""The write-ahead log of a file: how much of it is in use.

Its size does not tell. SQLite begins a log anew at its start, and what the one before wrote behind that stays in the
file. To have SQLite cut it each time costs the COMMIT that does 12 ms, for a log of 32 MB on ext4. So the frames tell:
those in use carry the two salts of the log's header, those behind them older ones
(sqlite.org/fileformat2.html#walformat).
"""

import os
from bisect import bisect_left
from contextlib import suppress
from pathlib import Path

_HEADER, _FRAME_HEADER = 32, 24
_PAGE_SIZE, _SALTS = slice(8, 12), slice(16, 24)
_SALTS_OF_FRAME = 8
"""Where they are in its header."""


class Log:
    """Of one file, while a connection to it is open: the last one to close removes the log."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}-wal"
        self._file: int | None = None

    def size(self) -> int:
        """Bytes in use; 0 when there is no log, or none that can be read."""
        with suppress(OSError):
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            return self._size(self._file)
        return 0

    def close(self) -> None:
        """Leaves the file alone."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @staticmethod
    def _size(file: int) -> int:
        header = os.pread(file, _HEADER, 0)
        salts, page = header[_SALTS], int.from_bytes(header[_PAGE_SIZE], "big")
        if not page:  # nothing was written to it yet
            return 0
        length = _FRAME_HEADER + page

        def is_old(frame: int) -> bool:
            return os.pread(file, len(salts), _HEADER + frame * length + _SALTS_OF_FRAME) != salts

        frames = max(0, os.fstat(file).st_size - _HEADER) // length
        in_use = bisect_left(range(frames), True, key=is_old)
        return _HEADER + in_use * length if in_use else 0
