"""The .sql files: every query has a name and a sentence, is asked somewhere, and reads on both backends."""

import ast
import re
import sqlite3
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import attrs
import pytest

from tarry.store.content import Content
from tarry.store.migrations import load_migrations
from tarry.store.mysql import statements as mysql_statements
from tarry.store.queries import load_queries
from tarry.store.rows import columns_of
from tarry.store.sqlite import statements as sqlite_statements

ROOM = Path(str(files("tarry.store")))
NAMES = sorted(load_queries())
_TABLES = re.compile(r"\b(?:FROM|INTO|JOIN|(?<!KEY )UPDATE)\s+`?[a-z]\w*`?")


def test_they_are_loaded_once_and_cannot_be_changed() -> None:
    assert isinstance(load_queries(), MappingProxyType)
    assert load_queries() is load_queries()
    assert len(NAMES) > 50


@pytest.mark.parametrize("path", sorted((ROOM / "sql").iterdir()), ids=lambda path: path.stem)
def test_each_has_a_name_and_a_sentence(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith("-- name: ")
    for part in text.split("-- name: ")[1:]:
        name, sentence, *_ = part.splitlines()
        assert f"{path.stem}.{name}" in NAMES
        assert re.fullmatch(r"-- [A-Z].*", sentence), part
        assert part.rstrip().endswith(";")
        assert part.count(";") - sum(line.count(";") for line in part.splitlines() if line.startswith("--")) == 1


def test_no_name_is_given_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second would be asked in place of the first."""
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "queue.sql").write_text("-- name: ends\n-- A.\nSELECT 1;\n\n-- name: ends\n-- B.\nSELECT 2;\n")
    monkeypatch.setattr("tarry.store.queries.files", lambda _: tmp_path)
    with pytest.raises(ValueError, match=r"queue\.sql has two queries with the name ends"):
        load_queries.__wrapped__()


def test_each_is_asked_somewhere() -> None:
    """By the store, by the pipeline's tasks, which may not load it, or by a test."""
    rooms = (ROOM, Path(str(files("tarry.pipeline"))), Path(__file__).parent.parent)
    asked = "".join(path.read_text("utf-8") for room in rooms for path in room.rglob("*.py"))
    assert [name for name in NAMES if f'"{name}"' not in asked] == []


@pytest.fixture(scope="module")
def schema() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    for migration in load_migrations("sqlite"):
        for statement in migration.statements:
            connection.execute(statement)
    connection.commit()
    yield connection
    connection.close()


@pytest.fixture
def database(schema: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """With tables and what they begin with."""
    yield schema
    schema.rollback()


def _columns(text: str) -> int:
    """Of the rows that it inserts."""
    return text.partition("VALUES")[0].rpartition("(")[2].count(",") + 1


def _asked(text: str) -> list[Any]:
    """Something for each of its holes."""
    some: list[Any] = [(1, b"k", 2)] * 2 if "`key`, id) IN" in text else [1, 2]
    if "(topic_id, hour) IN" in text:
        some = [(1, 2)] * 2
    if "(topic_id, `key`) IN" in text:
        some = [(1, b"k")] * 2
    if match := re.search(r"\(([^()]+)\) WITHIN", text):
        some = [(1,) * (match[1].count(",") + 2)] * 2
    return [some if hole == "(?*)" else 1 for hole in re.findall(r"\(\?\*\)|\?", text)]


def _bound(name: str) -> tuple[str, list[Any]]:
    text = load_queries()[name]
    if "VALUES ?" in text:
        return sqlite_statements.insert(name, _columns(text)), [1] * _columns(text)
    return sqlite_statements.bind(name, _asked(text))


@pytest.mark.parametrize("name", NAMES)
def test_sqlite_reads_it(name: str, database: sqlite3.Connection) -> None:
    text, values = _bound(name)
    database.execute("EXPLAIN " + text, values)


def _wishes() -> list[tuple[str, Any]]:
    """Every query that is asked for rows, and what these are to be, from the calls in the store and the pipeline."""
    wishes: set[tuple[str, Any]] = set()
    for path in (*ROOM.rglob("*.py"), *(ROOM.parent / "pipeline" / "sending").rglob("*.py")):
        if ".fetch(" not in path.read_text("utf-8") and "Asked(" not in path.read_text("utf-8"):
            continue
        module = import_module(".".join(["tarry", *path.relative_to(ROOM.parent).with_suffix("").parts]))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or len(node.args) < 2 or isinstance(node.args[1], ast.Starred):
                continue
            constants = [one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant)]
            names = [name for name in constants if name in NAMES]
            if names and ast.unparse(node.func).endswith((".fetch", "Asked")):
                row = eval(ast.unparse(node.args[1]), vars(module))
                wishes |= {(name, row) for name in names}
    return sorted(wishes, key=str)


WISHES = _wishes()


def test_a_query_gives_the_same_to_everybody() -> None:
    names = [name for name, _ in WISHES]
    assert len(names) == len(set(names))
    pipeline = "".join(path.read_text("utf-8") for path in (ROOM.parent / "pipeline").rglob("*.py"))  # reads columns
    selects = {n for n in NAMES if load_queries()[n].startswith("SELECT") and f'"{n}"' not in pipeline}
    assert selects - {*names} == {"delay.count", "seek.of_group", "witness.past"}, "tests ask these, and the backend"


@pytest.mark.parametrize(("name", "row"), WISHES, ids=[name for name, _ in WISHES])
def test_a_row_has_the_columns_of_its_query(name: str, row: Any, database: sqlite3.Connection) -> None:
    text, values = _bound(name)
    given = [column[0] for column in database.execute(text, values).description]
    wanted = columns_of(row)
    if attrs.has(row):  # a column for each field, but for those that begin in memory
        assert all(f.default is not attrs.NOTHING for f in attrs.fields(row)[len(given) :])
        wanted = wanted[: len(given)]
    for place, (_, kind) in enumerate(wanted):
        if kind is Content:
            wanted[place : place + 1] = columns_of(Content)
    assert len(wanted) == len(given)
    for (field, kind), column in zip(wanted, given, strict=True):
        assert field in ("", column)
        types, null = _column(database, load_queries()[name], column)
        kinds = get_args(kind) or (kind,)
        assert null is None or (type(None) in kinds) is null, column
        assert all(one in types for one in kinds if one is not type(None)), column


def _column(database: sqlite3.Connection, text: str, column: str) -> tuple[tuple[type, ...], bool | None]:
    """What a column of this name may be read as, and whether it may be NULL; None: that cannot be told."""
    tables = {found.split()[1].strip("`") for found in _TABLES.findall(text)}
    declared = {
        (kind, not_null or in_key > 0)
        for table in tables
        for _, name, kind, not_null, _, in_key in database.execute(f"PRAGMA table_info({table})")
        if name == column
    }
    kinds: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "BLOB": (bytes, str, bytearray)}
    types = {one for kind, _ in declared for one in kinds[kind]} or {int}  # what is calculated is a number
    nulls = {not not_null for _, not_null in declared}
    return tuple(types), nulls.pop() if len(nulls) == 1 and "LEFT JOIN" not in text else None


