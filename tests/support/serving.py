"""Runs `tarry serve` with a test's own flags in a process with its log, and other `tarry` commands beside it."""

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tarry.service.demo.server_process import python_path


class Served:
    """A server, and the folder with its store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
        self.environment = own | python_path()
        self._process: subprocess.Popen[bytes] | None = None

    def tarry(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "tarry.service.cli.app", *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def key(self, name: str, *scopes: str) -> str:
        """Creates a key with the command and returns it."""
        done = self.tarry("keys", "create", name, *(one for scope in scopes for one in ("--scope", scope)))
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[-1]

    @property
    def log(self) -> str:
        """The server's log so far."""
        path = self.folder / "server.log"
        return path.read_text("utf-8") if path.exists() else ""

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    def start(self, *flags: str) -> None:
        """Starts the server, and waits until it serves or has ended."""
        seen = len(self.log)
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tarry.service.cli.app", "serve", *flags],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + 30
        while "recovered" not in self.log[seen:] or "listening" not in self.log[seen:]:
            if self._process.poll() is not None:
                return
            assert time.monotonic() < until, self.log
            time.sleep(0.02)

    def stop(self) -> int:
        """Stops the server and returns its exit code."""
        process, self._process = self.process, None
        process.terminate()
        try:
            return process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise

    def kill(self) -> None:
        """Kills the server, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def served(folder: Path) -> Generator[Served, None, None]:
    """A server that is killed at the end of the block if it has not ended."""
    server = Served(folder)
    try:
        yield server
    except BaseException:
        print(f"The log of the server:\n{server.log[-5000:]}")
        raise
    finally:
        server.kill()
