"""The log's size: what is in use of it, as SQLite itself counts it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tarry.store.sqlite.log import Log

HEADER, FRAME_HEADER = 32, 24


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.db"


@pytest.fixture(params=[512, 4096, 65536], ids="pages of {}".format)
def db(path: Path, request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"PRAGMA page_size = {request.param}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("CREATE TABLE t (b BLOB)")
        yield db


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    log = Log(path)
    yield log
    log.close()


def write(db: sqlite3.Connection, rows: int) -> None:
    for _ in range(rows):
        db.execute("INSERT INTO t VALUES (zeroblob(3000))")


def copied(db: sqlite3.Connection) -> int:
    """Copies all of it into the file, and returns how many bytes of frames there were."""
    ((busy, frames, done),) = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    ((page,),) = db.execute("PRAGMA page_size").fetchall()
    assert (busy, done) == (0, frames)
    size: int = frames * (FRAME_HEADER + page)
    return size


def test_it_is_what_sqlite_counts(db: sqlite3.Connection, log: Log) -> None:
    for rows in (1, 2, 5, 30):
        write(db, rows)
        size = log.size()
        assert size == HEADER + copied(db)


def test_an_extent_is_of_one_beginning(db: sqlite3.Connection, log: Log) -> None:
    write(db, 5)
    before = log.extent()
    copied(db)
    assert log.extent() == before
    write(db, 20)  # anew
    longer = log.extent()
    assert longer.size > before.size
    assert not longer.reaches(before)
    write(db, 1)
    assert log.extent().reaches(longer)
    assert not longer.reaches(log.extent())


def test_whether_it_is_longer_than_something(path: Path, db: sqlite3.Connection, log: Log) -> None:
    """Also where the file holds more than the log that began anew in it."""
    for rows in (20, 1, 3, 20, 40):
        write(db, rows)
        size = log.size()
        frame = FRAME_HEADER + int(db.execute("PRAGMA page_size").fetchone()[0])
        assert [log.exceeds(other) for other in (HEADER, size - frame, size - 1, size, size + 1, size + 9 * frame)] == [
            True, True, True, False, False, False
        ]  # fmt: skip
        copied(db)


def test_of_a_log_that_began_anew_what_came_since(path: Path, db: sqlite3.Connection, log: Log) -> None:
    sizes: list[int] = []
    for rows in (20, 10, 1, 3, 7):
        write(db, 1)
        assert log.began_anew()
        write(db, rows)
        sizes.append(log.size())
        assert not log.began_anew()
        assert sizes[-1] == HEADER + copied(db)
    assert max(sizes[1:]) < sizes[0] <= Path(f"{path}-wal").stat().st_size


def test_what_is_copied_counts_until_it_begins_anew(db: sqlite3.Connection, log: Log) -> None:
    write(db, 10)
    before = log.size()
    copied(db)
    assert log.size() == before


def test_no_log_has_no_size(path: Path) -> None:
    assert Log(path).size() == 0
    assert not Log(path).exceeds(HEADER)
    assert not Log(path).began_anew()


def test_nor_has_an_empty_or_a_broken_one(path: Path) -> None:
    for content in (b"", b"x" * 10, b"x" * 32, b"\0" * 500):
        Path(f"{path}-wal").write_bytes(content)
        log = Log(path)
        assert log.size() == 0
        assert not log.exceeds(HEADER)
        log.close()
