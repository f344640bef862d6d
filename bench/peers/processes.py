"""The processes of peers: whose they are, what they use, and what is not installed."""

import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

from ..programs import Program, found


class Served:
    """A peer whose server is one program."""

    _program: Program

    def pids(self) -> list[int]:
        return [self._program.pid]

    def kill(self) -> None:
        self._program.kill()

    def stop(self) -> None:
        self._program.stop()


def memory_of_all(pids: Sequence[int]) -> int:
    """Bytes of memory; pages that several processes share are counted once."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def program_version(name: str, *arguments: str) -> str:
    """The version that the program prints."""
    told = subprocess.run([found(name) or name, *arguments], capture_output=True, text=True, check=True)
    match = re.search(r"\d+\.\d+(\.\d+)?", told.stdout + told.stderr)
    return match[0] if match else ""


def lacking(packages: Sequence[str], *programs: tuple[str, str]) -> str:
    """What to install of Python packages and of programs (name, Debian package); empty if nothing is missing."""
    wanted = [f"apt-get install {package}" for name, package in programs if found(name) is None]
    absent: list[str] = []
    for package in packages:
        try:
            version_of(package.partition("[")[0])
        except PackageNotFoundError:
            absent.append(f"'{package}'")
    if absent:
        wanted.append(f"pip install {' '.join(absent)}")
    return "; ".join(wanted)
