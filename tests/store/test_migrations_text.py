"""Migrations as text: numbered, cut at semicolons, compared by checksum. No database."""

import re
from typing import Literal

import pytest

from support.generations import adding, taking_away
from tarry.store.errors import SchemaError
from tarry.store.migrations import FIRST, Applied, Migration, load_migrations, pending

ONE, TWO, THREE = (Migration(n, f"m{n}", f"CREATE TABLE t{n} (x INT);\n") for n in (1, 2, 3))


def test_nothing_applied() -> None:
    assert pending([ONE, TWO], Applied({}, {})) == [ONE, TWO]


def test_some_applied() -> None:
    assert pending([ONE, TWO, THREE], Applied({1: ONE.checksum}, {})) == [TWO, THREE]
    assert pending([ONE, TWO], Applied({1: ONE.checksum, 2: TWO.checksum}, {})) == []
    assert pending([ONE, TWO], Applied({1: ONE.checksum}, {2: TWO.checksum})) == []


def test_one_left_out() -> None:
    """A branch merged late: what is missing is applied."""
    assert pending([ONE, TWO, THREE], Applied({1: ONE.checksum, 3: THREE.checksum}, {})) == [TWO]


def test_older_than_the_first() -> None:
    for applied in (Applied({1: b""}, {}), Applied({}, {1: b""}), Applied({1: b"", 2: b"", 9: b""}, {})):
        with pytest.raises(SchemaError, match=r"before the first release of Tarry.*give Tarry a new database"):
            pending([TWO, THREE], applied)


def test_newer_than_the_program() -> None:
    with pytest.raises(SchemaError, match=r"version 3, newer than this program, which knows 2: install"):
        pending([ONE, TWO], Applied({1: ONE.checksum, 3: THREE.checksum}, {}))


def test_newer_and_an_older_program_may_be_beside_it() -> None:
    assert pending([ONE, TWO], Applied({1: ONE.checksum}, {2: TWO.checksum, 3: THREE.checksum})) == []
    assert pending([ONE, TWO], Applied({1: ONE.checksum}, {3: THREE.checksum})) == [TWO]


@pytest.mark.parametrize("beside", [False, True])
def test_changed_after_it_was_applied(beside: bool) -> None:
    needed, others = {1: ONE.checksum}, {2: bytes(32)}
    with pytest.raises(SchemaError, match=r"0002 \(m2\) was changed"):
        pending([ONE, TWO], Applied(needed, others) if beside else Applied(needed | others, {}))


def test_who_may_be_beside_it() -> None:
    assert Migration(7, "m", "-- why\n-- beside: 5\n\nCREATE TABLE a (x INT);\n").beside == 5
    assert Migration(7, "m", "-- why, beside: 5\n\nCREATE TABLE a (x INT);\n").beside == 7


@pytest.mark.parametrize("kind", ["mysql", "sqlite"])
def test_each_says_who_may_be_beside_it(kind: Literal["mysql", "sqlite"]) -> None:
    for migration in load_migrations(kind):
        said = re.findall(r"^-- beside: (\d+)$", migration.text, re.MULTILINE)
        assert len(said) == (migration.version > FIRST), f"{migration.version:04}: see CONTRIBUTING.md"
        assert 0 < migration.beside <= migration.version
    mine, theirs = load_migrations("mysql"), load_migrations("sqlite")
    assert [m.beside for m in mine] == [m.beside for m in theirs]


def test_what_older_servers_are_beside_only_adds() -> None:
    """What they write still fits, and what they read is still there."""
    adds = re.compile(
        r"CREATE (TABLE|INDEX) |INSERT IGNORE "
        r"|ALTER TABLE `?\w+`? ADD (COLUMN `?\w+`? (?!.*\bNOT NULL\b(?!.*\bDEFAULT\b))|(KEY|INDEX) )"
    )
    for migration in (*load_migrations("mysql"), adding("mysql")):
        if migration.beside < migration.version:
            assert [s for s in migration.statements if not adds.match(s)] == []
    assert [s for s in taking_away().statements if not adds.match(s)] != []


def test_a_checksum_is_of_every_byte() -> None:
    assert len({ONE.checksum, TWO.checksum, Migration(1, "m1", ONE.text + " ").checksum}) == 3
    assert len(ONE.checksum) == 32


def test_statements_end_at_a_semicolon_at_the_end_of_a_line() -> None:
    text = (
        "-- remark; with one\nCREATE TABLE a (\n  x INT COMMENT 'a;b' -- no\n);\n\n"
        "-- more\nINSERT INTO a VALUES (1);  \nSELECT 1"
    )
    assert Migration(1, "m", text).statements == [
        "CREATE TABLE a (\n  x INT COMMENT 'a;b' -- no\n)",
        "INSERT INTO a VALUES (1)",
        "SELECT 1",
    ]


def test_both_backends_have_the_same_steps() -> None:
    mine, theirs = load_migrations("mysql"), load_migrations("sqlite")
    assert [(m.version, m.name) for m in mine] == [(m.version, m.name) for m in theirs]
    assert [m.version for m in mine] == list(range(FIRST, FIRST + len(mine)))


def test_mysql_statements_may_be_run_again() -> None:
    """MySQL commits each by itself, so an interrupted migration is run again from its beginning."""
    for migration in load_migrations("mysql"):
        for statement in migration.statements:
            if statement.startswith("CREATE"):
                assert "IF NOT EXISTS" in statement


def test_house_rules_of_mysql_tables() -> None:
    for migration in load_migrations("mysql"):
        for statement in migration.statements:
            assert not re.search(r"FOREIGN KEY|\bTIMESTAMP\b|\bVARCHAR\b|\bTEXT\b|\bJSON NOT\b|\bENUM\b", statement)
            for index in re.findall(r"KEY (\w+) \(", statement):
                assert re.match(r"(idx|udx)_[a-z_]+$", index) or index == "PRIMARY"
            if statement.startswith("CREATE TABLE"):
                assert "ENGINE=InnoDB COMMENT=" in statement
                assert "PRIMARY KEY" in statement
