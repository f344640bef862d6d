"""Ready means able: while publishes are refused, or wait for the store, `/readyz` says so, and by itself when they are
taken again: no publish comes to who is not ready."""

import json
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from support.receiver import receiver
from support.server import start_server
from support.servers import run_sql, session_with
from support.waiting import wait_until
from tarry.service.demo.server_process import ServerProcess

BODY = "x" * 8000


def publish(server: ServerProcess, timeout: float = 30, **more: str) -> int:
    message = {"body": BODY, **more}
    return httpx.post(f"{server.url}/v1/topics/orders/messages", json=message, timeout=timeout).status_code


def checks(server: ServerProcess) -> dict[str, str]:
    """What is wrong, by the check that found it."""
    told = httpx.get(f"{server.url}/readyz?verbose", timeout=30).json()["checks"]
    return {one["check"]: one["detail"] for one in told if not one["ok"]}


def is_ready(server: ServerProcess) -> bool:
    return httpx.get(f"{server.url}/readyz", timeout=30).status_code == 200


def events(server: ServerProcess) -> list[str]:
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    return [line["event"] for line in lines]


def publish_until_refused(server: ServerProcess) -> None:
    wait_until(lambda: publish(server) == 503)
    # The answer's own write has told it: there is nothing to wait for.
    assert not is_ready(server)
    assert "writes" in checks(server)


def publish_again(server: ServerProcess) -> None:
    """Ready by itself, and able."""
    wait_until(lambda: is_ready(server))
    assert publish(server) == publish(server, delay="1h") == 201
    assert checks(server) == {}


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a disk of a test's own wants root: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, start_server(tmp_path, f"sqlite:///{disk}/tarry.db") as server:
        publish_again(server)
        room = os.statvfs(disk)
        (disk / "others").write_bytes(bytes(room.f_bavail * room.f_frsize - (64 << 10)))
        publish_until_refused(server)
        for _ in range(5):
            assert publish(server) == 503
            assert not is_ready(server)
        wait_until(lambda: "store_takes_no_writes" in events(server))
        assert not is_ready(server), "and stays so, though nobody publishes"
        (disk / "others").unlink()
        publish_again(server)
        wait_until(lambda: events(server).count("store_takes_writes") == 1)
        told = [event for event in events(server) if event.startswith("store_")]
        assert told == ["store_away", "store_takes_no_writes", "store_back", "store_takes_writes"]


def test_a_limit_of_files(tmp_path: Path) -> None:
    """As a quota: what is there may be written over, and nothing more."""
    with start_server(tmp_path) as server:
        publish_again(server)
        before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        size = (tmp_path / "tarry.db-wal").stat().st_size
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, before[1]))
        publish_until_refused(server)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)
        publish_again(server)


def test_tables_that_are_locked(mysql_dsn: str, tmp_path: Path) -> None:
    """A statement stands, or a COMMIT: it is told, here, in the log and to the alarm; and that it goes on."""
    with receiver() as hears, session_with(mysql_dsn) as admin:

        def heard() -> list[str]:
            return [json.loads(one.body)["event"] for one in hears.received]

        with start_server(tmp_path, mysql_dsn, {"TARRY_ALARM_URL": hears.url}) as server:
            publish_again(server)
            admin.execute("FLUSH TABLES WITH READ LOCK")
            for more in ({}, {"delay": "1h"}):  # as from callers who do not wait for an answer
                with suppress(httpx.TimeoutException):
                    publish(server, timeout=0.1, **more)
            wait_until(lambda: not is_ready(server), 20)
            assert "writes" in checks(server)
            wait_until(lambda: "store_takes_no_writes" in events(server) and "store_takes_no_writes" in heard())
            admin.execute("UNLOCK TABLES")
            publish_again(server)
            wait_until(lambda: "store_takes_writes" in events(server) and "store_takes_writes" in heard())


def test_a_trigger_that_refuses_all(mysql_dsn: str, tmp_path: Path) -> None:
    """Nobody's row is at fault: it is said, and what waits goes when it is put right."""
    with start_server(tmp_path, mysql_dsn) as server:
        publish_again(server)
        run_sql(mysql_dsn, "CREATE TRIGGER no BEFORE INSERT ON message FOR EACH ROW SIGNAL SQLSTATE '45000'")
        assert publish(server, delay="1s") == 201
        assert publish(server) == 503
        wait_until(lambda: "1644" in checks(server).get("writes", ""))
        wait_until(lambda: "promotion_failed" in events(server))
        assert not is_ready(server)
        run_sql(mysql_dsn, "DROP TRIGGER no")
        publish_again(server)
        counts = "SELECT (SELECT COUNT(*) FROM delay), (SELECT COUNT(*) FROM message)"
        wait_until(lambda: tuple(run_sql(mysql_dsn, counts)[0]) == (2, 3))  # two wait for an hour
        assert "rows_set_aside" not in events(server)
