"""Every bench runs in a small form on the embedded store, prints JSON lines, and its own checks hold."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.benches import bench
from support.processes import below, is_there
from support.waiting import wait_until
from tarry.bench import plots
from tarry.service.demo.server_process import python_path

MODULES = (
    "claim",
    "cleaning",
    "crowd",
    "front",
    "lateness",
    "neighbours",
    "nodes",
    "offsets",
    "pages",
    "pending",
    "polls",
    "promote",
    "publish",
    "schedules",
    "scheduling",
    "start",
)


def run(module: str, *arguments: str) -> list[dict[str, Any]]:
    """What the bench prints; its checks of counts make it fail."""
    done = bench(module, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("module", MODULES)
def test_help_says_what_the_question_is(module: str) -> None:
    done = bench(module, "--help")
    assert done.returncode == 0
    assert "?" in done.stdout
    assert "--dsn" in done.stdout


@pytest.mark.long
def test_front() -> None:
    """Through real servers: Tarry's, and the same app behind Hypercorn."""
    small = ("--runs", "1", "--seconds", "0.2", "--at-once", "2", "--messages", "100", "--keys", "1500", "--only")
    names = ("publish", "hypercorn_publish", "schedule", "timer", "claim_10", "threads", "tasks", "lines", "run")
    *lines, summary = run("front", "--dsn", "sqlite", *small, *names)
    assert len({line["subject"] for line in lines}) == 11  # claim_100 and lines_keyed begin so, too
    assert all(line["per_s"] > 0 and line["server_cpu_us"] >= 0 for line in lines)
    assert summary["times_hypercorn"]["publish_2"]["median"] > 0


def test_publish() -> None:
    lines = run("publish", "--dsn", "sqlite", "--callers", "3", "--seconds", "0.2", "--runs", "1")
    assert [line.get("subject") for line in lines] == ["publish", "schedule", "published", None]
    assert all(line["answered"] > 0 for line in lines[:-1])
    assert lines[-1]["times_the_published_design"]["publish"]["median"] > 0
    assert lines[-1]["synchronous"] == 2


@pytest.mark.long
def test_crowd() -> None:
    few = ("--crowd", "3000", "--rate", "10", "--seconds", "1", "--runs", "1")
    lines = run("crowd", "--dsn", "sqlite", *few)
    assert [line.get("subject") for line in lines] == ["promote", "crowd", None]
    assert all(many > 0 for many in lines[1]["counted"])
    assert lines[-1]["per_s"]["drained"]["median"] > 0
    assert lines[-1]["ratio"]["p99"]["median"] > 0


@pytest.mark.long
def test_schedules() -> None:
    """The bench itself fails when a fire time has no message, or two."""
    few = ("--schedules", "30", "--every", "2", "--periods", "1", "--consumers", "2", "--runs", "1")
    *lines, summary = run("schedules", "--dsn", "sqlite", *few)
    assert [line["early"] for line in lines] == [0, 0]
    assert {kind: one["median"] > 0 for kind, one in summary["p99_ms"].items()} == dict.fromkeys(
        summary["p99_ms"], True
    )


def test_pages() -> None:
    """The bench itself fails when a page does."""
    (summary,) = run("pages", "--dsn", "sqlite", "--rows", "500", "--times", "1")
    assert all(0 < page["median"] <= page["max"] for page in summary["pages"].values())
    assert len(summary["pages"]) > 10


def test_scheduling() -> None:
    """The bench itself fails when a row is missing."""
    line, summary = run("scheduling", "--dsn", "sqlite", "--rows", "2500", "--runs", "1")
    assert line["rows"] == 2500
    assert line["per_s"] > 0
    assert summary["peak_mb"]["median"] >= summary["server_mb"]["median"] > 0


@pytest.mark.long
def test_pending() -> None:
    """Two points on one database. The bench itself fails when a burst, or a message of the outages, is missing."""
    few = ("--lines", "200", "--burst", "200", "--settled", "500", "--seconds", "0.5", "--rate", "100", "--starts", "1")
    lines = run("pending", "--dsn", "sqlite", "--points", "1000", "3000", *few, "--no-archive")
    assert [line["pending"] for line in lines if line["bench"] == "pending" and "pending" in line] == [1000, 3000]
    assert all(line["early"] == 0 < line["cleaned_per_s"] for line in lines if "early" in line)
    assert lines[-1]["times"]["scheduled_per_s"] > 0