@pytest.mark.parametrize("name", NAMES)
def test_mysql_binds_it(name: str) -> None:
    text = load_queries()[name]
    if "VALUES ?" in text:
        prepared, writers = mysql_statements.statement(name)
        (bound,) = prepared.bind_many([(1,) * _columns(text)] * 3, max_bytes=10_000)
        assert not writers
        assert bound.count(b"(1") == 3
    else:
        bound = mysql_statements.bind(name, _asked(text))
    assert b"?" not in bound


@pytest.mark.parametrize("name", NAMES)
def test_its_tables_may_be_named_with_their_database(name: str) -> None:
    text = mysql_statements.statement(name, "other")[0].sql
    before, after = (_TABLES.findall(t) for t in (text, load_queries()[name]))
    assert len(before) == len(after) > 0
    assert {one.split()[1] for one in before} == {"`other`"}


def test_ids_are_looked_up_under_their_shards_in_key_order() -> None:
    ids = [0x31, 0x12, 0x21, 0x02]
    asked = b"(shard = 1 AND id IN (33,49) OR shard = 2 AND id IN (2,18))"
    assert asked in mysql_statements.bind("retry.lock", [ids])
    text, values = sqlite_statements.bind("retry.lock", [ids])
    assert values == ["[49,18,33,2]"]
    assert "value & 15" in text


