"""Finds the rows of a few messages in a store: by small reads, none of a whole table except for a business key.

Nothing here needs Spark. Tables are read in the order in which messages move, so that none is missed; claims before the
log into which they go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...store.ids import SEQUENCE_BITS, places_of
from ..schemas import FIRE_OUTCOMES, OUTCOMES, SUPPRESSED
from ..source.facts import Facts
from ..store_connection import StoreConnection, text_of
from ..times import parse_time
from .timeline import Row, Rows, schedule_of

_TOGETHER = 500
"""Most ids of a statement."""
_WIDEST_CLAIM = 1000
_TEXTS = ("key", "guard", "headers", "history", "client")


class StoreRows:
    """Reads one store, over one connection."""

    def __init__(self, connection: StoreConnection, facts: Facts, topics: Iterable[str] | None) -> None:
        self._connection, self._facts = connection, facts
        wanted = None if topics is None else set(topics)
        self._topics = {id_: name for id_, name in facts.topics.items() if wanted is None or name in wanted}
        self._groups = {
            id_: {"topic": self._topics[topic_id], "group": name, "group_id": id_}
            for id_, (topic_id, name) in facts.groups.items()
            if topic_id in self._topics
        }

    def knows(self, topic: str) -> bool:
        return topic in self._facts.topics.values()

    def ids_of_key(self, key: str) -> set[int]:
        """All messages of a business key; also those of which only a dead letter is left."""
        found = [self._fetch("label.ids", some, key.encode()) for some in _some(list(self._topics))]
        found += [self._fetch("dead.of_key", some, key.encode()) for some in _some(list(self._groups))]
        return {row["id"] for rows in found for row in rows}

    def find(self, rows: Rows, ids: Sequence[int]) -> None:
        """Adds the messages of these ids, wherever they are, and their dead letters."""
        for some in _some(ids):
            for row in self._of_topics("delay.briefly", places_of(some)):
                rows.timers[row["id"]] = row
            for row in self._fetch("erased.find", some):
                rows.erased[row["id"]] = row["erased_at"]
            for row in self._of_topics("cancelled.find", some):
                rows.cancelled[row["id"]] = {**row, "reason": SUPPRESSED if row["reason"] else None}
            for row in self._fetch("message.briefly", some):
                queue = self._facts.queues.get(row["queue_id"])
                if queue is not None and queue.topic_id in self._topics:
                    of = {"topic": self._topics[queue.topic_id], "queue": queue.number}
                    rows.messages[row["queue_id"], row["offset"]] = row | of
            for groups in _some(list(self._groups)):
                for row in self._fetch("dead.briefly", some, groups):
                    rows.dead[row["group_id"], row["id"], row["dead_at"]] = row | self._groups[row["group_id"]]

    def _of_topics(self, query: str, ids: list[int]) -> Iterator[Row]:
        for row in self._fetch(query, ids):
            if row["topic_id"] in self._topics:
                yield row | {"topic": self._topics[row["topic_id"]]}

    def follow(self, rows: Rows) -> None:
        """Adds what the groups did, and have yet to do, with the messages in `rows`."""
        self._fires(rows)
        places = {row["id"]: (row["queue_id"], row["offset"]) for row in (*rows.messages.values(), *rows.dead.values())}
        for some in _some(sorted(places)):
            self._carry(rows, some, places)
        origins: dict[tuple[int, int], dict[int, Row]] = {}
        """By group and queue, and by the offset there: where the message is, and the attempts before."""
        for cursor in self._facts.cursors:
            for queue_id, offset in places.values():
                if cursor.queue_id == queue_id and cursor.group_id in self._groups:
                    fresh = {"message_queue_id": queue_id, "message_offset": offset, "attempt": 1, "history": None}
                    origins.setdefault((cursor.group_id, queue_id), {})[offset] = fresh
        for row in rows.returns:
            origins.setdefault((row["group_id"], row["queue_id"]), {})[row["offset"]] = row
        for group_id in {group_id for group_id, _ in origins}:
            for claim in self._fetch("claim.of_group", group_id):
                cursor_of = (group_id, claim["queue_id"])
                for row in self._messages_of(
                    claim | {"claim": claim["number"]}, *cursor_of, origins.get(cursor_of, {})
                ):
                    rows.claims[*cursor_of, row["claim"], row["offset"]] = row
        for (group_id, queue_id), origin in origins.items():
            for first, last in _runs(sorted(origin)):
                for claim in self._fetch("delivery.around", group_id, queue_id, first - _WIDEST_CLAIM, last):
                    for row in self._messages_of(claim, group_id, queue_id, origin):
                        rows.deliveries[group_id, queue_id, row["number"], row["offset"]] = row

    def _fires(self, rows: Rows) -> None:
        """Adds what schedules did with their messages, whose headers name the schedule."""
        ids = {name: id_ for id_, (_, name) in self._facts.schedules.items()}
        wanted: dict[int, dict[int, int]] = {}
        """By schedule and fire time, the message that names them."""
        for row in (row for place in (rows.messages, rows.timers, rows.dead) for row in place.values()):
            said = schedule_of(row["headers"])
            if said is not None and said[0] in ids:
                with suppress(ValueError):
                    wanted.setdefault(ids[said[0]], {})[parse_time(said[1], "fire time")] = row["id"]
        for schedule_id, times in wanted.items():
            for some in _some(sorted(times)):
                for row in self._fetch("fire.some", schedule_id, some):
                    if row["message_id"] == times[row["fire_at"]]:
                        known = {"schedule": self._facts.schedules[schedule_id][1], "outcome": _word(row["outcome"])}
                        rows.fires[schedule_id, row["fire_at"], row["at"]] = row | known

    def _carry(self, rows: Rows, ids: list[int], places: Mapping[int, tuple[int, int]]) -> None:
        """Adds messages that are on the ladder, parked, or back from there."""

        def place(row: Row) -> dict[str, int]:
            queue_id, offset = places[row["message_id"]]
            return {"message_queue_id": queue_id, "message_offset": offset}

        for row in self._fetch("retry.of_messages", ids):
            if (group := self._groups.get(row["group_id"])) is not None:
                rows.retries.append(row | group | place(row) | {"due": row["id"] >> SEQUENCE_BITS, "parked": False})
        for row in self._fetch("parked.of_messages", ids):
            if (group := self._groups.get(row["group_id"])) is not None:
                rows.retries.append(row | group | place(row) | {"due": row["parked_at"], "parked": True})
        for row in self._fetch("redelivery.of_messages", ids):
            queue = self._facts.queues.get(row["queue_id"])
            if queue is not None and (group := self._groups.get(queue.group_id)) is not None:
                rows.returns.append(row | group | place(row))

    def _messages_of(
        self, claim: Row, group_id: int, queue_id: int, origins: Mapping[int, Row]
    ) -> Iterator[dict[str, Any]]:
        """The messages of a claim that are looked for."""
        for offset, origin in origins.items():
            at = offset - claim["first"]
            if not 0 <= at < claim["size"]:
                continue
            settled_at = int.from_bytes(claim["settled_at"][8 * at : 8 * at + 8].ljust(8, b"\0"), "big")
            code = claim["outcome"][at] if at < len(claim["outcome"]) else 0
            yield {
                **self._groups[group_id],
                "queue_id": queue_id,
                "offset": offset,
                **{name: claim[name] for name in ("number", "claim", "client", "claimed_at")},
                **{name: origin[name] for name in ("message_queue_id", "message_offset", "attempt", "history")},
                "outcome": OUTCOMES.get(code, f"outcome {code}"),
                "settled_at": (settled_at or None) if code else None,  # for an open one it says whether it is begun
                "ended_at": claim.get("ended_at"),
            }

    def _fetch(self, query: str, *values: Any) -> list[dict[str, Any]]:
        rows = self._connection.fetch(query, *values)
        return [
            {name: text_of(value) if name in _TEXTS and value is not None else value for name, value in row.items()}
            for row in rows
        ]


def _word(outcome: int) -> str:
    return FIRE_OUTCOMES[outcome] if outcome < len(FIRE_OUTCOMES) else "other"


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Near offsets as (first, last), so that a stretch of the log is read once."""
    begin = 0
    for at, offset in enumerate(offsets, 1):
        if at == len(offsets) or offsets[at] > offset + _WIDEST_CLAIM:
            yield offsets[begin], offset
            begin = at


def _some(values: Sequence[int]) -> Iterator[list[int]]:
    for at in range(0, len(values), _TOGETHER):
        yield list(values[at : at + _TOGETHER])
