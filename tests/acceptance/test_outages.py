"""A database that is down at start or goes away, a file in use, a schema from the future, a stop: a clear answer each,
and nothing lost."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from support.gate import Gate
from support.server import client_of, start_server
from support.servers import free_port, run_sql
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import python_path


@pytest.fixture
def gate(mysql_dsn: str) -> Iterator[tuple[Gate, str]]:
    """A gate in front of a fresh database, and the DSN that leads through it."""
    parts = urlsplit(mysql_dsn)
    gate = Gate(parts.hostname or "127.0.0.1", parts.port or 3306)
    user = parts.netloc.rpartition("@")[0]
    yield gate, parts._replace(netloc=f"{user}@127.0.0.1:{gate.port}").geturl()
    gate.close()


def readiness(url: str) -> int | None:
    """The status of `/readyz`; None while nobody answers."""
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").status_code
    return None


def test_keys_that_are_known_hold_while_the_database_is_away(gate: tuple[Gate, str], tmp_path: Path) -> None:
    door, dsn = gate
    with start_server(tmp_path, dsn) as server:
        made = subprocess.run(
            [sys.executable, "-m", "tarry.service.cli.app", "keys", "create", "probe", "--scope", "read:*"],
            env=os.environ | python_path() | {"TARRY_DSN": dsn},
            capture_output=True,
            text=True,
            check=True,
        )
        known = {"Authorization": f"Bearer {made.stdout.split()[-1]}"}
        unknown = {"Authorization": "Bearer tarry_unknown"}

        def status(headers: dict[str, str]) -> int:
            return httpx.get(f"{server.url}/metrics", headers=headers).status_code

        wait_until(lambda: status(unknown) == 401, 5)
        assert status(known) == 200
        door.shut()
        wait_until(lambda: status(unknown) == 503)
        assert (status(known), status({})) == (200, 401)
        door.open()
        wait_until(lambda: status(unknown) == 401)
        assert status(known) == 200


def test_a_database_that_goes_away_is_told_and_nothing_is_lost(gate: tuple[Gate, str], tmp_path: Path) -> None:
    door, dsn = gate
    with start_server(tmp_path, dsn) as server, client_of(server) as tarry:
        tarry.publish("orders", "now")
        claim = tarry.claim("orders", "billing", max=1)
        assert claim is not None
        kept = tarry.publish("orders", "kept", delay="300ms")
        door.shut()
        answer = httpx.post(f"{server.url}/v1/topics/orders/messages", json={"body": "refused"}, timeout=30)
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert int(answer.headers["retry-after"]) >= 1
        wait_until(lambda: readiness(server.url) == 503)
        assert httpx.get(f"{server.url}/livez").status_code == 200
        for _ in range(20):
            assert httpx.get(f"{server.url}/v1/messages/{kept.id}", timeout=30).status_code == 503
        door.open()
        wait_until(lambda: readiness(server.url) == 200)
        assert tarry.ack(claim) == 1
        again = tarry.claim("orders", "billing", wait="10s", max=10)
        assert again is not None
        assert [message.id for message in again.messages] == [kept.id]
        assert again.messages[0].deliver_at == kept.deliver_at
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        told = [line["event"] for line in lines if line["event"] in ("store_away", "store_back")]
        # A connection that was cut may be met after the first new one: then it has gone once more.
        assert told == ["store_away", "store_back"] * (len(told) // 2)
        assert told
        assert sum(line["level"] != "info" for line in lines) < 20, lines
    assert b"refused" not in b"".join(row[0] for row in run_sql(dsn, "SELECT body FROM message"))  # type: ignore[misc]


def test_what_fails_over_and_over_is_told_once_and_when_it_is_well(mysql_dsn: str, tmp_path: Path) -> None:
    with start_server(tmp_path, mysql_dsn) as server:

        def failures() -> float:
            told = httpx.get(f"{server.url}/metrics").text.splitlines()
            return sum(float(line.split()[-1]) for line in told if line.startswith("tarry_db_errors_total"))

        def lines(event: str) -> list[str]:
            every = [json.loads(line) for line in server.log.read_text().splitlines()]
            return [line["step"] for line in every if line["event"] == event]

        run_sql(mysql_dsn, "RENAME TABLE delay TO elsewhere")
        wait_until(lambda: failures() >= 5)
        run_sql(mysql_dsn, "RENAME TABLE elsewhere TO delay")
        # Of what is done each minute it is told a minute later.
        wait_until(lambda: "near" in lines("round_failed") and "near" in lines("round_well"))
        assert "take" not in lines("round_failed")
        assert max(map(lines("round_failed").count, lines("round_failed"))) <= 2


def test_a_database_that_is_down_at_start_is_waited_for(gate: tuple[Gate, str], tmp_path: Path) -> None:
    door, dsn = gate
    door.shut()
    port = free_port()
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "tarry.service.cli.app", "serve", "--dsn", dsn, "--listen", f"127.0.0.1:{port}"],
        stdout=log,
        stderr=log,
        env=os.environ | python_path(),
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: readiness(url) == 503)
        answer = httpx.post(f"{url}/v1/topics/orders/messages", json={"body": 1})
        assert answer.status_code == 503
        assert answer.json()["executed"] is False
        assert process.poll() is None
        door.open()
        wait_until(lambda: readiness(url) == 200)
        with Tarry(url) as tarry:
            assert tarry.publish("orders", 1).state == "published"
        process.terminate()
        assert process.wait(25) == 0
    finally:
        process.kill()
        process.wait()
        log.close()


def serve_until_it_ends(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tarry.service.cli.app", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_second_server_on_the_same_file_is_refused(tmp_path: Path) -> None:
    with start_server(tmp_path) as first, client_of(first) as tarry:
        second = serve_until_it_ends("--dsn", f"sqlite:///{tmp_path}/tarry.db", "--listen", f"127.0.0.1:{free_port()}")
        assert second.returncode == 1
        assert "another server uses" in second.stdout + second.stderr
        assert "Traceback" not in second.stdout + second.stderr
        assert tarry.publish("orders", 1).state == "published"


def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    with start_server(tmp_path) as first:
        listen = urlsplit(first.url).netloc
        second = serve_until_it_ends("--dsn", f"sqlite:///{tmp_path}/other.db", "--listen", listen)
        assert second.returncode == 1
        assert f"cannot listen on {listen}" in second.stdout + second.stderr
        assert "Traceback" not in second.stdout + second.stderr


def test_a_schema_newer_than_the_program_is_refused(tmp_path: Path) -> None:
    with start_server(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "tarry.db") as connection:
        connection.execute("INSERT INTO migration VALUES (9999, 'from_the_future', x'00', 0)")
    connection.close()
    ended = serve_until_it_ends("--dsn", f"sqlite:///{tmp_path}/tarry.db", "--listen", f"127.0.0.1:{free_port()}")
    assert ended.returncode == 1
    assert "newer than this program" in ended.stdout + ended.stderr


def test_sigterm_sends_long_polls_home_and_finishes_what_is_in_flight(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, httpx.Client(base_url=server.url, timeout=40) as http:
        http.put("/v1/topics/orders", json={})
        request = http.build_request(
            "POST", "/v1/topics/orders/groups/billing/claim", json={"client": "c", "wait": "30s"}
        )
        answers: list[httpx.Response] = []
        poll = threading.Thread(target=lambda: answers.append(http.send(request)))
        poll.start()
        wait_until(lambda: "billing" in httpx.get(f"{server.url}/v1/topics/orders").text)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 3
        poll.join(5)
    assert [answer.status_code for answer in answers] == [200]
    assert json.loads(answers[0].content) == {"claim": None, "messages": []}