def test_moved_messages_are_looked_up_where_they_lie() -> None:
    places = [0x31, ~0x12, ~0x21, 0x02, ~0x02]
    here = "shard = 1 AND id IN (49) OR shard = 2 AND id IN (2)"
    asked = f"({here} OR shard = 17 AND id IN (33) OR shard = 18 AND id IN (2,18))".encode()
    assert asked in mysql_statements.bind("delay.lock", [places])
    both = mysql_statements.bind("delay.used", [places, [1], [2]])
    assert both.index(asked) < both.index(b"(shard = 1 AND id IN (1))") < both.rindex(b"id IN (2)")
    text, values = sqlite_statements.bind("delay.lock", [places])
    assert values == ["[49,-19,-34,2,-3]"]
    asked_there = text[text.index("(shard, id) IN (") + len("(shard, id) IN (") :].split(" FROM json_each(?)")[0]
    found = sqlite3.connect(":memory:").execute(f"{asked_there} FROM json_each(?)", values).fetchall()
    assert found == [(1, 49), (18, 18), (17, 33), (2, 2), (18, 2)]


def test_stretches_are_ranges_of_an_index() -> None:
    spans: list[Any] = [(1, 0, 9), (2, 5, 6)]
    asked = b"(queue_id = 1 AND `offset` >= 0 AND `offset` < 9 OR queue_id = 2 AND `offset` >= 5 AND `offset` < 6)"
    assert asked in mysql_statements.bind("message.ids_within", [spans])
    with pytest.raises(ValueError, match="leave the statement out"):
        mysql_statements.bind("message.ids_within", [[]])
    _, values = sqlite_statements.bind("message.ids_within", [spans])
    assert values == ["[[1,0,9],[2,5,6]]"]


def test_no_ids_are_no_question() -> None:
    with pytest.raises(ValueError, match="leave the statement out"):
        mysql_statements.bind("delay.remove", [[]])


def test_an_index_that_is_forced_is_forced_on_both() -> None:
    forced = {match for text in load_queries().values() for match in re.findall(r"FORCE INDEX \((\w+)\)", text)}
    hinted = {match for text in load_queries().values() for match in re.findall(r"INDEX\(\w+ (\w+)\)", text)}
    for migrations in (load_migrations("mysql"), load_migrations("sqlite")):
        schema = "\n".join(migration.text for migration in migrations)
        assert all(index == "PRIMARY" or index in schema for index in forced | hinted)
    text, _ = sqlite_statements.bind("claim.over", [1, 1])
    assert "INDEXED BY idx_claim_lease_until" in text


def test_the_tables_are_the_same_on_both() -> None:
    """Same tables, same columns in the same order: the queries are written once."""
    tables: list[dict[str, list[str]]] = []
    for migrations in (load_migrations("mysql"), load_migrations("sqlite")):
        found: dict[str, list[str]] = {}
        for migration in migrations:
            for statement in migration.statements:
                match = re.match(r"CREATE TABLE (?:IF NOT EXISTS )?`?(\w+)`? \((.*)\)", statement, re.DOTALL)
                if match:
                    lines = [line.strip() for line in match[2].splitlines()]
                    words = [line.split()[0].strip("`") for line in lines if line]
                    found[match[1]] = [w for w in words if w not in ("PRIMARY", "UNIQUE", "KEY")]
        tables.append(found)
    assert tables[0] == tables[1]


def test_the_indexes_are_the_same_on_both() -> None:
    mysql = {
        (match[0], re.sub(r"\W+", " ", match[1]).strip())
        for migration in load_migrations("mysql")
        for match in re.findall(r"KEY ((?:idx|udx)_\w+) \(([^)]*)\)", migration.text)
    }
    sqlite = {
        (match[0], re.sub(r"\W+", " ", match[1]).strip())
        for migration in load_migrations("sqlite")
        for match in re.findall(r"INDEX ((?:idx|udx)_\w+) ON \S+ \(([^)]*)\)", migration.text)
    }
    assert mysql == sqlite
