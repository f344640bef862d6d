"""What an archiver keeps in the store."""

import pytest

from support.stores import Stage
from tarry.pipeline.errors import LakeError
from tarry.pipeline.lake.archiver_lease import ArchiverLease


async def test_a_new_lake_has_nothing_yet_and_retention_knows_it(stage: Stage) -> None:
    with ArchiverLease(stage.dsn, "one") as lease:
        assert lease.admit("first", holds=False, anew=False)
        lease.adopt("first")
        lease.record("messages", {"1": 7})
        lease.record("", {"": 1_000})
        assert not lease.admit("second", holds=False, anew=True)
        assert stage.tables.rows("SELECT upto FROM archived ORDER BY queue_id") == [(1_000,), (7,)], "not yet"
        lease.adopt("second")
        lease.switch_on()
    assert stage.tables.rows("SELECT group_id, queue_id, upto FROM archived") == [(0, 0, 0)], "nor dead letters"


async def test_a_store_goes_back_to_a_lake_that_it_knows(stage: Stage) -> None:
    with ArchiverLease(stage.dsn, "one") as lease:
        lease.adopt("first")
        with pytest.raises(LakeError, match="wants an empty lake"):
            lease.admit("strange", holds=True, anew=True)
        assert not lease.admit("second", holds=False, anew=True)
        assert lease.admit("first", holds=True, anew=False), "nothing was written to the second: nothing has changed"
        assert not lease.admit("second", holds=True, anew=True), "cut off behind its first commit"
        lease.adopt("second")
        with pytest.raises(LakeError, match="go back to this one with --new-lake"):
            lease.admit("first", holds=True, anew=False)
        assert not lease.admit("first", holds=True, anew=True)
        lease.adopt("first")
        assert lease.admit("first", holds=True, anew=False)
        with pytest.raises(LakeError, match="wants an empty lake"):
            lease.admit("strange", holds=True, anew=True)
        with pytest.raises(LakeError, match="name the right one"):
            lease.admit("strange", holds=False, anew=False)
