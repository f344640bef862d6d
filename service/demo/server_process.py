"""Runs a real `tarry serve` in its own process: starts it, waits until it is ready, kills it, restarts and stops it."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...client import Tarry

START_SECONDS = 30.0
STOP_SECONDS = 30.0


class ServerFailed(Exception):
    """The server ended or does not answer; the text holds the end of its log."""


class ServerProcess:
    """A server on one store; it keeps its port over restarts and logs to a file."""

    def __init__(
        self,
        directory: Path,
        dsn: str,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = ("tarry.service.cli.app",),
        within: Sequence[str] = (),
    ) -> None:
        """`program`: a module that acts as `tarry`, and its arguments before `serve`. `within`: a command that runs the
        server elsewhere, such as in another network, under the same process id."""
        self.dsn = dsn
        self.port = port or free_port()
        self._listen = f"{host}:{self.port}"
        self.url = f"http://{self._listen}"
        self.log = directory / "server.log"
        self._directory = directory
        # The user's own settings must not reach this server.
        own = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
        self._environment = own | python_path() | dict(environment or {})
        self._program = tuple(program)
        self._within = tuple(within)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        assert self._process is not None  # noqa: S101
        return self._process.pid

    def start(self) -> None:
        """Starts it and waits until it is ready. Raises `ServerFailed`."""
        command = [*self._within, sys.executable, "-m", *self._program, "serve"]
        command += ["--dsn", self.dsn, "--listen", self._listen]
        with self.log.open("ab") as log:
            # Its own session, so that Ctrl-C on the terminal reaches only the parent, which then stops the server.
            self._process = subprocess.Popen(  # noqa: S603
                command,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self._process is not None  # noqa: S101
        deadline = time.monotonic() + START_SECONDS
        with Tarry(self.url, timeout=2.0) as tarry:
            while not tarry.ready():
                if (code := self._process.poll()) is not None:
                    raise ServerFailed(f"the server ended with {code}:\n{self.tail()}")
                if time.monotonic() > deadline:
                    self.kill()
                    raise ServerFailed(f"the server was not ready after {START_SECONDS:.0f} s:\n{self.tail()}")
                time.sleep(0.02)

    def kill(self) -> None:
        """Kills the server with SIGKILL: like a power cut, except that the disk loses nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """Asks the server to end; returns its exit code, -9 when it had to be killed."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.terminate()
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        except BaseException:  # an interrupted wait leaves no server behind
            process.kill()
            process.wait()
            raise

    def tail(self, size: int = 3000) -> str:
        with suppress(FileNotFoundError):
            return self.log.read_bytes()[-size:].decode("utf-8", "replace").strip()
        return ""


def free_port() -> int:
    """A free port below 32768, since the system gives higher ports to clients' connections."""
    while True:
        port = random.randrange(20_000, 32_768)  # noqa: S311
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def python_path() -> dict[str, str]:
    """A PYTHONPATH with which a child finds the package where this process found it, whatever its working directory."""
    found = [str(Path(entry).absolute()) for entry in sys.path if (Path(entry) / "tarry" / "__init__.py").exists()]
    inherited = [str(Path(entry).absolute()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {"PYTHONPATH": os.pathsep.join([*found, *inherited])} if found or inherited else {}
