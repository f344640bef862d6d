"""What a program believes of its machine: the time on its wall, and whether its disk is full. Only this program, and
only while it runs: a library is loaded before its own (`*.c`), and heeds a lever. Nothing of the machine is touched.
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
"""Where the refusals are counted."""


class Lever:
    """For one program: what its library goes by, in a file that both have mapped."""

    def __init__(self, library: Path, file: Path, folder: Path | None = None) -> None:
        """`folder`: what lies on the disk that may be full."""
        file.write_bytes(bytes(_SIZE))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _SIZE)
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(library),
            "SHIM_LEVER": str(file),
            **({} if folder is None else {"SHIM_FOLDER": str(folder)}),
        }

    def set(self, value: int) -> None:
        """Of the clock: nanoseconds that it is ahead. Of the disk: 1 while it is full."""
        struct.pack_into("<q", self._map, 0, value)

    @property
    def refused(self) -> int:
        """How often the disk was too full."""
        (count,) = struct.unpack_from("<I", self._map, _COUNT)
        return int(count)


class Shim:
    """A library, made with cc."""

    def __init__(self, name: str, place: Path) -> None:
        """`name`: clock or disk. `SystemExit` where there is no C compiler."""
        compiler = shutil.which("cc")
        if compiler is None:
            raise SystemExit("no cc on PATH (Debian: apt-get install gcc libc6-dev): leave out the rows clock and disk")
        self.name = name
        self._place = place
        self._library = place / f"{name}.so"
        source = SOURCES / f"{name}.c"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(source), "-ldl"], check=True)

    def lever(self, who: str, folder: Path | None = None) -> Lever:
        """For one program, to be started with its environment. `folder`: what lies on the disk that may be full."""
        return Lever(self._library, self._place / f"{who}.{self.name}", folder)
