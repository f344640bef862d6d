"""Through the front door: what is settled goes, also when the server is killed in the middle of it."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from support.server import client_of, start_server
from support.servers import free_port
from support.waiting import wait_until
from tarry.client import Failed, Tarry
from tarry.testing import EmbeddedServer

ROOT = Path(__file__).parents[2]
SETTLED, OWED = 2500, 40


@pytest.fixture(params=["sqlite", "mysql"])
def dsn(request: pytest.FixtureRequest, tmp_path: Path, fresh_database: Callable[[str], str]) -> str:
    """A fresh store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tarry.db"
    return fresh_database(request.getfixturevalue("mysql_server"))


@pytest.mark.parametrize("point", ["message.remove:after", "cleaned.move:commit", "message.remove:committed"])
@pytest.mark.cases(2)
def test_kill_in_the_middle_of_cleaning(dsn: str, point: str, tmp_path: Path) -> None:
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        tarry.put_topic("orders", retention=0)
        tarry.put_group("orders", "billing")
        for start in range(0, SETTLED + OWED, 500):
            bodies = range(start, min(start + 500, SETTLED + OWED))
            tarry.publish_many("orders", [{"body": body, "key": str(body)} for body in bodies])
        for _ in range(SETTLED // 500):
            claim = tarry.claim("orders", group="billing", max=500)
            assert claim is not None
            assert tarry.ack(claim) == 500
    # Cleaning begins with the server, and the second batch is its end.
    port = free_port()
    dying = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "tarry.bench.killing",
            point,
            "2",
            "serve",
            "--dsn",
            dsn,
            "--listen",
            f"127.0.0.1:{port}",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".tree")},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert dying.returncode == -9, dying.stderr.decode()
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        first = _wait_until_cleaned(tarry)
        assert first == SETTLED
        claim = tarry.claim("orders", group="billing", max=500)
        assert claim is not None
        assert [message.body for message in claim.messages] == list(range(SETTLED, SETTLED + OWED))
        assert tarry.ack(claim) == OWED
        group = tarry.group("orders", "billing")
        assert (group["acked"], group["backlog"], group["dead"]) == (SETTLED + OWED, 0, 0)


def test_what_rests_or_waits_for_longer_than_the_hard_limit_comes_at_its_time() -> None:
    """A topic that keeps nothing; its group asks only when something is due."""
    with EmbeddedServer() as server, Tarry(server.url) as tarry:
        tarry.put_topic("orders", retention=0)
        tarry.put_group("orders", "billing")
        tarry.publish("orders", "rests")
        claim = tarry.claim("orders", "billing", wait="10s")
        assert claim is not None
        assert tarry.fail(claim, retry_after="29d") == Failed(retried=1, dead=0)
        tarry.publish("orders", "waits", delay="100d")
        for days, body in ((28, None), (29, "rests"), (100, "waits")):
            server.clock.advance(timedelta(days=days) - (server.clock.now() - claim.messages[0].published_at))
            _until_the_cleaner_has_come_round(server, tarry)
            found = tarry.claim("orders", "billing", wait="10s" if body else 0)
            assert (None if found is None else found.messages[0].body) == body
            if found is not None:
                tarry.ack(found)
        assert tarry.group("orders", "billing")["expired"] == 0


def _until_the_cleaner_has_come_round(server: EmbeddedServer, tarry: Tarry) -> None:
    """Through all topics, after now: what is settled in another one goes twice."""

    def is_swept() -> bool:
        server.clock.advance("61s")
        return not tarry.pull("swept", 0, 0).messages

    tarry.put_topic("swept", retention=0)
    for _ in range(2):
        tarry.publish("swept", 1)
        claim = tarry.claim("swept", "sweeper", wait="10s")
        assert claim is not None
        tarry.ack(claim)
        wait_until(is_swept)


def _wait_until_cleaned(tarry: Tarry) -> int:
    """The lowest offset that is there, once the cleaner has come to it."""
    pause, deadline = threading.Event(), time.monotonic() + 30
    while True:
        (message,) = tarry.pull("orders", 0, 0, max=1).messages
        if message.offset >= SETTLED or time.monotonic() > deadline:
            return message.offset
        pause.wait(0.05)
