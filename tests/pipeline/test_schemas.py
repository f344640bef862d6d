"""The words of the pipeline are those of the store."""

from tarry.pipeline import schemas
from tarry.store.records import Outcome


def test_every_outcome_has_its_word() -> None:
    assert {outcome.value: outcome.name.lower() for outcome in Outcome} == schemas.OUTCOMES


def test_what_is_in_the_lake_is_a_table_with_a_day() -> None:
    for table in schemas.IN_LAKE:
        assert schemas.LAKE_DAYS[table] in schemas.TABLES[table].names
        assert schemas.lake_schema(table).names[-1] == "day"
