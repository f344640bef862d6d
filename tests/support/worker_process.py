"""A `worker.py` in a process: paused, resumed, killed and ended by signals; what it wrote can be read at any time."""

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
    """Until it has happened; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen in {seconds} s: {what}"
        time.sleep(0.01)


@frozen
class Handling:
    """A message in the hands of a handler, for some time; `end` is None when it did not come back."""

    worker: str
    id: str
    key: str
    number: int
    start: float
    end: float | None


class WorkerProcess:
    """One client of that name."""

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
        """What it has written; a line that is not whole is left for later."""
        with self._lock:
            whole, end, _ = self._out.read().rpartition(b"\n")
            self._out.seek(self._read + len(whole) + len(end))
            self._read = self._out.tell()
            self._lines += [json.loads(line) for line in whole.splitlines()]
            return list(self._lines)

    def handlings(self) -> list[Handling]:
        """What its handlers had, by the time they began."""
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
        """How many messages it has handled to the end since then."""
        return sum(1 for one in self.handlings() if one.end is not None and one.start >= since)

    def in_hand(self) -> list[Handling]:
        """What its handlers have not come back from."""
        return [one for one in self.handlings() if one.end is None]

    def warnings(self) -> list[str]:
        """Of its client."""
        return [line["text"] for line in self.lines() if line["what"] == "warning"]

    def tail(self) -> str:
        """The end of what it has written."""
        whole = [path.read_text() for path in (self._path, self._path.with_suffix(".err"))]
        return "\n".join(text[-2000:] for text in whole)

    def pause(self) -> list[Handling]:
        """Stops it in the middle of its work; what it has in hand then."""
        while True:
            self._process.send_signal(signal.SIGSTOP)
            os.waitpid(self._process.pid, os.WUNTRACED)
            if hand := self.in_hand():
                return hand
            self.resume()
            time.sleep(0.001)

    def resume(self) -> None:
        """It goes on as if nothing had been."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> list[Handling]:
        """Ends it in the middle of its work; what it had in hand."""
        hand = self.pause()
        self.end()
        return hand

    def leave(self) -> None:
        """Asks it to end, and waits for it: the exit code is 0."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(20) == 0, self._path.with_suffix(".err").read_text()
        assert self.lines()[-1]["what"] == "left"

    def end(self) -> None:
        """Ends it at once, if it has not ended."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """Ends it for good."""
        self.end()
        self._out.close()
