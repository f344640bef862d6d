"""Preloaded libraries (`*.c`) that show one program a different wall clock or a full disk, as a lever sets it. Nothing
else on the machine is affected.
"""

import mmap
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCES = Path(__file__).parent
_SIZE = 16
_COUNT = 8
"""The offset in the file at which refusals are counted."""


class Lever:
    """Controls the library of one program, through a file that both have mapped."""

    def __init__(self, library: Path, file: Path, folder: Path | None = None) -> None:
        """`folder`: the folder whose disk may be full."""
        file.write_bytes(bytes(_SIZE))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _SIZE)
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "SHIM_LEVER": str(file),
            **({} if folder is None else {"SHIM_FOLDER": str(folder)}),
        }

    def set(self, value: int) -> None:
        """For the clock: how many nanoseconds it is ahead. For the disk: 1 while it is full."""
        struct.pack_into("<q", self._map, 0, value)

    @property
    def refused(self) -> int:
        """How many writes were refused because the disk was full."""
        (count,) = struct.unpack_from("<I", self._map, _COUNT)
        return int(count)


class Shim:
    """A library, compiled with cc."""

    def __init__(self, name: str, place: Path) -> None:
        """`name`: clock or disk. Raises `SystemExit` without a C compiler."""
        compiler = shutil.which("cc")
        if compiler is None:
            raise SystemExit("no cc on PATH (Debian: apt-get install gcc libc6-dev): leave out the rows clock and disk")
        self.name = name
        self._place = place
        self._library = place / f"{name}.so"
        source = SOURCES / f"{name}.c"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(source), "-ldl"], check=True)

    def lever(self, who: str, folder: Path | None = None) -> Lever:
        """A lever for one program, to be started with its environment. `folder`: the folder whose disk may be full."""
        return Lever(self._library, self._place / f"{who}.{self.name}", folder)
