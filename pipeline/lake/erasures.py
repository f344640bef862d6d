"""Erased messages: what the store has erased, the lake has no more either.

Body, headers and content type of messages and dead letters go, and the reasons in the histories of dead letters and
deliveries. The files that hold such rows are written anew without, and take the place of the old ones in one entry of
the table's log: killed before that nothing has happened, killed after it the next run finds nothing more to do there.
Only then the store hears of it. Ids are times, so that of a lake of any size a handful of files is opened.

The old files are in no snapshot from then on, and stay on the disk until a vacuum.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...store.erased import content_type_of, without_reasons
from ...store.leases import LAKE
from ..store_connection import StoreConnection, text_of
from . import local_reads
from .lake import Lake, Snapshot

_TOGETHER = 200
"""Messages to a commit."""

Ids = Mapping[int, int]
"""When messages were erased, by id."""


def apply(dsn: str, lake: Lake) -> dict[str, int]:
    """Erases in the lake what the store has erased; how many rows of each table were written anew.

    In the store's own lake what is not erased there yet, and the store hears of it; in another, as one that it was
    archived to before, all that was ever erased. To be called under the archiver's lease. Raises `PipelineError`.
    """
    done: dict[str, int] = {}
    with StoreConnection(dsn, write=True) as connection:
        own = any(text_of(row["holder"]) == lake.identity() for row in connection.fetch("lease.find", LAKE.encode()))
        for ids in _pending(connection) if own else _all(connection):
            places = _places(connection, ids)
            for table, many in _erase(lake, ids, places).items():
                done[table] = done.get(table, 0) + many
            if own:
                now = connection.now()
                for id_ in ids:
                    connection.execute("erased.applied", now, id_)
    return done


def pending_ids(dsn: str) -> list[int]:
    """The messages that the store has erased, and its lake may still have."""
    with StoreConnection(dsn) as connection:
        return pending(connection)[0]


def pending(connection: StoreConnection) -> tuple[list[int], list[tuple[int, int]]]:
    """The messages that the store has erased and its lake may still have: their ids, and where those lie that the store
    has."""
    erased = [row["id"] for row in connection.fetch("erased.pending", 1 << 31)]
    places: set[tuple[int, int]] = set()
    for at in range(0, len(erased), _TOGETHER):
        places |= _places(connection, erased[at : at + _TOGETHER])
    return erased, sorted(places)


def _pending(connection: StoreConnection) -> Iterator[Ids]:
    """Each batch is noted before the next is asked for."""
    while rows := connection.fetch("erased.pending", _TOGETHER):
        yield {row["id"]: row["erased_at"] for row in rows}


def _all(connection: StoreConnection) -> Iterator[Ids]:
    after = -1
    while rows := connection.fetch("erased.scan", after, _TOGETHER):
        yield {row["id"]: row["erased_at"] for row in rows}
        after = rows[-1]["id"]


def _places(connection: StoreConnection, ids: Collection[int]) -> set[tuple[int, int]]:
    """Where those lie that the store still has: their deliveries may be archived before them."""
    return {(row["queue_id"], row["offset"]) for row in connection.fetch("message.places", list(ids))}


def _erase(lake: Lake, ids: Ids, places: set[tuple[int, int]]) -> dict[str, int]:
    """Deliveries are found by the places of their messages: they go first."""
    known = {table: _found(lake, table, ids) for table in ("messages", "dead")}
    for _, rows in known.values():
        places |= {(row["queue_id"], row["offset"]) for row in rows}
    done = {"deliveries": _erase_deliveries(lake, places)}
    for table, (snapshot, rows) in known.items():
        marks = {id_: content_type_of(at) for id_, at in ids.items()}
        bare = _bare(row["history"] for row in rows if "history" in row)
        stale = [row for row in rows if row["content_type"] != marks[row["id"]] or row.get("history") in bare]
        if snapshot is None or not stale:
            continue
        chosen = sorted({row["id"] for row in stale})
        cases = " ".join(f"WHEN {id_} THEN {_text(marks[id_])}" for id_ in chosen)
        updates = {"body": "X''", "headers": "NULL", "content_type": f"CASE id {cases} END"}
        if bare:
            updates["history"] = _case(bare)
        where = f"{_within(stale)} AND id IN ({', '.join(map(str, chosen))})"
        done[table] = lake.rewrite(snapshot, updates, where)
    return {table: many for table, many in done.items() if many}


def _found(lake: Lake, table: str, ids: Ids) -> tuple[Snapshot | None, list[dict[str, Any]]]:
    snapshot = lake.open(table)
    columns = ["queue_id", "offset", "id", "content_type", *(["history"] if table == "dead" else [])]
    return snapshot, [] if snapshot is None else _rows(snapshot, columns, {"id": list(ids)})


def _erase_deliveries(lake: Lake, places: Collection[tuple[int, int]]) -> int:
    snapshot = lake.open("deliveries")
    if snapshot is None or not places:
        return 0
    queues, offsets = ({place[at] for place in places} for at in (0, 1))
    wanted = {"message_queue_id": queues, "message_offset": offsets}
    rows = _rows(snapshot, ["message_queue_id", "message_offset", "history"], wanted)
    rows = [row for row in rows if (row["message_queue_id"], row["message_offset"]) in places]
    bare = _bare(row["history"] for row in rows)
    stale = [row for row in rows if row["history"] in bare]
    if not stale:
        return 0
    chosen = sorted({(row["message_queue_id"], row["message_offset"]) for row in stale})
    theirs = " OR ".join(f"message_queue_id = {queue} AND message_offset = {offset}" for queue, offset in chosen)
    texts = ", ".join(map(_text, bare))
    where = f"{_within(stale)} AND ({theirs}) AND history IN ({texts})"
    return lake.rewrite(snapshot, {"history": _case(bare)}, where)


def _rows(snapshot: Snapshot, columns: Sequence[str], wanted: local_reads.Wanted) -> list[dict[str, Any]]:
    """Each with the topic and the day that it is parted by."""
    rows: list[dict[str, Any]] = []
    for file in local_reads.files(snapshot, wanted):
        parted = {"topic": file["partition.topic"], "day": file["partition.day"]}
        rows += [row | parted for row in local_reads.read(snapshot, [file], columns, wanted).to_pylist()]
    return rows


def _within(rows: Iterable[Mapping[str, Any]]) -> str:
    """The parts of a table in which rows lie: nothing else is looked at."""
    parts = {(row["topic"], row["day"].isoformat()) for row in rows}
    topics, days = ({part[at] for part in parts} for at in (0, 1))
    return f"topic IN ({', '.join(map(_text, sorted(topics)))}) AND day IN ({', '.join(map(_text, sorted(days)))})"


def _bare(histories: Iterable[str | None]) -> dict[str, str]:
    """Histories without reasons, by what they were; of those that have some."""
    bare = {text: without_reasons(text.encode()).decode() for text in histories if text is not None}
    return {text: without for text, without in bare.items() if text != without}


def _case(bare: Mapping[str, str]) -> str:
    cases = " ".join(f"WHEN {_text(text)} THEN {_text(without)}" for text, without in bare.items())
    return f"CASE history {cases} ELSE history END"


def _text(value: str) -> str:
    """As a literal of the table format's SQL, in which only a quote has a meaning."""
    return "'" + value.replace("'", "''") + "'"
