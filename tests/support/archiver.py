"""Archivers in processes of their own, to be killed, and what the lake and the store hold."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import tarry


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "tarry.pipeline", *arguments]


_AT_A_TERMINAL = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("tarry.pipeline", run_name="__main__", alter_sys=True)
"""
"""Whoever is started in the background of a shell has no Ctrl-C."""


@contextmanager
def at_a_terminal(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """As `started`, and a SIGINT is a Ctrl-C."""
    with _running([sys.executable, "-P", "-c", _AT_A_TERMINAL, *arguments]) as process:
        yield process


def environment() -> dict[str, str]:
    """The package is found where this process found it."""
    home = str(Path(tarry.__file__ or "").absolute().parents[1])
    return {**os.environ, "PYTHONPATH": home, "SPARK_LOCAL_IP": "127.0.0.1"}


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """`tarry pipeline ...` to its end."""
    return subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, timeout=240, check=False
    )


@contextmanager
def started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The same, and whatever it is still doing at the end is killed with all of its children."""
    with _running(command(*arguments)) as process:
        yield process


@contextmanager
def _running(command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        command,
        env=environment(),
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
    """As when the machine loses power: Java and the workers too."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.communicate()


def wait_for(happened: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 120) -> None:
    """Polls, as nothing tells; fails when the process ends before it."""
    deadline = time.monotonic() + seconds
    while not happened():
        if process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode}: {process.communicate()}")
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def files(lake: Path, table: str, pattern: str = "*/*/*.parquet") -> Sequence[Path]:
    return list((lake / table).glob(pattern))


def more_files(lake: Path, than: int) -> bool:
    """Whether there are more of messages than so many."""
    return len(files(lake, "messages")) > than
