"""Runs archivers in their own processes, so that tests can kill them, and reads what the lake and the store hold."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tarry.service.demo.server_process import python_path


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "tarry.pipeline", *arguments]


def _environment() -> dict[str, str]:
    """The environment in which a child finds the package where this process found it."""
    return os.environ | python_path() | {"SPARK_LOCAL_IP": "127.0.0.1"}


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs `tarry pipeline ...` to its end."""
    return subprocess.run(
        _command(*arguments), env=_environment(), capture_output=True, text=True, timeout=240, check=False
    )


@contextmanager
def started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Starts the same command; at the end kills it with all its children if it still runs."""
    process = subprocess.Popen(
        _command(*arguments),
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill(process)


def kill(process: "subprocess.Popen[str]") -> None:
    """Kills the process, Java and the workers, as a power cut does."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.communicate()


def wait_for(happened: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 120) -> None:
    """Polls until it happened, since there is no signal for it; fails when the process ends first."""
    deadline = time.monotonic() + seconds
    while not happened():
        if process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode}: {process.communicate()}")
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def files(lake: Path, table: str) -> Sequence[Path]:
    return list((lake / table).glob("*/*/*.parquet"))


def more_files(lake: Path, than: int) -> bool:
    """Whether the lake has more than `than` files of messages."""
    return len(files(lake, "messages")) > than
