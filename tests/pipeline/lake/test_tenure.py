"""What an archiver keeps in the store."""

from support.stores import Stage
from tarry.pipeline.lake.tenure import Tenure


async def test_a_new_lake_has_nothing_yet_and_retention_knows_it(stage: Stage) -> None:
    with Tenure(stage.dsn, "one") as tenure:
        tenure.adopt("first", holds=False, anew=False)
        tenure.record("messages", {"1": 7})
        tenure.record("", {"": 1_000})
        tenure.adopt("second", holds=False, anew=True)
        tenure.switch_on()
    assert stage.tables.rows("SELECT group_id, queue_id, upto FROM archived") == [(0, 0, 0)], "nor dead letters"
