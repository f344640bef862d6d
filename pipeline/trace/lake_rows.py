"""What a lake knows of a few messages, without Spark: from the few files whose bounds let them hold a row of them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..arrow import Table, pa, pc
from ..errors import LakeError
from ..lake import plain
from ..lake.lake import Lake, Snapshot
from ..schemas import IN_LAKE
from ..times import moment
from .timeline import Row, Rows

_OF = ("topic", "id", "key", "accepted_at", "deliver_at")
_COLUMNS = {
    "messages": (*_OF, "queue_id", "queue", "offset", "streamed_at"),
    "cancelled": (*_OF, "cancelled_at"),
    "dead": (*_OF, "group", "group_id", "dead_at", "history", "queue_id", "offset"),
}
_DELIVERIES = (
    *("topic", "group", "group_id", "queue_id", "number", "claim", "client", "offset"),
    *("message_queue_id", "message_offset", "attempt", "history", "outcome", "claimed_at", "settled_at", "ended_at"),
)


class LakeRows:
    """Reads the tables of a lake as they are now. Raises `LakeError`; also for a place where there is no lake."""

    def __init__(self, place: str, topics: Collection[str] | None, *, alone: bool) -> None:
        lake = Lake(place)
        found = {table: lake.open(table) for table in IN_LAKE}
        self._tables = {table: snapshot for table, snapshot in found.items() if snapshot is not None}
        self._topics = topics
        if alone and not self._tables:
            raise LakeError(f"there is no lake at {lake.place}: archive something to it first, or correct --lake")

    def knows(self, topic: str) -> bool:
        return any(row["partition.topic"] == topic for table in self._tables.values() for row in table.added())

    def ids_of_key(self, key: str) -> set[int]:
        """All messages of a business key. A key has no bounds: every file of the topics is looked at."""
        return {row["id"] for table in _COLUMNS for row in self._rows(table, ("id", "key"), {"key": [key]})}

    def find(self, rows: Rows, ids: Sequence[int]) -> None:
        """Adds the messages of these ids, cancelled ones among them, and their dead letters."""
        wanted = {"id": list(ids)}
        for row in self._rows("messages", _COLUMNS["messages"], wanted):
            rows.messages[row["queue_id"], row["offset"]] = row
        for row in self._rows("cancelled", _COLUMNS["cancelled"], wanted):
            rows.cancelled[row["id"]] = row
        for row in self._rows("dead", _COLUMNS["dead"], wanted):
            rows.dead[row["group_id"], row["id"], row["dead_at"]] = row

    def follow(self, rows: Rows) -> None:
        """Adds what became of the messages that `rows` has. Nothing happens to one before it is accepted."""
        known = (*rows.messages.values(), *rows.dead.values())
        if not known:
            return
        wanted = {
            "message_queue_id": sorted({row["queue_id"] for row in known}),
            "message_offset": sorted({row["offset"] for row in known}),
        }
        since = min(row["accepted_at"] for row in known)
        for row in self._rows("deliveries", _DELIVERIES, wanted, since):
            rows.deliveries[row["group_id"], row["queue_id"], row["number"], row["offset"]] = row

    def _rows(
        self, table: str, columns: Sequence[str], wanted: plain.Wanted, since: int | None = None
    ) -> Iterable[Row]:
        snapshot = self._tables.get(table)
        if snapshot is None:
            return ()
        return _plain(_read(snapshot, columns, wanted, self._topics, since))


def _read(
    snapshot: Snapshot, columns: Sequence[str], wanted: plain.Wanted, topics: Collection[str] | None, since: int | None
) -> Table:
    day = None if since is None else moment(since).date()
    some = plain.files(snapshot, wanted, topics=topics, since=day)
    return plain.read(snapshot, some, columns, wanted)


def _plain(table: Table) -> list[dict[str, Any]]:
    """Rows with times as milliseconds."""
    names = table.column_names
    columns = [
        pc.divide(column.cast(pa.int64()), 1000) if pa.types.is_timestamp(column.type) else column
        for column in (table[name] for name in names)
    ]
    return pa.table(columns, names=names).to_pylist()  # type: ignore[no-any-return]
