"""Imports as real processes that are killed, or lose the database: run again, every row is there once."""

import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pymysql
import pytest

from support import archiver
from support.gate import Gate
from support.server import client_of, start_server
from support.stores import MySQLTables, store_with
from tarry.client import Tarry
from tarry.store.catalogue import TopicDraft

pytestmark = pytest.mark.long

LATER = "2033-01-01T00:00:00Z"
ROWS = 24_000
SLOWLY = "8000"
"""Rows a second: so that it is in the middle for a while, on any machine."""
TRY_AGAIN = 75
INTERRUPTED = 130


@pytest.fixture
def store(mysql_server: str) -> Iterator[str]:
    """The DSN of a database with the topic `rows`."""
    with store_with(mysql_server, TopicDraft("rows", queues=3)) as dsn:
        yield dsn


@pytest.fixture
def tables(store: str) -> Iterator[MySQLTables]:
    tables = MySQLTables(store)
    yield tables
    tables.close()


def write_rows(folder: Path, rows: int, seed: int) -> Path:
    """In four files, so that there are tasks; in another order for another seed. Some rows are equal."""
    folder.mkdir(exist_ok=True)
    numbers = list(range(rows))
    random.Random(seed).shuffle(numbers)  # an order, no secret
    for part in range(4):
        text = "".join(json.dumps({"n": n // 2 if n < 100 else n, "at": LATER}) + "\n" for n in numbers[part::4])
        (folder / f"part-{part}.ndjson").write_text(text)
    return folder


def expected(rows: int) -> list[int]:
    return sorted(n // 2 if n < 100 else n for n in range(rows))


def numbers(tables: MySQLTables) -> list[int]:
    """What is there, and as many as the topic's counters say."""
    ((counted,),) = tables.rows("SELECT SUM(scheduled) FROM tally")
    assert counted == count(tables)
    return sorted(json.loads(body)["n"] for (body,) in tables.rows("SELECT body FROM delay"))


def arguments(folder: Path, *rest: str) -> list[str]:
    files = [str(file) for file in sorted(folder.glob("*.ndjson"))]
    mapping = ["--topic", "rows", "--deliver-at", "at", "--name", "rows"]
    return ["import", *files, *mapping, "--master", "local[2]", "--json", *rest]


def count(tables: MySQLTables) -> int:
    ((found,),) = tables.rows("SELECT COUNT(*) FROM delay")
    return int(found)


def killed_in_the_middle(command: list[str], progress: Callable[[], int], most: int, choice: random.Random) -> bool:
    """Runs it, and kills it at a random moment after its first rows; whether it was killed."""
    before = progress()
    goal = before + choice.randrange(1, most)
    with archiver.started(*command) as process:
        deadline = time.monotonic() + 120
        while progress() < goal and process.poll() is None:
            assert time.monotonic() < deadline, "nothing comes"
            time.sleep(choice.random() * 0.05)
        killed = process.poll() is None
        if killed and choice.random() < 0.5:
            process.kill()  # its driver alone: Java and the workers may be at work for a moment still
            process.wait()
        return killed


def test_killed_at_random_moments_every_row_is_in_mysql_once(store: str, tables: MySQLTables, tmp_path: Path) -> None:
    choice = random.Random(7)  # moments, no secrets
    kills = 0
    for attempt in range(3):
        command = arguments(write_rows(tmp_path / "rows", ROWS, attempt), "--dsn", store, "--rate", SLOWLY)
        kills += killed_in_the_middle(command, lambda: count(tables), ROWS // 5, choice)
    assert kills == 3
    assert 0 < count(tables) < ROWS, "it was in the middle"
    last = archiver.run(*arguments(write_rows(tmp_path / "rows", ROWS, 99), "--dsn", store))
    assert last.returncode == 0, last.stderr
    told = json.loads(last.stdout)
    assert told["skipped"] > 0
    assert (told["imported"] + told["skipped"], told["bad"]) == (ROWS, 0)
    assert numbers(tables) == expected(ROWS)


def test_a_ctrl_c_is_one_line_and_the_next_run_completes(store: str, tables: MySQLTables, tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "rows", ROWS, 1)
    with archiver.started(*arguments(folder, "--dsn", store, "--rate", SLOWLY)) as process:
        archiver.wait_for(lambda: count(tables) > 0, process)
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=60)
    assert (process.returncode, out) == (INTERRUPTED, "")
    assert told.endswith("tarry pipeline: interrupted\n")
    assert "tarry/" not in told, "no traceback of ours"
    assert 0 < count(tables) < ROWS
    last = archiver.run(*arguments(write_rows(folder, ROWS, 2), "--dsn", store))
    assert last.returncode == 0, last.stderr
    assert numbers(tables) == expected(ROWS)


def test_killed_at_random_moments_every_row_is_in_the_embedded_store_once(tmp_path: Path) -> None:
    rows = 4000
    choice = random.Random(8)  # moments, no secrets
    with start_server(tmp_path) as server, client_of(server) as tarry:
        tarry.put_topic("rows", queues=2)
        kills = 0
        for attempt in range(2):
            folder = write_rows(tmp_path / "rows", rows, attempt)
            command = arguments(folder, "--server", server.url, "--key", "n", "--rate", "1000")
            kills += killed_in_the_middle(command, lambda: waiting(tarry), rows // 3, choice)
        assert kills >= 1
        last = archiver.run(*arguments(write_rows(tmp_path / "rows", rows, 99), "--server", server.url, "--key", "n"))
        assert last.returncode == 0, last.stderr
        told = json.loads(last.stdout)
        assert told["skipped"] > 0
        assert told["imported"] + told["skipped"] == rows
        assert waiting(tarry) == rows
        assert sorted(int(found["key"]) for found in tarry.find("rows", state="scheduled")) == expected(rows)


def waiting(tarry: Tarry) -> int:
    return int(tarry.topic("rows")["pending"])


@pytest.fixture
def gate(store: str) -> Iterator[Gate]:
    gate = Gate.before(store)
    yield gate
    gate.close()


def test_when_the_database_goes_away_it_says_so_and_the_next_run_completes(
    store: str, tables: MySQLTables, gate: Gate, tmp_path: Path
) -> None:
    folder = write_rows(tmp_path / "rows", ROWS, 1)
    with archiver.started(*arguments(folder, "--dsn", gate.through(store), "--rate", SLOWLY)) as process:
        archiver.wait_for(lambda: count(tables) > 0, process)
        gate.shut()
        out, told = process.communicate(timeout=240)
    assert process.returncode == TRY_AGAIN, told
    assert told.splitlines()[-1].startswith("tarry pipeline: "), told
    assert not out, "no summary of what was not done"
    assert 0 < count(tables) < ROWS
    gate.open()
    last = archiver.run(*arguments(write_rows(folder, ROWS, 2), "--dsn", gate.through(store)))
    assert last.returncode == 0, last.stderr
    summary = json.loads(last.stdout)
    assert summary["skipped"] > 0
    assert summary["imported"] + summary["skipped"] == ROWS
    assert numbers(tables) == expected(ROWS)


def test_when_its_connections_are_killed_it_goes_on_by_itself(store: str, tables: MySQLTables, tmp_path: Path) -> None:
    database_name = urlsplit(store).path[1:]
    folder = write_rows(tmp_path / "rows", ROWS, 1)
    kills = 0
    with archiver.started(*arguments(folder, "--dsn", store, "--rate", SLOWLY)) as process:
        archiver.wait_for(lambda: count(tables) > 0, process)
        while process.poll() is None and kills < 6:
            others = tables.rows(
                "SELECT id FROM information_schema.processlist "
                f"WHERE db = '{database_name}' AND id <> CONNECTION_ID() AND time < 60"
            )
            for (connection,) in others:
                try:
                    tables.rows(f"KILL CONNECTION {connection}")
                except pymysql.err.MySQLError:
                    continue  # it went by itself
                kills += 1
            time.sleep(0.2)
        out, told = process.communicate(timeout=240)
    assert kills > 0
    assert process.returncode == 0, told
    summary = json.loads(out)
    assert (summary["imported"], summary["skipped"]) == (ROWS, 0)
    assert numbers(tables) == expected(ROWS)
