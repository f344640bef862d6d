"""Checkpoints: the log stays short, whoever has to see to it, and whatever happens to the thread that does."""

import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from tarry.store.ports import Transaction
from tarry.store.sqlite import checkpoints
from tarry.store.sqlite.backend import SQLiteBackend
from tarry.store.sqlite.log import Log

PASS, LONG, LITTLE = 1 << 16, 1 << 18, 1 << 15
BODY = b"x" * 16_000


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checkpoints, "_PASS", PASS)
    monkeypatch.setattr(checkpoints, "_LONG", LONG)
    monkeypatch.setattr(checkpoints, "_LITTLE", LITTLE)
    return tmp_path / "tarry.db"


@pytest.fixture
async def backend(path: Path) -> AsyncIterator[SQLiteBackend]:
    backend = SQLiteBackend(path)
    await backend.migrate()
    yield backend
    await backend.aclose()


def end_thread(keeper: checkpoints.Checkpoints) -> None:
    """From here on the test makes the passes."""
    keeper._closed = True
    keeper._wanted.set()
    keeper._thread.join()
    keeper._wanted.clear()


async def write(backend: SQLiteBackend, number: int) -> None:
    async def add(tx: Transaction) -> None:
        row = (1, number, number, 0, 1, 1, BODY, 0, 0)
        await tx.execute_many("delay.add_bare", [row])

    await backend.write(add)


def file(path: Path) -> int:
    """Bytes of the log's file, in use or not."""
    return Path(f"{path}-wal").stat().st_size


def read(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as file:
        return [id_ for (id_,) in file.execute("SELECT id FROM delay WHERE body = ? ORDER BY id", (BODY,))]


async def test_a_log_that_is_written_without_a_rest_stays_short(path: Path, backend: SQLiteBackend) -> None:
    longest = 0
    for number in range(400):
        await write(backend, number)
        longest = max(longest, file(path))
    # What was committed while a pass copied counts as copied with it: the writer's copy is then left out, and the next
    # is due a pass later, a quarter of LONG. On a busy machine that happens a few times in a row.
    assert longest <= 5 * LONG, "in all 10 MB were written"
    assert read(path) == list(range(400))


async def test_what_rests_between_is_copied_beside_the_writer(
    path: Path, backend: SQLiteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is told of each commit, and rests until the pass is over that it may have asked for."""
    log = Log(path)
    told, helped = threading.Semaphore(0), list[int]()
    keeper, real = backend._writer._checkpoints, checkpoints.Checkpoints._copy
    end_thread(keeper)

    def copy(self: checkpoints.Checkpoints, connection: sqlite3.Connection) -> None:
        if connection is self._writer:
            helped.append(number)
        real(self, connection)

    def committed(*, waited_for: bool) -> None:
        commit(waited_for=waited_for)
        if keeper._wanted.is_set():
            keeper._wanted.clear()
            keeper._pass()
        told.release()

    commit = keeper.committed
    monkeypatch.setattr(checkpoints.Checkpoints, "_copy", copy)
    monkeypatch.setattr(keeper, "committed", committed)
    longest = 0
    for number in range(100):
        await write(backend, number)
        await trio.to_thread.run_sync(told.acquire)
        longest = max(longest, log.size()) if number > 10 else 0  # not what the migrations left
    assert [one for one in helped if one > 10] == []
    log.close()
    assert longest <= PASS + 4 * len(BODY)


async def test_no_commit_cuts_a_log_that_begins_anew(path: Path, backend: SQLiteBackend) -> None:
    """It would take milliseconds. A log that is longer than it ever should be is cut."""
    keeper, sizes, log = backend._writer._checkpoints, list[int](), Log(path)
    end_thread(keeper)
    for number in range(20):
        await write(backend, number)
        sizes.append(file(path))
        if number % 5 == 4:
            keeper._copy(keeper._connection)
    assert sizes == sorted(sizes)
    assert log.size() < sizes[-1], "it did begin anew"
    log.close()


async def test_where_no_pass_comes_the_writer_sees_to_it(
    path: Path, backend: SQLiteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = checkpoints.Checkpoints._copy

    def copy(self: checkpoints.Checkpoints, connection: sqlite3.Connection) -> None:
        if connection is self._writer:
            real(self, connection)

    monkeypatch.setattr(checkpoints.Checkpoints, "_copy", copy)
    for number in range(200):
        await write(backend, number)
    assert file(path) <= 3 * LONG
    assert read(path) == list(range(200))


async def test_a_reader_in_between_keeps_what_it_sees(path: Path, backend: SQLiteBackend) -> None:
    await write(backend, 0)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        seen = reader.execute("SELECT COUNT(*) FROM delay").fetchall()
        for number in range(1, 150):
            await write(backend, number)
        assert reader.execute("SELECT COUNT(*) FROM delay").fetchall() == seen == [(1,)]
        reader.execute("COMMIT")
    for number in range(150, 300):
        await write(backend, number)
    assert file(path) <= 3 * LONG, "once it is gone the log begins anew"
    assert read(path) == list(range(300))


async def test_no_copy_begins_of_a_log_of_which_all_is_copied(path: Path, backend: SQLiteBackend) -> None:
    """There a transaction may begin the log anew meanwhile, and SQLite up to 3.51.2 loses what it writes."""
    keeper, copies = backend._writer._checkpoints, list[str]()
    end_thread(keeper)
    keeper._copy(keeper._connection)  # what the migrations left
    keeper._connection.set_trace_callback(copies.append)
    for number in range(30):
        await write(backend, number)
        if number % 10 == 9:
            await backend.write(nothing)  # the writer has been told of the one before
            for _ in range(3):
                keeper._copy(keeper._connection)
    assert len(copies) == 3, "one for each that has something to copy"
    keeper._pass()
    assert len(copies) == 3
    assert read(path) == list(range(30))


async def test_what_was_copied_before_the_writer_has_heard_of_it_is_not_copied_again(
    path: Path, backend: SQLiteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass between the commit that begins the log anew and the writer's look at it."""
    keeper, copies = backend._writer._checkpoints, list[str]()
    end_thread(keeper)
    await write(backend, 0)
    keeper._copy(keeper._connection)
    keeper._connection.set_trace_callback(copies.append)
    real = keeper.committed

    def committed(*, waited_for: bool) -> None:
        keeper._pass()
        real(waited_for=waited_for)

    monkeypatch.setattr(keeper, "committed", committed)
    await backend.write(many)
    await backend.write(nothing)  # the writer has been told of the one before
    assert keeper._log.exceeds(PASS)
    assert keeper._wanted.is_set()
    keeper._pass()
    assert len(copies) == 1


async def test_a_pass_that_wanted_help_is_forgotten_with_its_log(
    path: Path, backend: SQLiteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, copies = backend._writer._checkpoints, list[str]()
    end_thread(keeper)
    keeper._copy(keeper._connection)
    await write(backend, 0)
    await backend.write(nothing)
    keeper._help = True  # heard late
    keeper._writer.set_trace_callback(copies.append)
    await write(backend, 1)
    await backend.write(nothing)
    assert not [one for one in copies if "checkpoint" in one]
    assert not keeper._help


async def many(tx: Transaction) -> None:
    """More than a pass leaves, in one transaction."""
    await tx.execute_many("delay.add_bare", [(1, number, number, 0, 1, 1, BODY, 0, 0) for number in range(100, 130)])


async def nothing(_: Transaction) -> None:
    """Work that writes nothing."""
