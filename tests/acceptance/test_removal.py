"""Topics and groups are removed through the front door, also when the server is killed in the middle of it."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import commands
from support.server import client_of, start_server
from support.servers import free_port
from support.stores import open_tables
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.client.errors import Conflict, NotFound
from tarry.service.demo.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
SETTLED, WAITING = 2500, 1500


@pytest.fixture(params=["sqlite", "mysql"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path, fresh_database: Callable[[str], str]) -> str:
    """A fresh store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tarry.db"
    return fresh_database(request.getfixturevalue("mysql_server"))


@contextmanager
def dying_server(dsn: str, point: str, times: int) -> Iterator[str]:
    """A server that ends itself there; its address."""
    listen = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            sys.executable,
            "-P",
            "-m",
            "tarry.bench.killing",
            point,
            str(times),
            "serve",
            "--dsn",
            dsn,
            "--listen",
            listen,
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".tree")},
    )
    try:
        yield f"http://{listen}"
        assert process.wait(30) == -9
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("point", "times", "removed"),
    [
        ("removed.add:after", 1, False),
        ("removed.add:commit", 1, False),
        ("removed.add:committed", 1, True),
        ("message.remove:after", 2, True),
        ("delay.remove:committed", 2, True),
    ],
)
@pytest.mark.cases(3)
def test_kill_in_the_middle_of_a_removal(dsn: str, point: str, times: int, tmp_path: Path, *, removed: bool) -> None:
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        fill(tarry)
    with dying_server(dsn, point, times) as url, Tarry(url) as tarry:
        wait_until(tarry.ready)
        with suppress(httpx.HTTPError):  # the client itself would try again until the server is back
            httpx.delete(f"{url}/v1/topics/orders?force=true", timeout=20)
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        names = {one["topic"] for one in tarry.topics()}
        assert names == ({"others"} if removed else {"orders", "others"}), "all of it or nothing"
        if not removed:
            assert tarry.topic("orders")["pending"] == WAITING
            tarry.delete_topic("orders", force=True)
        tables = open_tables(dsn)
        counts = [f"(SELECT COUNT(*) FROM {table})" for table in ("message", "delay", "label")]
        wait_until(lambda: tables.rows(f"SELECT {', '.join(counts)}") == [(2, 1, 2)])
        orphans = "SELECT 1 FROM claim WHERE group_id NOT IN (SELECT id FROM consumer_group)"
        wait_until(lambda: not tables.rows(orphans))
        tables.close()
        # The name begins anew, and the neighbour has felt nothing.
        with pytest.raises(NotFound):
            tarry.topic("orders")
        assert tarry.publish("orders", "new").offset == 0
        claim = tarry.claim("orders", group="billing", wait="5s")
        assert claim is not None
        assert [message.body for message in claim.messages] == ["new"]
        claim = tarry.claim("others", group="billing", wait="5s")
        assert claim is not None
        assert sorted(message.body for message in claim.messages) == [0, 1]


def fill(tarry: Tarry) -> None:
    for name, settled, waiting in (("orders", SETTLED, WAITING), ("others", 2, 1)):
        tarry.put_group(name, "billing")
        for start in range(0, settled, 500):
            bodies = range(start, min(start + 500, settled))
            tarry.publish_many(name, [{"body": body, "key": str(body)} for body in bodies])
        for start in range(0, waiting, 500):
            tarry.publish_many(name, [{"body": 0, "delay": "1h"}] * min(500, waiting - start))
    assert tarry.claim("orders", group="billing", max=500) is not None


def command(server: ServerProcess, *arguments: str) -> tuple[int, Any, str]:
    done = commands.command(server.url, *arguments)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr


def test_by_the_client_and_the_command_line(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:
        fill(tarry)
        assert command(server, "groups", "others", "--delete", "billing")[0] == 2, "who could say yes?"
        code, (told,), _ = command(server, "groups", "others", "--delete", "billing", "--dry-run", "--json")
        assert (code, told["removed"], told["backlog"]) == (0, False, 2)
        assert tarry.group("others", "billing")["backlog"] == 2
        code, (told,), _ = command(server, "groups", "others", "--delete", "billing", "--yes", "--json")
        assert (code, told["removed"]) == (0, True)
        with pytest.raises(NotFound):
            tarry.group("others", "billing")
        assert command(server, "groups", "others", "--delete", "billing", "--yes")[0] == 3
        with pytest.raises(NotFound):
            tarry.delete_group("others", "billing")

        with pytest.raises(Conflict, match="1500 that wait for their time, and 2500 unsettled"):
            tarry.delete_topic("orders")
        code, _, error = command(server, "topics", "--delete", "orders", "--yes")
        assert code == 1
        assert "1500 that wait" in error
        assert command(server, "topics", "--force")[0] == 2
        code, (told,), _ = command(server, "topics", "--delete", "orders", "--force", "--yes", "--json")
        assert (code, told["removed"], told["pending"], told["groups"]) == (0, True, WAITING, ["billing"])
        assert [one["topic"] for one in tarry.topics()] == ["others"]
        assert command(server, "topics", "--delete", "orders", "--yes")[0] == 3


def test_a_long_poll_of_a_removed_group_ends_empty(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, client_of(server) as tarry:
        tarry.put_group("orders", "billing")
        answers: list[Any] = []
        poll = threading.Thread(target=lambda: answers.append(tarry.claim("orders", group="billing", wait="20s")))
        began = time.monotonic()
        poll.start()
        wait_until(lambda: bool(tarry.group("orders", "billing")["clients"]) or time.monotonic() > began + 1)
        tarry.delete_group("orders", "billing")
        poll.join(10)
        assert answers == [None]
        assert time.monotonic() - began < 10
