"""Runs a `worker.py` in a process: pauses, resumes, kills and ends it, and reads its output at any time."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from tarry.service.demo.server_process import python_path

_SCRIPT = Path(__file__).with_name("worker.py")


def wait_for(happened: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Polls until it has happened; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen in {seconds} s: {what}"
        time.sleep(0.01)


@frozen
class Handling:
    """The handling of a message; `end` is None if the handler did not return."""

    worker: str
    id: str
    key: str
    number: int
    start: float
    end: float | None


class WorkerProcess:
    """A worker process; its client has this name."""

    def __init__(self, directory: Path, url: str, topic: str, group: str, name: str, seconds: float) -> None:
        self.name = name
        self._path = directory / f"{name}.jsonl"
        self._lines: list[dict[str, Any]] = []
        self._read = 0
        self._lock = threading.Lock()
        command = [sys.executable, str(_SCRIPT), url, topic, group, name, str(seconds)]
        with self._path.open("wb") as out, (directory / f"{name}.err").open("wb") as errors:
            self._process = subprocess.Popen(
                command, env=os.environ | python_path(), stdin=subprocess.DEVNULL, stdout=out, stderr=errors
            )
        self._out = self._path.open("rb")

    def lines(self) -> list[dict[str, Any]]:
        """The lines that the worker has printed; an incomplete line is left for later."""
        with self._lock:
            whole, end, _ = self._out.read().rpartition(b"\n")
            self._out.seek(self._read + len(whole) + len(end))
            self._read = self._out.tell()
            self._lines += [json.loads(line) for line in whole.splitlines()]
            return list(self._lines)

    def handlings(self) -> list[Handling]:
        """The handlings of its messages, by the time they began."""
        ends: dict[str, list[float]] = {}
        lines = self.lines()
        for line in lines:
            if line["what"] == "end":
                ends.setdefault(line["id"], []).append(line["at"])
        found: list[Handling] = []
        for line in lines:
            if line["what"] == "start":
                end = next((at for at in ends.get(line["id"], ()) if at >= line["at"]), None)
                found.append(Handling(self.name, line["id"], line["key"], line["number"], line["at"], end))
        return found

    def done(self, since: float = 0.0) -> int:
        """How many messages it began to handle since then and finished."""
        return sum(1 for one in self.handlings() if one.end is not None and one.start >= since)

    def in_hand(self) -> list[Handling]:
        """The handlings that have not ended."""
        return [one for one in self.handlings() if one.end is None]

    def warnings(self) -> list[str]:
        """The warnings of its client."""
        return [line["text"] for line in self.lines() if line["what"] == "warning"]

    def tail(self) -> str:
        """The end of its output."""
        whole = [path.read_text() for path in (self._path, self._path.with_suffix(".err"))]
        return "\n".join(text[-2000:] for text in whole)

    def pause(self) -> list[Handling]:
        """Stops the worker while it handles messages; returns those handlings."""
        while True:
            self._process.send_signal(signal.SIGSTOP)
            os.waitpid(self._process.pid, os.WUNTRACED)
            if hand := self.in_hand():
                return hand
            self.resume()
            time.sleep(0.001)

    def resume(self) -> None:
        """Lets the worker continue."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> list[Handling]:
        """Kills the worker while it handles messages; returns those handlings."""
        hand = self.pause()
        self.end()
        return hand

    def leave(self) -> None:
        """Asks the worker to end, and checks that its exit code is 0."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(20) == 0, self._path.with_suffix(".err").read_text()
        assert self.lines()[-1]["what"] == "left"

    def end(self) -> None:
        """Kills the worker, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Kills the worker and closes its output."""
        self.end()
        self._out.close()
