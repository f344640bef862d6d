"""Queries with their values, as the server reads them."""

import pytest

from tarry.store.errors import Refused
from tarry.store.mysql.statements import bind_each

_ROW = (1, None, 3, 4, 5)


def test_updates_are_joined_with_their_rows() -> None:
    ((many, text),) = bind_each("schedule.advance", [_ROW, (6, 7, 8, 9, 10)], max_bytes=10_000)
    assert many == 2
    assert b"SELECT 1 AS last_at, NULL AS last_id, 3 AS next_at, 4 AS next_id, 5 AS id UNION ALL" in text
    assert b"UNION ALL SELECT 6, 7, 8, 9, 10)" in text
    assert b" ON schedule.id = given.id SET schedule.last_at = given.last_at, " in text
    assert b"schedule.id = given.id," not in text


def test_they_are_parted_where_a_statement_is_full() -> None:
    rows = [(i, i, i, i, i) for i in range(10_000, 10_100)]
    parts = bind_each("schedule.advance", rows, max_bytes=1500)
    assert len(parts) > 2
    assert sum(many for many, _ in parts) == 100
    assert all(len(text) <= 1500 for _, text in parts)
    assert all(text.count(b"SELECT") == many for many, text in parts)
    assert [many for many, _ in bind_each("schedule.advance", [_ROW] * 2001, max_bytes=1 << 20)] == [1000, 1000, 1]


def test_of_no_rows_there_is_none() -> None:
    assert bind_each("schedule.advance", [], max_bytes=1 << 20) == []


def test_what_is_no_update_by_a_key() -> None:
    with pytest.raises(TypeError, match="by a key"):
        bind_each("label.add", [(1, b"k", 1)], max_bytes=1 << 20)


def test_a_row_that_is_too_long() -> None:
    with pytest.raises(Refused):
        bind_each("schedule.advance", [_ROW], max_bytes=300)
