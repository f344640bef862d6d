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
from typing import NamedTuple

from attrs import frozen

_HEADER, _FRAME_HEADER = 32, 24
_PAGE_SIZE, _SALTS = slice(8, 12), slice(16, 24)
_SALTS_OF_FRAME = 8
"""Where they are in its header."""


class Extent(NamedTuple):
    """How much of a log is in use."""

    salts: bytes
    """Others after each time that it has begun anew."""
    size: int
    """Bytes."""

    def reaches(self, other: "Extent") -> bool:
        """Whether it has all that the other has, since it is of the same beginning and as long."""
        return self.salts == other.salts and self.size >= other.size


NOTHING = Extent(b"", 0)


class Log:
    """Of one file, while a connection to it is open: the last one to close removes the log."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}-wal"
        self._file: int | None = None
        self._salts = b""

    def size(self) -> int:
        """Bytes in use; 0 when there is no log, or none that can be read."""
        return self.extent().size

    def extent(self) -> Extent:
        """What is in use, and since which beginning."""
        with suppress(OSError):
            file = self._opened()
            frames = _Frames.of(file)
            if frames is not None:
                there = max(0, os.fstat(file).st_size - _HEADER) // frames.length
                in_use = bisect_left(range(there), True, key=lambda frame: not frames.in_use(frame))
                return Extent(frames.salts, _HEADER + in_use * frames.length if in_use else 0)
        return NOTHING

    def exceeds(self, size: int) -> bool:
        """Whether more bytes than these are in use; two reads of the file, where `size` takes a dozen."""
        with suppress(OSError):
            frames = _Frames.of(self._opened())
            return frames is not None and frames.in_use((size - _HEADER) // frames.length)
        return False

    def began_anew(self) -> bool:
        """Whether it has begun at its start again since this was asked last, or begun at all."""
        with suppress(OSError):
            frames = _Frames.of(self._opened())
            before, self._salts = self._salts, b"" if frames is None else frames.salts
            return self._salts != before
        return False

    def close(self) -> None:
        """Leaves the file alone."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return self._file


@frozen
class _Frames:
    """What the log's header says of its frames."""

    file: int
    salts: bytes
    length: int
    """Bytes of one."""

    @classmethod
    def of(cls, file: int) -> "_Frames | None":
        """None: there is no header yet."""
        header = os.pread(file, _HEADER, 0)
        page = int.from_bytes(header[_PAGE_SIZE], "big")
        return cls(file, header[_SALTS], _FRAME_HEADER + page) if page and len(header) == _HEADER else None

    def in_use(self, frame: int) -> bool:
        """Whether it belongs to the log as it is now."""
        return os.pread(self.file, len(self.salts), _HEADER + frame * self.length + _SALTS_OF_FRAME) == self.salts
