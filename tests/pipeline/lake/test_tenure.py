"""What an archiver keeps in the store."""

import pytest

from support.stores import Stage
from tarry.pipeline.errors import LakeError
from tarry.pipeline.lake.tenure import Tenure


async def test_a_new_lake_has_nothing_yet_and_retention_knows_it(stage: Stage) -> None:
    with Tenure(stage.dsn, "one") as tenure:
        assert tenure.admit("first", holds=False, anew=False)
        tenure.adopt("first")
        tenure.record("messages", {"1": 7})
        tenure.record("", {"": 1_000})
        assert not tenure.admit("second", holds=False, anew=True)
        assert stage.tables.rows("SELECT upto FROM archived ORDER BY queue_id") == [(1_000,), (7,)], "not yet"
        tenure.adopt("second")
        tenure.switch_on()
    assert stage.tables.rows("SELECT group_id, queue_id, upto FROM archived") == [(0, 0, 0)], "nor dead letters"


async def test_a_store_goes_back_to_a_lake_that_it_knows(stage: Stage) -> None:
    with Tenure(stage.dsn, "one") as tenure:
        tenure.adopt("first")
        with pytest.raises(LakeError, match="wants an empty lake"):
            tenure.admit("strange", holds=True, anew=True)
        assert not tenure.admit("second", holds=False, anew=True)
        assert tenure.admit("first", holds=True, anew=False), "nothing was written to the second: nothing has changed"
        assert not tenure.admit("second", holds=True, anew=True), "cut off behind its first commit"
        tenure.adopt("second")
        with pytest.raises(LakeError, match="go back to this one with --new-lake"):
            tenure.admit("first", holds=True, anew=False)
        assert not tenure.admit("first", holds=True, anew=True)
        tenure.adopt("first")
        assert tenure.admit("first", holds=True, anew=False)
        with pytest.raises(LakeError, match="wants an empty lake"):
            tenure.admit("strange", holds=True, anew=True)
        with pytest.raises(LakeError, match="name the right one"):
            tenure.admit("strange", holds=False, anew=False)
