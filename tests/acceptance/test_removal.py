"""Topics and groups are removed through the front door, also when the server is killed in the middle of it."""

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import commands
from support.in_turn import in_turn
from support.server import client_of, dying_server, start_server
from support.stores import open_tables
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.client.errors import Conflict, NotFound
from tarry.service.demo.server_process import ServerProcess

SETTLED, WAITING = 2500, 1500


@pytest.mark.parametrize(
    ("dsn", "point", "times", "removed"),
    in_turn(
        ("removed.add:after", 1, False),
        ("removed.add:commit", 1, False),
        ("removed.add:committed", 1, True),
        ("message.remove:after", 2, True),
        ("delay.remove:committed", 2, True),
    ),
    indirect=["dsn"],
)
@pytest.mark.cases(2)
def test_kill_in_the_middle_of_a_removal(dsn: str, point: str, times: int, tmp_path: Path, *, removed: bool) -> None:
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        fill(tarry)
    with dying_server(tmp_path, dsn, point, times) as server, suppress(httpx.HTTPError):
        # The client itself would try again until the server is back.
        httpx.delete(f"{server.url}/v1/topics/orders?force=true", timeout=20)
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


def test_by_the_client_and_the_command_line(server: ServerProcess, tarry: Tarry) -> None:
    for topic in ("few", "many"):
        tarry.put_group(topic, "billing")
    tarry.publish_many("few", [{"body": 0}] * 2)
    tarry.publish_many("many", [{"body": 0}] * 3 + [{"body": 0, "delay": "1h"}] * 4)
    assert command(server, "groups", "few", "--delete", "billing")[0] == 2, "who could say yes?"
    code, (told,), _ = command(server, "groups", "few", "--delete", "billing", "--dry-run", "--json")
    assert (code, told["removed"], told["backlog"]) == (0, False, 2)
    assert tarry.group("few", "billing")["backlog"] == 2
    code, (told,), _ = command(server, "groups", "few", "--delete", "billing", "--yes", "--json")
    assert (code, told["removed"]) == (0, True)
    with pytest.raises(NotFound):
        tarry.group("few", "billing")
    assert command(server, "groups", "few", "--delete", "billing", "--yes")[0] == 3
    with pytest.raises(NotFound):
        tarry.delete_group("few", "billing")

    with pytest.raises(Conflict, match="4 that wait for their time, and 3 unsettled"):
        tarry.delete_topic("many")
    code, _, error = command(server, "topics", "--delete", "many", "--yes")
    assert code == 1
    assert "4 that wait" in error
    assert command(server, "topics", "--force")[0] == 2
    code, (told,), _ = command(server, "topics", "--delete", "many", "--force", "--yes", "--json")
    assert (code, told["removed"], told["pending"], told["groups"]) == (0, True, 4, ["billing"])
    assert "many" not in [one["topic"] for one in tarry.topics()]
    assert command(server, "topics", "--delete", "many", "--yes")[0] == 3


def test_a_long_poll_of_a_removed_group_ends_empty(tarry: Tarry) -> None:
    tarry.put_group("polled", "billing")
    answers: list[Any] = []
    poll = threading.Thread(target=lambda: answers.append(tarry.claim("polled", group="billing", wait="20s")))
    began = time.monotonic()
    poll.start()
    wait_until(lambda: bool(tarry.group("polled", "billing")["clients"]) or time.monotonic() > began + 1)
    tarry.delete_group("polled", "billing")
    poll.join(10)
    assert answers == [None]
    assert time.monotonic() - began < 10
