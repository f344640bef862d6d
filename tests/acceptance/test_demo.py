"""`tarry demo`, as a user runs it: a real day, a real server, a real kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tarry.service.demo.server_process import python_path

DEMO = [sys.executable, "-m", "tarry.service.cli.app", "demo", "--json"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | python_path() | {"TMPDIR": str(tmp_path)}


def test_every_count_is_right(tmp_path: Path, environment: dict[str, str]) -> None:
    before = time.monotonic()
    done = subprocess.run(DEMO, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    seconds = time.monotonic() - before
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["wrong"] == []
    assert (result["published"], result["early"], result["lost"], result["dead"]) == (1014, 0, 0, 4)
    assert result["delivered"] + result["cancelled"] + result["dead"] == 1014
    assert result["rescheduled"] > 0
    assert result["retried"] > 100
    assert result["away_ms"] > 0
    assert seconds < 60
    assert list(tmp_path.iterdir()) == []


def test_an_end_by_signal_leaves_nothing_behind(tmp_path: Path, environment: dict[str, str]) -> None:
    with subprocess.Popen(DEMO, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if line.startswith("departures"):
                break
        children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(30) == 130
    assert children
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert list(tmp_path.iterdir()) == []
