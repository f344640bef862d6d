import enum
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarry.store.errors import Refused
from tarry.store.mysql.connection import connect
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.literals import Statement

integers = st.integers(-(2**63), 2**64 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
scalars = st.none() | integers | numbers | st.binary(max_size=300) | texts


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(scalars, min_size=1, max_size=60))
def test_values_come_back_from_the_server_as_they_were(dsn: Dsn, values: list[Any]) -> None:
    async def round_trip() -> list[tuple[Any, ...]]:
        connection = await connect(dsn, write=False)
        try:
            return await connection.fetch(Statement("SELECT " + ",".join("?" * len(values))).bind(*values))
        finally:
            connection.close()

    ((*back,),) = trio.run(round_trip)
    assert back == values
    assert [type(value) for value in back] == [type(value) for value in values]


def test_how_each_type_is_written() -> None:
    class Color(enum.IntEnum):
        RED = 3

    assert Statement("?,?,?,?,?,?,?,?,?").bind(1, -2, None, True, False, b"", b"\x00'\\", "é", Color.RED) == (
        b"1,-2,NULL,1,0,x'',x'00275c',_utf8mb4 x'c3a9',3"
    )
    assert Statement("?,?,?").bind(0.5, 1e300, -2.0) == b"0.5e0,1e+300,-2.0e0"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_values_that_sql_has_no_word_for_are_refused(value: Any) -> None:
    with pytest.raises(Refused):
        Statement("?").bind(value)


@pytest.mark.parametrize("value", [object(), {1}, bytearray(b"x"), 1j])
def test_other_types_are_the_callers_mistake(value: Any) -> None:
    with pytest.raises(TypeError, match="no literal"):
        Statement("?").bind(value)


@pytest.mark.parametrize(
    ("sql", "bound"),
    [
        ("SELECT ?", b"SELECT 1"),
        ("SELECT '?', \"?\", `?`, ?", b"SELECT '?', \"?\", `?`, 1"),
        (r"SELECT 'it''s ?', 'a\'?', ?", rb"SELECT 'it''s ?', 'a\'?', 1"),
        ("SELECT /* ? */ ?", b"SELECT /* ? */ 1"),
        ("SELECT ? -- ?\n", b"SELECT 1 -- ?\n"),
        ("SELECT ? # ?", b"SELECT 1 # ?"),
        ("SELECT 2--?", b"SELECT 2--1"),
        ("SELECT /*! STRAIGHT_JOIN */ a FROM t WHERE a = ? /*! FOR UPDATE SKIP LOCKED */",
         b"SELECT /*! STRAIGHT_JOIN */ a FROM t WHERE a = 1 /*! FOR UPDATE SKIP LOCKED */"),
        ("SELECT /*!80000 ? */ /*M!100600 2 */", b"SELECT /*!80000 1 */ /*M!100600 2 */"),
        ("SELECT /*+ MAX_EXECUTION_TIME(1) */ ?", b"SELECT /*+ MAX_EXECUTION_TIME(1) */ 1"),
        ("SELECT 'é', ?", "SELECT 'é', 1".encode()),
    ],
)  # fmt: skip
def test_placeholders_are_found_outside_quotes_and_comments_only(sql: str, bound: bytes) -> None:
    assert Statement(sql).bind(1) == bound


def test_lists() -> None:
    ids = Statement("DELETE FROM t WHERE a = ? AND id IN (?*)")
    assert ids.bind(7, [1, 2, 3]) == b"DELETE FROM t WHERE a = 7 AND id IN (1,2,3)"
    assert ids.bind(b"k", (b"a",)) == b"DELETE FROM t WHERE a = x'6b' AND id IN (x'61')"
    pairs = Statement("SELECT 1 FROM t WHERE (shard, id) IN (?*)")
    assert pairs.bind([(1, 17), (2, 18)]) == b"SELECT 1 FROM t WHERE (shard, id) IN ((1,17),(2,18))"
    with pytest.raises(ValueError, match="empty"):
        pairs.bind([])
    with pytest.raises(TypeError, match="sequence"):
        pairs.bind(b"12")


def test_the_number_of_values_must_fit() -> None:
    with pytest.raises(TypeError, match="1 values for 2 placeholders"):
        Statement("? ?").bind(1)


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("INSERT INTO t (a, b) VALUES ?", b"INSERT INTO t (a, b) VALUES (1,x'61'),(2,NULL)"),
        ("insert into t values? ON DUPLICATE KEY UPDATE b = VALUES(b)",
         b"insert into t values(1,x'61'),(2,NULL) ON DUPLICATE KEY UPDATE b = VALUES(b)"),
    ],
)  # fmt: skip
def test_many_rows_in_one_statement(sql: str, statement: bytes) -> None:
    assert Statement(sql).bind_many([(1, b"a"), (2, None)], max_bytes=1000) == [statement]


@given(
    rows=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=20)), max_size=40), max_bytes=st.integers(90, 300)
)
def test_statements_stay_below_the_limit_and_are_as_few_as_fit(rows: list[tuple[int, bytes]], max_bytes: int) -> None:
    head = b"INSERT INTO t VALUES "
    statements = Statement(head.decode() + "?").bind_many(rows, max_bytes=max_bytes)
    texts = [b"(%d,x'%s')" % (number, body.hex().encode()) for number, body in rows]
    assert b",".join(statement.removeprefix(head) for statement in statements) == b",".join(texts)
    assert all(len(statement) <= max_bytes for statement in statements)
    firsts = [statement.removeprefix(head).partition(b")")[0] + b")" for statement in statements]
    for statement, following in zip(statements, firsts[1:], strict=False):
        assert len(statement) + 1 + len(following) > max_bytes


def test_a_row_that_never_fits_is_refused() -> None:
    with pytest.raises(Refused, match="the server takes") as caught:
        Statement("INSERT INTO t VALUES ?").bind_many([(b"x",), (b"x" * 100,)], max_bytes=100)
    assert caught.value.code == 1153


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t SELECT ?",
        "INSERT INTO t VALUES ? ON DUPLICATE KEY UPDATE a = ?",
        "INSERT INTO t VALUES (1)",
        "DELETE FROM t WHERE id IN (?*)",
        "UPDATE t SET a = ? WHERE b = ?",
    ],
)
def test_only_an_insert_takes_many_rows(sql: str) -> None:
    with pytest.raises(TypeError, match="bind_many"):
        Statement(sql).bind_many([(1,)], max_bytes=100)


def test_rows_are_of_one_width() -> None:
    with pytest.raises(TypeError, match="a row of 1"):
        Statement("INSERT INTO t VALUES ?").bind_many([(1, 2), (1,)], max_bytes=100)


async def test_many_rows_on_the_server(connection: Any) -> None:
    await connection.execute(b"CREATE TABLE t (a BIGINT PRIMARY KEY, b VARBINARY(200))")
    rows = [(number, bytes([number % 256]) * 100) for number in range(2000)]
    statements = Statement("INSERT INTO t (a, b) VALUES ?").bind_many(rows, max_bytes=50_000)
    assert len(statements) > 5
    assert sum([await connection.execute(statement) for statement in statements]) == 2000
    assert await connection.fetch(b"SELECT a, b FROM t ORDER BY a") == rows
