"""Runs private server programs: starts them, waits for them, kills or stops them by their process ids."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path

from ..usage import children_of, cpu_of

_START_SECONDS = 60
_STOP_SECONDS = 30


class Program:
    """A server in its own process; its output goes to a file."""

    def __init__(
        self,
        log: Path,
        answers: Callable[[], bool],
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment`: variables in addition to the inherited ones."""
        self._log = log
        self._environment = dict(environment or {})
        self._answers = answers
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self, command: Sequence[str]) -> None:
        """Starts the program and returns when it answers. Raises `RuntimeError` with the end of its output."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._log.parent,
                user=self._user,
                env=os.environ | self._environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                end = self._log.read_text(errors="replace")[-1000:]
                raise RuntimeError(f"{command[0]} did not come up: {end}")
            time.sleep(0.01)

    def kill(self) -> None:
        """Kills the program and all processes that it has started."""
        if self._process is not None:
            for pid in reversed(tree(self._process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Asks the program to end, and kills it if it does not."""
        if self._process is not None:
            self._process.send_signal(how)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            self.kill()


class Served:
    """A peer whose server is one program."""

    _program: Program

    def pids(self) -> list[int]:
        return [self._program.pid]

    def kill(self) -> None:
        self._program.kill()

    def stop(self) -> None:
        self._program.stop()


def tree(pid: int) -> list[int]:
    """This process and all its descendants."""
    found = [pid]
    with suppress(OSError):
        for child in children_of(pid):
            found += tree(child)
    return found


def cpu_of_all(pids: Sequence[int]) -> float:
    """Seconds of processor time that these processes have used; ended ones are left out."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += cpu_of(pid)
    return total


def memory_of_all(pids: Sequence[int]) -> int:
    """Bytes of memory; pages that several processes share are counted once."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def found(name: str) -> str | None:
    """The path of a server program."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


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