def test_plots(tmp_path: Path) -> None:
    """A curve for each store, in the order of what it is over; what there is no line for is not drawn."""
    late = {"bench": "lateness", "summary": "", "p50_ms": {"median": 2}, "p99_ms": {"median": 5}}
    lines = [late | {"rate": rate, "store": store} for rate in (500, 100) for store in ("SQLite 3", "MySQL 9")]
    _, panels = plots.drawings(lines)["load"]
    assert panels["p99 of lateness, ms"] == {"MySQL": [(100, 5), (500, 5)], "SQLite": [(100, 5), (500, 5)]}
    figures = tmp_path / "figures.jsonl"
    figures.write_text("\n".join(map(json.dumps, lines)))
    assert run("plots", str(figures), str(tmp_path)) == []
    assert [one.name for one in tmp_path.glob("*.svg")] == ["load.svg"]


def test_start() -> None:
    line, summary = run("start", "--dsn", "sqlite", "--runs", "1")
    assert 0 < line["listening_s"] <= line["ready_s"]
    assert 0 < summary["listening_s"]["first"]["median"] <= summary["ready_s"]["first"]["median"]


@pytest.mark.long
def test_neighbours(mariadb_server: str) -> None:
    lines = run("neighbours", "--dsn", mariadb_server, "--rate", "5", "--seconds", "3", "--runs", "1")
    assert [line.get("case") for line in lines] == ["alone", "met", "known", None]
    assert lines[2]["told"] > 0
    assert all(ratio["median"] > 0 for case in lines[-1]["ratio"].values() for ratio in case.values())


@pytest.mark.long
def test_nodes(mariadb_server: str) -> None:
    small = ("--dsn", mariadb_server, "--runs", "1", "--seconds", "1", "--topics", "1", "--messages", "2000")
    few = ("--pending", "2000", "--nodes", "1", "--servers", "1", "3", "--only", "claim", "memory")
    *rates, claims, memory, _ = run("nodes", *small, *few)
    assert [line["subject"] for line in rates] == ["one_on_1", "three_on_1"]
    assert all(line["per_s"] > 0 and line["messages_to_a_commit"] > 0 for line in rates)
    assert claims["times_one"]["three_on_1"]["median"] > 0
    assert memory["timers"] == [2000]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_a_bench_that_is_ended(mariadb_server: str, number: int) -> None:
    command = [sys.executable, "-P", "-m", "tarry.bench.nodes", "--dsn", mariadb_server]
    environment = os.environ | python_path() | {"TARRY_TEST_FORK": "0"}  # its servers are known by their command lines
    with subprocess.Popen(
        [*command, "--runs", "1", "--idle", "600", "--only", "idle"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            # One that is only just begun the bench may not know of yet, if the signal comes within its fork.
            wait_until(lambda: any(map(has_sockets, servers_of(process.pid))))
            servers = servers_of(process.pid)
            process.send_signal(number)
            assert process.wait(60) != 0
        finally:
            process.kill()
    left = [pid for pid in servers if is_there(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def servers_of(bench: int) -> list[int]:
    """The processes of Tarry's servers that a bench has started."""
    return [pid for pid, command in below(bench) if "serve" in command.split()]


def has_sockets(pid: int) -> bool:
    with suppress(OSError):
        return any(os.readlink(entry).startswith("socket:") for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False


def test_polls() -> None:
    (line,) = run("polls", "--dsn", "sqlite", "--http", "--polls", "50", "--groups", "3", "--seconds", "1")
    assert (line["answered"], line["refused"], line["lost"]) == (50, 0, 0)
    assert min(line["late_s"]) > 0


def test_promote() -> None:
    lines = run("promote", "--dsn", "sqlite", "--rows", "300", "--batches", "100", "--runs", "1")
    assert lines[0]["rows"] == 300
    assert lines[-1]["per_s"]["batch_100"]["median"] > 0


def test_lateness() -> None:
    lines = run("lateness", "--dsn", "sqlite", "--rate", "100", "--seconds", "1", "--runs", "1")
    assert lines[0]["acked"] == 300
    assert lines[0]["counted"] == 100
    assert lines[-1]["early"] == 0


def test_claim() -> None:
    lines = run("claim", "--dsn", "sqlite", "--rows", "50000", "--seconds", "0.2", "--runs", "1")
    assert lines[0]["messages"] == 10 * lines[0]["answered"] > 0
    assert lines[-1]["messages_per_s"]["turn"]["median"] > 0


def test_cleaning() -> None:
    (line,) = run("cleaning", "--dsn", "sqlite", "--rows", "3000", "--seconds", "0.2")
    assert line["removed_per_s"] > 0
    assert line["times_before"]["p99"] > 0
