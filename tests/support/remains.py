"""Finds rows that are left of topics, groups and queues, by the ids in the columns of all tables."""

from collections.abc import Collection
from functools import cache

from support.stores import Stage
from tarry.store.migrations import load_migrations
from tarry.store.mysql.shape import shape_of

_COLUMNS = {
    "topic_id": "topic",
    "group_id": "group",
    "queue_id": "queue",
    "return_queue_id": "queue",
    "message_queue_id": "queue",
}


@cache
def _tables() -> dict[str, list[str]]:
    """By table: the columns that refer to a topic, a group or a queue."""
    shape = shape_of(load_migrations("mysql"))
    found = {table: [one for one in made.columns if one in _COLUMNS] for table, made in shape.items()}
    found.pop("removed")
    return found | {"topic": ["id"], "consumer_group": ["id", "topic_id"], "queue": ["id", "topic_id", "group_id"]}


def remains(
    stage: Stage, topics: Collection[int] = (), groups: Collection[int] = (), queues: Collection[int] = ()
) -> dict[str, int]:
    """How many rows of each table refer to one of these."""
    wanted = {"topic": topics, "group": groups, "queue": queues}
    itself = {"topic": "topic", "consumer_group": "group", "queue": "queue"}
    counts: dict[str, int] = {}
    for table, columns in _tables().items():
        parts: list[str] = []
        for column in columns:
            ids = wanted[itself[table] if column == "id" else _COLUMNS[column]]
            if ids:
                parts.append(f"`{column}` IN ({', '.join(map(str, sorted(ids)))})")
        if parts and (many := stage.count(table, " OR ".join(parts))):
            counts[table] = many
    return counts


def everything(stage: Stage) -> dict[str, set[tuple[object, ...]]]:
    """All rows of all these tables, except for `witness`, in which the store's sessions record their commits."""
    return {table: set(stage.tables.rows(f"SELECT * FROM `{table}`")) for table in _tables() if table != "witness"}
