"""The campaign end to end: real servers, real faults, the checker's verdict; and bugs of a real server, caught."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from trio.testing import MockClock

from support.benches import bench
from support.servers import skip_or_fail
from support.waiting import wait_until
from tarry.bench import databases
from tarry.bench.campaign.caller import Caller
from tarry.bench.campaign.crew import Crew
from tarry.bench.campaign.journal import Journal
from tarry.bench.campaign.networks import can_be_made
from tarry.bench.campaign.operators import Operator
from tarry.bench.lean_http import LeanHTTP
from tarry.bench.proxy import SILENCES, Proxy
from tarry.bench.usage import children_of
from tarry.service.demo.server_process import free_port, python_path

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
    "past-its-end": "expired",
    "ended-early": "lost",
    "replaced": "timer",
    "timer-cancel": "cancel",
    "fired-twice": "written twice",
    "passed-by": "fire",
}
"""A bug planted in a server, and what it must show as."""

SHOWN_BY_A_MACHINE = {
    "host-clock": ("clock", "sqlite", 6, "early"),
    "old-clock": ("clock", "mariadb", 3, "stuck"),
    "no-room": ("disk", "sqlite", 4, "lost"),
}
"""A bug, the row without which it does no harm, where, how many faults, and what it must show as."""


def campaign(keep: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the last JSON line, and all that was said beside."""
    done = bench("campaign", "--keep", str(keep), *arguments)
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
    code, figures, said = campaign(tmp_path, "--rows", "kill", "--dsn", "sqlite", "--nodes", "1", "--count", "2")
    assert code == 0, said
    assert figures["faults_done"] == 2
    assert figures["messages"] > 10
    assert (figures["lost"], figures["early"], figures["unexplained"], figures["violations"]) == (0, 0, 0, 0)
    assert f"| kill | sqlite | 1 | 2 | {figures['messages']:,} |" in said


@pytest.mark.parametrize(("row", "fault"), [("clock", "clock of a node"), ("disk", "disk full")])
@pytest.mark.cases(1)
def test_a_machine_that_is_wrong_under_a_file(row: str, fault: str, tmp_path: Path) -> None:
    code, figures, said = campaign(tmp_path, "--rows", row, "--dsn", "sqlite", "--nodes", "1", "--count", "2")
    assert code == 0, said
    assert figures["faults"] == {fault: 2}
    assert figures["violations"] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "row", ["kill", "all", "children", "pause", "turn", "cut", "line", "database", "redis", "clock", "disk"]
)
def test_each_row_with_two_nodes(row: str, tmp_path: Path) -> None:
    has("mariadb")
    arguments = ("--rows", row, "--dsn", "mariadb", "--nodes", "2", "--count", "5", "--rate", "20")
    code, figures, said = campaign(tmp_path, *arguments)
    assert code == 0, said
    assert figures["faults_done"] == 5
    assert figures["violations"] == 0


@pytest.mark.long
def test_a_partition_with_a_server_on_either_side(tmp_path: Path) -> None:
    """The first fault of this seed. The server that is left with the old primary says so, and comes back by itself."""
    if not can_be_made():
        pytest.skip("only root makes networks, with iproute2")
    try:
        databases.program_of("mysqld", "mysql")
    except SystemExit as missing:
        pytest.skip(str(missing))
    arguments = ("--rows", "group", "--dsn", "mysql", "--nodes", "2", "--count", "1", "--rate", "20", "--seed", "3652")
    code, figures, said = campaign(tmp_path, *arguments)
    assert code == 0, said
    assert figures["faults"] == {"primary and a server cut off": 1}
    assert figures["violations"] == 0


@pytest.mark.long
@pytest.mark.parametrize("plant", SHOWN)
def test_a_bug_in_a_real_server_is_found(plant: str, tmp_path: Path) -> None:
    """From the server through HTTP and the history to the checker."""
    count = "60" if plant == "passed-by" else "15"  # a schedule fires every other second
    arguments = ("--rows", "none", "--dsn", "sqlite", "--nodes", "1", "--count", count, "--drain", "20")
    code, figures, said = campaign(tmp_path, *arguments, "--seed", "7", "--plant", plant)
    assert code == 1, said
    assert SHOWN[plant] in figures["kinds"]
    assert "violations; the history is" in said


