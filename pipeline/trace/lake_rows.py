"""Finds the rows of a few messages in a lake, without Spark: in the few files whose bounds allow for one of them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ...store.content import LABELS
from ...store.erased import erased_at_of
from ..arrow import Table, pa, pc
from ..lake import local_reads
from ..lake.lake import Lake
from ..schemas import IN_LAKE, TABLES
from ..times import moment
from .timeline import Row, Rows

_LEFT_OUT = {*LABELS, "body"} - {"key"}
_COLUMNS = {table: [name for name in TABLES[table].names if name not in _LEFT_OUT] for table in IN_LAKE}


class LakeRows:
    """Reads the tables of a lake as they are now. Raises `LakeError`; also for a place where there is no lake."""

    def __init__(self, place: str, topics: Collection[str] | None, *, alone: bool) -> None:
        self._tables = Lake(place).tables(alone=alone)
        self._topics = topics

    def knows(self, topic: str) -> bool:
        return any(row["partition.topic"] == topic for table in self._tables.values() for row in table.added())

    def ids_of_key(self, key: str) -> set[int]:
        """All messages of a business key. A key has no bounds: every file of the topics is looked at."""
        return {
            row["id"]
            for table in ("messages", "cancelled", "dead")
            for row in self._rows(table, {"key": [key]}, columns=("id", "key"))
        }

    def find(self, rows: Rows, ids: Sequence[int]) -> None:
        """Adds the messages of these ids, cancelled ones among them, their dead letters, and what schedules did."""
        wanted = {"id": list(ids)}
        for row in self._rows("messages", wanted):
            rows.messages[row["queue_id"], row["offset"]] = row
            _note_erased(rows, row)
        for row in self._rows("cancelled", wanted):
            rows.cancelled.setdefault(row["id"], row)  # a row of the store goes first
        for row in self._rows("dead", wanted):
            rows.dead[row["group_id"], row["id"], row["dead_at"]] = row
            _note_erased(rows, row)
        for row in self._rows("fires", {"message_id": list(ids)}):
            rows.fires[row["schedule_id"], row["fire_at"], row["at"]] = row

    def follow(self, rows: Rows) -> None:
        """Adds the deliveries of the messages in `rows`. Nothing happens to a message before it is accepted."""
        known = (*rows.messages.values(), *rows.dead.values())
        if not known:
            return
        wanted = {
            "message_queue_id": sorted({row["queue_id"] for row in known}),
            "message_offset": sorted({row["offset"] for row in known}),
        }
        since = min(row["accepted_at"] for row in known)
        for row in self._rows("deliveries", wanted, since=since):
            rows.deliveries[row["group_id"], row["queue_id"], row["number"], row["offset"]] = row

    def _rows(
        self, table: str, wanted: local_reads.Wanted, *, since: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterable[Row]:
        snapshot = self._tables.get(table)
        if snapshot is None:
            return ()
        day = None if since is None else moment(since).date()
        files = local_reads.files(snapshot, wanted, topics=self._topics, since=day)
        return _plain(local_reads.read(snapshot, files, columns or _COLUMNS[table], wanted))


def _note_erased(rows: Rows, row: Row) -> None:
    if (erased_at := erased_at_of(row["content_type"])) is not None:
        rows.erased[row["id"]] = erased_at


def _plain(table: Table) -> list[dict[str, Any]]:
    """Rows with times as milliseconds."""
    names = table.column_names
    columns = [
        pc.divide(column.cast(pa.int64()), 1000) if pa.types.is_timestamp(column.type) else column
        for column in (table[name] for name in names)
    ]
    return pa.table(columns, names=names).to_pylist()  # type: ignore[no-any-return]
