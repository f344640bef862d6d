"""A trace of store and lake together, without Spark: which messages are meant, and what became of them.

What lies below the lake's position is in both, and each row counts once. The store is read before the lake: what
retention takes from it meanwhile is archived by then.
"""

from collections.abc import Collection, Sequence

from attrs import frozen

from ..errors import NotFound
from ..link import Link
from ..source.facts import read_facts
from .lake_rows import LakeRows
from .store_rows import StoreRows
from .timeline import Event, Row, Rows, timeline


@frozen
class Traced:
    """The messages that are known, in the order in which they were accepted, and their events, by id and time."""

    events: list[Event]
    more: bool
    """There are more of this key than were asked for."""


def trace(
    dsn: str | None,
    lake: str | None,
    *,
    topics: Collection[str] | None = None,
    ids: Sequence[int] = (),
    key: str | None = None,
    most: int,
) -> Traced:
    """What is known of the messages of these ids, or of a key. Raises `PipelineError`."""
    if dsn is None and lake is None:
        raise ValueError("name a store with --dsn, a lake with --lake, or both")
    if dsn is None:
        return _trace(None, _lake(lake, topics, alone=True), lake, topics, ids, key, most)
    with Link(dsn) as link:
        store = StoreRows(link, read_facts(link), topics)
        return _trace(store, _lake(lake, topics, alone=False), lake, topics, ids, key, most)


def _lake(place: str | None, topics: Collection[str] | None, *, alone: bool) -> LakeRows | None:
    return None if place is None else LakeRows(place, topics, alone=alone)


def _trace(
    store: StoreRows | None,
    archived: LakeRows | None,
    place: str | None,
    topics: Collection[str] | None,
    ids: Sequence[int],
    key: str | None,
    most: int,
) -> Traced:
    for topic in topics or ():
        if not (store is not None and store.knows(topic)) and not (archived is not None and archived.knows(topic)):
            places = [name for name, there in (("the store", store), ("the lake", archived)) if there is not None]
            raise NotFound(f"--topic {topic}: there is no such topic in {' or '.join(places)}")
    wanted = set(ids)
    if key is not None:
        wanted = {id_ for one in (store, archived) if one is not None for id_ in one.ids_of_key(key)}
    rows = Rows()
    for one in (store, archived):
        if one is not None:
            one.find(rows, sorted(wanted))
    rows, more = _first(rows, most, key)
    if store is not None:
        store.follow(rows)
    late = _lake(place, topics, alone=False)  # as it is now
    if late is not None:
        late.follow(rows)
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
    return Rows(messages, timers, cancelled, dead), len(order) > most
