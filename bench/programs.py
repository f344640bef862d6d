"""Private server programs: starts them, waits for them, kills or stops them by their process ids."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .usage import children_of

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


@contextmanager
def running(program: Program, command: Sequence[str]) -> Generator[None, None, None]:
    """The program is up inside of it, and stopped at the end."""
    try:
        program.start(command)
        yield
    finally:
        program.stop()


def tree(pid: int) -> list[int]:
    """This process and all its descendants."""
    found = [pid]
    with suppress(OSError):
        for child in children_of(pid):
            found += tree(child)
    return found


def found(name: str) -> str | None:
    """The path of a server program."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


def listens(port: int) -> bool:
    """Whether a port of this machine takes a connection."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
