"""Jobs whose Java, whose Python workers or whose own process are killed in the middle: one sentence, nothing left.

The job is held where its tasks read the messages: another session has locked their table.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support import archiver
from support.processes import below, is_there
from support.stores import Kind, Stage, connect_raw

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def kind() -> Kind:
    return "mariadb"


@contextmanager
def _held_audit(stage: Stage) -> Iterator["subprocess.Popen[str]"]:
    """An audit whose tasks wait for the messages."""
    connection = connect_raw(stage.dsn)
    try:
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLES message WRITE")
        options = ("--dsn", stage.dsn, "--master", "local[1]", "--to", "2100-01-01T00:00:00Z")
        with archiver.started("audit", *options) as process:
            archiver.wait_for(lambda: _waits(stage), process, 300)
            yield process
    finally:
        connection.close()


def _waits(stage: Stage) -> bool:
    rows = stage.tables.rows(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
    )
    return bool(rows[0][0])


def _java(process: "subprocess.Popen[str]") -> int:
    (java,) = (pid for pid, command in below(process.pid) if "org.apache.spark" in command)
    return java


def _gone(pid: int, seconds: float = 60) -> bool:
    """Polls, as nothing tells whose child it is not."""
    deadline = time.monotonic() + seconds
    while is_there(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_there(pid)


async def _filled(stage: Stage) -> None:
    await stage.publish(stage.draft(await stage.topic("orders")))


def _told(process: "subprocess.Popen[str]") -> str:
    """The one sentence on stderr."""
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, ""), errors
    assert errors.startswith("tarry pipeline: "), errors
    assert errors.count("\n") == 1, errors
    return errors


async def test_a_worker_is_killed(stage: Stage) -> None:
    await _filled(stage)
    with _held_audit(stage) as process:
        workers = [pid for pid, command in below(_java(process)) if "pyspark" in command]
        assert workers
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        assert "a Python worker of Spark's was killed" in _told(process)


async def test_java_is_killed(stage: Stage) -> None:
    await _filled(stage)
    with _held_audit(stage) as process:
        os.kill(_java(process), signal.SIGKILL)
        assert "Java, in which Spark runs, was killed (SIGKILL)" in _told(process)


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
async def test_the_driver_is_killed(stage: Stage, *, stopped: bool) -> None:
    """Java does not outlive it, though it may not be able to leave by itself."""
    await _filled(stage)
    with _held_audit(stage) as process:
        java = _java(process)
        if stopped:
            os.kill(java, signal.SIGSTOP)
        try:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            assert _gone(java), "Java is still there"
        finally:
            if is_there(java):
                os.kill(java, signal.SIGKILL)
