"""Filters that go to the store; what it cannot apply is left to Spark."""

import pytest
from pyspark.sql.datasource import EqualTo

from tarry.pipeline.schemas import TABLES
from tarry.pipeline.source.pushing import Pushed


@pytest.mark.parametrize("table", TABLES)
def test_a_filter_on_any_column_of_any_table_is_taken_or_left(table: str) -> None:
    for name in TABLES[table].names:
        pushed = Pushed(table)
        pushed.take(EqualTo((name,), 3))
        assert len(pushed.conditions) <= 1
        assert (pushed.topics == {"3"}) == (name == "topic")


def test_what_the_store_can_apply_goes_there() -> None:
    pushed = Pushed("messages")
    pushed.take(EqualTo(("id",), 3))
    assert pushed.conditions == ["id IN (3)"]
