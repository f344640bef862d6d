"""What there is in the store, read while others make and remove things."""

from collections.abc import Sequence

from support.stores import Stage
from tarry.pipeline.schemas import TABLES
from tarry.pipeline.source.facts import read_facts
from tarry.pipeline.source.spans import plan
from tarry.pipeline.store_connection import Row, StoreConnection
from tarry.store.ports import Value


async def test_a_topic_that_is_made_meanwhile_is_not_there_yet(stage: Stage) -> None:
    topic = await stage.topic()
    await stage.group(topic)

    class Interrupted(StoreConnection):
        def fetch(self, query: str, *values: Value | Sequence[Value]) -> list[Row]:
            if query == "consumer_group.names":
                stage.tables.rows(
                    "INSERT INTO topic (id, name, kind, ordered, sequencer, created_at) VALUES (77, X'6D', 0, 0, 0, 0)"
                )
                stage.tables.rows("INSERT INTO consumer_group VALUES (78, 77, X'67', NULL, 0, NULL, 0, 0, 0)")
            return super().fetch(query, *values)

    with Interrupted(stage.dsn) as connection:
        facts = read_facts(connection)
    assert list(facts.topics.values()) == ["orders"]
    for table in TABLES:
        plan(table, facts)
