"""The campaign end to end: real servers, real faults, the checker's verdict; and bugs of a real server, caught."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.servers import skip_or_fail
from support.waiting import wait_until
from tarry.bench import databases
from tarry.bench.usage import children_of

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-P", "-m", "tarry.bench.campaign"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / ".tree")}

SHOWN = {
    "dropped": "lost",
    "early": "early",
    "letter": "dead letter",
    "stale-ack": "stale ack",
    "cancel": "cancel",
    "order": "order",
    "skipped": "skipped",
    "retry": "retries",
    "rung": "rung",
    "truncated": "body",
    "counter": "counters",
}
"""A bug planted in a server, and what it must show as."""


def campaign(keep: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the last JSON line, and all that was said beside."""
    done = subprocess.run(
        [*COMMAND, "--keep", str(keep), *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    return done.returncode, json.loads(lines[-1]), done.stdout + done.stderr


def has(kind: str) -> None:
    """Skips where there is no such server."""
    try:
        databases.program_of("mariadbd" if kind == "mariadb" else "mysqld", kind)
    except SystemExit as missing:
        skip_or_fail(str(missing))


def test_kills_of_a_node_on_a_file(tmp_path: Path) -> None:
    """The shortest form: two kills, nothing lost, nothing early, every duplicate explained."""
    code, figures, said = campaign(tmp_path, *("--rows", "kill", "--dsn", "sqlite", "--nodes", "1"), "--count", "2")
    assert code == 0, said
    assert figures["faults_done"] == 2
    assert figures["messages"] > 10
    assert (figures["lost"], figures["early"], figures["unexplained"], figures["violations"]) == (0, 0, 0, 0)
    assert f"| kill | sqlite | 1 | 2 | {figures['messages']:,} |" in said


@pytest.mark.parametrize(("row", "fault"), [("clock", "clock of a node"), ("disk", "disk full")])
def test_a_machine_that_is_wrong_under_a_file(row: str, fault: str, tmp_path: Path) -> None:
    code, figures, said = campaign(tmp_path, *("--rows", row, "--dsn", "sqlite", "--nodes", "1"), "--count", "2")
    assert code == 0, said
    assert figures["faults"] == {fault: 2}
    assert figures["violations"] == 0


@pytest.mark.long
@pytest.mark.parametrize("row", ["kill", "pause", "cut", "database", "redis", "clock", "disk"])
def test_each_row_with_two_nodes(row: str, tmp_path: Path) -> None:
    has("mariadb")
    arguments = ("--rows", row, "--dsn", "mariadb", "--nodes", "2", "--count", "5", "--rate", "20")
    code, figures, said = campaign(tmp_path, *arguments)
    assert code == 0, said
    assert figures["faults_done"] == 5
    assert figures["violations"] == 0


@pytest.mark.long
@pytest.mark.parametrize("plant", SHOWN)
def test_a_bug_in_a_real_server_is_found(plant: str, tmp_path: Path) -> None:
    """From the server through HTTP and the history to the checker."""
    arguments = ("--rows", "none", "--dsn", "sqlite", "--nodes", "1", "--count", "15", "--drain", "20")
    code, figures, said = campaign(tmp_path, *arguments, "--seed", "7", "--plant", plant)
    assert code == 1, said
    assert SHOWN[plant] in figures["kinds"]
    assert "violations; the history is" in said


def test_the_seed_is_told_and_an_unknown_row_is_refused() -> None:
    done = subprocess.run(
        [*COMMAND, "--rows", "flood"], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "invalid choice: 'flood'" in done.stderr


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_takes_its_servers_along(number: int, keep: bool, tmp_path: Path) -> None:
    """And leaves nothing behind that nobody asked to keep."""
    arguments = ["--rows", "none", "--dsn", "sqlite", "--nodes", "1", "--count", "100000"]
    arguments += ["--keep", str(tmp_path / "kept")] if keep else []
    environment = ENVIRONMENT | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen([*COMMAND, *arguments], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: any(path.stat().st_size > 10_000 for path in tmp_path.rglob("history.jsonl")))
        (child,) = children_of(process.pid)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert said.startswith("seed ")
    assert "async context" not in said
    assert not Path(f"/proc/{child}").exists()
    assert [path.name for path in tmp_path.iterdir()] == (["kept"] if keep else [])
