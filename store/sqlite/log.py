"""Finds how much of a file's write-ahead log is in use.

The size of the log does not tell, since SQLite restarts a log at its beginning, and leaves old frames behind the new
ones. Making SQLite truncate it each time would cost the COMMIT that does it 12 ms, for a log of 32 MB on ext4. So the
frames are examined: those in use have the two salts of the log's header, those after them have older salts
(sqlite.org/fileformat2.html#walformat).
"""

import os
from bisect import bisect_left
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from attrs import frozen

_HEADER, _FRAME_HEADER = 32, 24
_PAGE_SIZE, _SALTS = slice(8, 12), slice(16, 24)
_SALTS_OF_FRAME = 8
"""The position of the salts in a frame's header."""


class Extent(NamedTuple):
    """How much of a log is in use."""

    salts: bytes
    """They change each time the log restarts."""
    size: int
    """Bytes."""

    def reaches(self, other: "Extent") -> bool:
        """Whether it contains all of the other: the log has not restarted between them, and this is as long or
        longer."""
        return self.salts == other.salts and self.size >= other.size


NOTHING = Extent(b"", 0)


class Log:
    """The log of a file. A connection to the file must be open, since the last one to close removes the log."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}-wal"
        self._file: int | None = None
        self._salts = b""

    def size(self) -> int:
        """How many bytes are in use; 0 when there is no log, or it cannot be read."""
        return self.extent().size

    def extent(self) -> Extent:
        """How much is in use, with the salts since the last restart."""
        with suppress(OSError):
            file = self._opened()
            frames = _Frames.of(file)
            if frames is not None:
                there = max(0, os.fstat(file).st_size - _HEADER) // frames.length
                in_use = bisect_left(range(there), True, key=lambda frame: not frames.in_use(frame))
                return Extent(frames.salts, _HEADER + in_use * frames.length if in_use else 0)
        return NOTHING

    def exceeds(self, size: int) -> bool:
        """Whether more than `size` bytes are in use; takes two reads of the file, where the method `size` takes a
        dozen."""
        with suppress(OSError):
            frames = _Frames.of(self._opened())
            return frames is not None and frames.in_use((size - _HEADER) // frames.length)
        return False

    def began_anew(self) -> bool:
        """Whether the log has restarted, or started at all, since the last call."""
        with suppress(OSError):
            frames = _Frames.of(self._opened())
            before, self._salts = self._salts, b"" if frames is None else frames.salts
            return self._salts != before
        return False

    def close(self) -> None:
        """Closes the log's file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return self._file


@frozen
class _Frames:
    """What the log's header says about its frames."""

    file: int
    salts: bytes
    length: int
    """Bytes of a frame."""

    @classmethod
    def of(cls, file: int) -> "_Frames | None":
        """Reads the header of the log; None if there is none yet."""
        header = os.pread(file, _HEADER, 0)
        page = int.from_bytes(header[_PAGE_SIZE], "big")
        return cls(file, header[_SALTS], _FRAME_HEADER + page) if page and len(header) == _HEADER else None

    def in_use(self, frame: int) -> bool:
        """Whether this frame belongs to the log since its last restart."""
        return os.pread(self.file, len(self.salts), _HEADER + frame * self.length + _SALTS_OF_FRAME) == self.salts