@pytest.mark.long
@pytest.mark.parametrize("plant", SHOWN_BY_A_MACHINE)
def test_a_bug_that_waits_for_a_wrong_machine_is_found(plant: str, tmp_path: Path) -> None:
    """By the row that has one, and not without."""
    row, store, faults, kind = SHOWN_BY_A_MACHINE[plant]
    if store != "sqlite":
        has(store)
    arguments = ("--dsn", store, "--nodes", "1", "--drain", "20", "--seed", "7", "--plant", plant)
    code, figures, said = campaign(tmp_path / "right", *arguments, "--rows", "none", "--count", "5")
    assert (code, figures["violations"]) == (0, 0), said
    code, figures, said = campaign(tmp_path / "wrong", *arguments, "--rows", row, "--count", str(faults))
    assert code == 1, said
    assert kind in figures["kinds"]


async def test_a_line_that_is_silent_or_cut() -> None:
    """What was said in the silence is heard when it is over; a line that is cut is gone, and none is let in."""
    packet = b"\x04\0\0\0" + b"same"

    async def echo(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            async for data in stream:
                await stream.send_all(data)

    async with trio.open_nursery() as serving:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        serving.start_soon(trio.serve_listeners, echo, [listener])
        proxy = Proxy(f"mysql://root@127.0.0.1:{listener.socket.getsockname()[1]}/tarry")
        await serving.start(proxy.run)
        port = urlsplit(proxy.dsn).port or 0
        for silence in SILENCES:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                proxy.hush(silence)
                await stream.send_all(packet)
                with pytest.raises(trio.TooSlowError), trio.fail_after(0.2):
                    await stream.receive_some()
                proxy.open()
                with trio.fail_after(5):
                    assert await stream.receive_some() == packet
                    proxy.shut()
                    assert await stream.receive_some() == b""
            with trio.fail_after(5):
                async with await trio.open_tcp_stream("127.0.0.1", port) as refused:
                    with suppress(trio.BrokenResourceError):
                        assert await refused.receive_some() == b""
            proxy.open()
        serving.cancel_scope.cancel()


def test_an_operator_gives_nothing_back_once_the_drain_looks(tmp_path: Path) -> None:
    """He rests when publishing ends; and the drain waits for him."""

    async def rest() -> None:
        with Journal(tmp_path / "history.jsonl") as journal:
            crew = Crew(journal, [free_port()], 4, 1)
            assert crew.random("operator").random() < 0.5, "his first would be a redrive"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Operator(crew, crew.caller("operator")).run)
                await trio.sleep(1)
                crew.publishing = False
                assert crew.operating
            assert not crew.operating
            assert not journal.counts

    trio.run(rest, clock=MockClock(autojump_threshold=0))


async def test_an_answer_that_is_given_up_is_not_heard_by_the_next_who_asks(tmp_path: Path) -> None:
    asked, go = trio.Event(), trio.Event()

    async def answer(stream: trio.SocketStream) -> None:
        """The path, in JSON; that of `/slow` when it is let go."""
        with suppress(trio.BrokenResourceError):
            while head := await stream.receive_some():
                path = head.split()[1]
                if path == b"/slow":
                    asked.set()
                    await go.wait()
                await stream.send_all(b'HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"%b"' % (len(path) + 2, path))

    async with trio.open_nursery() as serving:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        serving.start_soon(trio.serve_listeners, answer, [listener])
        with Journal(tmp_path / "history.jsonl") as journal:
            caller = Caller(journal, [listener.socket.getsockname()[1]], Random(1), LeanHTTP)
            async with trio.open_nursery() as asking:
                asking.start_soon(caller.ask, "GET", "/slow")
                await asked.wait()
                asking.cancel_scope.cancel()
            go.set()
            assert (await caller.ask("GET", "/fast")).data == "/fast"
            await caller.close()
        serving.cancel_scope.cancel()


def test_the_seed_is_told_and_an_unknown_row_is_refused() -> None:
    done = bench("campaign", "--rows", "flood")
    assert done.returncode == 2
    assert "invalid choice: 'flood'" in done.stderr


@pytest.mark.parametrize(
    ("number", "keep"),
    [
        (signal.SIGINT, True),
        (signal.SIGTERM, False),
        pytest.param(signal.SIGINT, False, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, True, marks=pytest.mark.long),
    ],
)
@pytest.mark.cases(1)
def test_interrupted_it_takes_its_servers_along(number: int, keep: bool, tmp_path: Path) -> None:
    """And leaves nothing behind that nobody asked to keep."""
    arguments = ["--rows", "none", "--dsn", "sqlite", "--nodes", "1", "--count", "100000"]
    arguments += ["--keep", str(tmp_path / "kept")] if keep else []
    environment = os.environ | python_path() | {"TMPDIR": str(tmp_path), "TARRY_TEST_FORK": "0"}
    command = [sys.executable, "-P", "-m", "tarry.bench.campaign", *arguments]  # its child is its server
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
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
