"""Traces messages in store and lake together, without Spark: finds them, and what became of them.

Rows below the lake's position are in both, and each counts once. The store is read before the lake: rows that retention
takes from it meanwhile are archived by then.
"""

from collections.abc import Collection, Sequence
from contextlib import nullcontext

from attrs import frozen

from ..errors import no_such_topic
from ..source.facts import read_facts
from ..store_connection import StoreConnection
from .lake_rows import LakeRows
from .store_rows import StoreRows
from .timeline import Event, Row, Rows, timeline


@frozen
class Traced:
    """The messages that are known, in the order in which they were accepted, and their events, by id and time."""

    events: list[Event]
    more: bool
    """Whether there are more of this key than were asked for."""


def trace(
    dsn: str | None,
    lake: str | None,
    *,
    topics: Collection[str] | None = None,
    ids: Sequence[int] = (),
    key: str | None = None,
    most: int,
) -> Traced:
    """Traces the messages with these ids, or of a key. Raises `PipelineError`."""
    if dsn is None and lake is None:
        raise ValueError("name a store with --dsn, a lake with --lake, or both")

    def open_lake(*, alone: bool) -> list[StoreRows | LakeRows]:
        return [] if lake is None else [LakeRows(lake, topics, alone=alone)]

    with StoreConnection(dsn) if dsn is not None else nullcontext() as connection:
        store: list[StoreRows | LakeRows] = (
            [] if connection is None else [StoreRows(connection, read_facts(connection), topics)]
        )
        archived = open_lake(alone=dsn is None)
        for topic in topics or ():
            if not any(one.knows(topic) for one in (*store, *archived)):
                raise no_such_topic(topic, store=bool(store), lake=bool(archived))
        wanted = set(ids)
        if key is not None:
            wanted = {id_ for one in (*store, *archived) for id_ in one.ids_of_key(key)}
        rows = Rows()
        for one in (*store, *archived):
            one.find(rows, sorted(wanted))
        rows, more = _first(rows, most, key)
        for one in (*store, *open_lake(alone=False)):  # the lake as it is now
            one.follow(rows)
    return Traced(timeline(rows), more)


def _first(rows: Rows, most: int, key: str | None) -> tuple[Rows, bool]:
    """The first messages that were accepted; with a key, only those that have it."""
    kept = (rows.messages, rows.timers, rows.cancelled, rows.dead)
    accepted: dict[int, int] = {}
    for row in (row for place in kept for row in place.values() if key is None or row["key"] == key):
        accepted[row["id"]] = min(accepted.get(row["id"], row["accepted_at"]), row["accepted_at"])
    order = sorted(accepted, key=lambda id_: (accepted[id_], id_))
    chosen = set(order[:most])

    def some(place: dict[object, Row]) -> dict[object, Row]:
        return {name: row for name, row in place.items() if row["id"] in chosen}

    messages, timers, cancelled, dead = (some(place) for place in kept)
    return Rows(messages, timers, cancelled, dead, fires=rows.fires, erased=rows.erased), len(order) > most
