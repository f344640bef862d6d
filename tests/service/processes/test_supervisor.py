"""What a supervisor does when the machine is short of something. It forks, so each has a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

_RUNS = """
import os, signal, sys
import structlog
from tarry.service.processes.supervisor import Supervisor
from tarry.service.systemd import Systemd

structlog.configure(processors=[structlog.processors.JSONRenderer()])
fork, forks, supervisor = os.fork, [], os.getpid()

def scarce():
    forks.append(1)
    if len(forks) in SHORT:
        raise BlockingIOError("no processes left")
    return fork()

os.fork = scarce

def work(process):
    process.begin()
    if process.number == 2:
        if len(forks) == 3:
            os.kill(os.getpid(), 35)  # a signal without a name
        os.kill(supervisor, signal.SIGTERM)
    return 0 if os.read(process._orders, 1)[0] == signal.SIGTERM else 1

sys.exit(Supervisor([], 2, work, Systemd(), reloads=False).run())
"""


def run(short: set[int]) -> tuple[int, list[dict[str, object]]]:
    ran = subprocess.run(
        [sys.executable, "-B", "-c", _RUNS.replace("SHORT", repr(short))],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / ".tree")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]


def test_a_restart_that_fails_leaves_the_others_alone() -> None:
    code, told = run({4})
    assert code == 0
    assert [line["process"] for line in told if line["event"] == "process_started"] == [1, 2, 2]
    assert [line["signal"] for line in told if line["event"] == "process_died"] == ["35"]
    assert [line["error"] for line in told if line["event"] == "process_not_started"] == ["no processes left"]


def test_when_the_first_cannot_be_started_it_ends() -> None:
    code, told = run({2})
    assert code == 1
    assert [line["event"] for line in told] == ["process_not_started", "supervisor_stopped"]


def test_where_there_is_no_room_for_a_last_word_all_else_goes_on() -> None:
    code, told = run({1})
    assert code == 0
    assert told[0]["event"] == "no_last_word"
    assert [line["process"] for line in told if line["event"] == "process_started"] == [1, 2, 2]
