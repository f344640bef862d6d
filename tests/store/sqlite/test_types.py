"""What columns take of somebody's own SQL, and what becomes of files whose columns took anything."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tarry.store.migrations import Migration, load_migrations
from tarry.store.sqlite import schema
from tarry.store.sqlite.connection import connect
from tarry.store.sqlite.schema import migrate

DELAY = (
    "INSERT INTO delay (shard, id, due, nonce, topic_id, queue_id, `key`, body, accepted_at, deliver_at) "
    "VALUES ({shard}, {id}, {due}, 0, 1, 1, {key}, {body}, 5, 5)"
)
GOOD = {"shard": "3", "id": "19", "due": "5", "key": "'k'", "body": "X'31'"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tarry.db"
    with closing(connect(path)) as connection:
        migrate(connection)
    return path


@pytest.fixture
def theirs(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def as_before(path: Path) -> None:
    """Columns take anything, as those of files that were made before they did not."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for name, text in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall():
            bare = re.sub(r", CHECK \(typeof\(`\w+`\) IN \([^)]*\)\)", "", text)
            assert "CHECK" not in bare
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (bare, name))


def test_every_column_takes_its_type_alone(theirs: sqlite3.Connection) -> None:
    ours = {name for one in load_migrations("sqlite") for name in re.findall(r"CREATE TABLE `?(\w+)", one.text)}
    assert len(ours) > 40
    for table in ours:
        columns = theirs.execute(f"PRAGMA table_info(`{table}`)").fetchall()
        names = ", ".join(f"`{name}`" for _, name, *_ in columns)
        for wrong, (_, name, kind, *_) in enumerate(columns):
            for value in ("'x'", "X'78'", "1.5", "-9223372036854775808.0") if kind == "INTEGER" else ("7", "1.5"):
                values = [("7" if one[2] == "INTEGER" else "X'37'") for one in columns]
                values[wrong] = value
                with pytest.raises(sqlite3.IntegrityError, match=rf"`{name}`|datatype mismatch"):
                    theirs.execute(f"INSERT INTO `{table}` ({names}) VALUES ({', '.join(values)})")


@pytest.mark.parametrize("more", [{}, {"due": "'5'"}, {"due": "5.0"}, {"body": "'1'"}, {"key": "NULL"}])
def test_what_is_as_good_as_its_type_is_taken(theirs: sqlite3.Connection, more: dict[str, str]) -> None:
    theirs.execute(DELAY.format(**(GOOD | more)))
    theirs.execute("UPDATE delay SET due = '6', body = 'x', tag = NULL")
    assert theirs.execute("SELECT due, body FROM delay").fetchall() == [(6, "x")]


def test_a_file_of_before_is_held_to_it_and_loses_nothing(path: Path, theirs: sqlite3.Connection) -> None:
    as_before(path)
    rows = (
        {"id": "35", "due": "'x'"},
        {"id": "51", "due": "1.5"},
        {"id": "67", "due": "X'35'", "key": "7", "body": "7"},
        {"id": "'x'", "due": "-7"},
        {"id": "'y'"},
        {"id": "X'7A'", "shard": "'x'"},
    )
    for row in ({}, *rows):
        theirs.execute(DELAY.format(**(GOOD | row)))
    theirs.execute("UPDATE delay SET expires_at = iif(id = 35, 'x', 7.5) WHERE id < 52")
    theirs.execute("CREATE TABLE theirs (x INTEGER)")
    theirs.execute("INSERT INTO theirs VALUES ('x')")
    names = "INSERT INTO topic (name, kind, ordered, sequencer, created_at) VALUES ({}, 0, 0, 0, 0)"
    for name in ("7", "X'37'", "'orders'"):
        theirs.execute(names.format(name))
    with closing(connect(path)) as connection, capture_logs() as lines:
        assert migrate(connection) == []
        assert migrate(connection) == []
    (line,) = lines
    assert line["event"] == "rows_put_right"
    assert "delay (3, 35): `due` was 'x'" in line["rows"]
    assert "delay (3, 67): `body` was 7" in line["rows"]
    assert theirs.execute("SELECT id, due, CAST(body AS TEXT) FROM delay WHERE id IN (19, 35, 51, 67)").fetchall() == [
        (19, 5, "1"),
        (35, 0, "1"),
        (51, 1, "1"),
        (67, 5, "7"),
    ]
    assert theirs.execute("SELECT expires_at FROM delay WHERE id IN (19, 35)").fetchall() == [(7,), (None,)]
    odd = theirs.execute("SELECT typeof(id), typeof(shard), due, id <= 0 FROM delay WHERE id NOT IN (19, 35, 51, 67)")
    assert sorted(odd.fetchall()) == [("integer", "integer", -7, 1), *[("integer", "integer", 5, 1)] * 2]
    found = theirs.execute("SELECT typeof(name), CAST(name AS TEXT) FROM topic ORDER BY id").fetchall()
    assert [(kind, name[:1]) for kind, name in found] == [("blob", "7"), ("blob", "7"), ("text", "o")]
    assert theirs.execute("SELECT x FROM theirs").fetchall() == [("x",)]
    assert theirs.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with pytest.raises(sqlite3.IntegrityError):
        theirs.execute("UPDATE delay SET due = 'x'")


def test_a_later_migration_may_drop_a_column_and_add_one(
    path: Path, theirs: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "ALTER TABLE delay DROP COLUMN tag;\nALTER TABLE delay ADD COLUMN more INTEGER NOT NULL DEFAULT 5;\n"
    known = [*load_migrations("sqlite"), Migration(9001, "one", text)]
    monkeypatch.setattr(schema, "load_migrations", lambda _: known)
    theirs.execute(DELAY.format(**GOOD))
    with closing(connect(path)) as connection:
        assert migrate(connection) == ["9001 one"]
    for column in ("due", "more"):
        with pytest.raises(sqlite3.IntegrityError, match=f"`{column}`"):
            theirs.execute(f"UPDATE delay SET {column} = 1.5")
    assert theirs.execute("SELECT more FROM delay").fetchall() == [(5,)]


def test_columns_of_others_in_our_tables_are_theirs(path: Path, theirs: sqlite3.Connection) -> None:
    for column in ("price REAL", "seen BOOLEAN", "anything"):
        theirs.execute(f"ALTER TABLE delay ADD COLUMN {column}")
    theirs.execute(DELAY.format(**GOOD))
    theirs.execute("UPDATE delay SET price = 1.5, seen = 1, anything = 'x'")
    with closing(connect(path)) as connection, capture_logs() as lines:
        migrate(connection)
    assert lines == []
    assert theirs.execute("SELECT price, seen, anything FROM delay").fetchall() == [(1.5, 1, "x")]
    theirs.execute("UPDATE delay SET price = 2.5, anything = 7")


def test_a_text_of_no_encoding_is_put_right_as_any(path: Path, theirs: sqlite3.Connection) -> None:
    as_before(path)
    theirs.execute(DELAY.format(**(GOOD | {"due": "CAST(X'ff61' AS TEXT)"})))
    with closing(connect(path)) as connection, capture_logs() as lines:
        migrate(connection)
    assert lines[0]["rows"] == ["delay (3, 19): `due` was '\ufffda'"]
    assert theirs.execute("SELECT due FROM delay").fetchall() == [(0,)]
