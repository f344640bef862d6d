"""What a store knows of a few messages: small reads by the keys of its tables, none of a whole one but by a key's name.

Nothing here needs Spark. Messages are looked for in the order in which they move, so that none slips by; claims before
the log into which they go.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ...store.ids import SEQUENCE_BITS, shard_of
from ..link import Link
from ..schemas import OUTCOMES
from ..source.facts import Facts
from .timeline import Row, Rows

_TOGETHER = 500
"""Ids to a statement."""
_WIDEST_CLAIM = 1000


class StoreRows:
    """Reads one store, over one connection."""

    def __init__(self, link: Link, facts: Facts, topics: Iterable[str] | None) -> None:
        self._link, self._facts = link, facts
        wanted = None if topics is None else set(topics)
        self._topics = {id_: name for id_, name in facts.topics.items() if wanted is None or name in wanted}
        self._groups = {id_: name for id_, (topic_id, name) in facts.groups.items() if topic_id in self._topics}

    def knows(self, topic: str) -> bool:
        return topic in self._facts.topics.values()

    def ids_of_key(self, key: str) -> set[int]:
        """All messages of a business key; also those of which only a dead letter is left."""
        literal = key.encode()
        rows = [
            row
            for some in _some(list(self._topics))
            for row in self._rows("SELECT id FROM label WHERE topic_id IN (?*) AND `key` = ?", some, literal)
        ]
        rows += [
            row
            for some in _some(list(self._groups))
            for row in self._rows("SELECT id FROM dead WHERE group_id IN (?*) AND `key` = ?", some, literal)
        ]
        return {int(row[0]) for row in rows}

    def find(self, rows: Rows, ids: Sequence[int]) -> None:
        """Adds the messages of these ids, wherever they are, and their dead letters."""
        for some in _some(ids):
            by_shard = [(shard_of(id_), id_) for id_ in some]
            for id_, topic_id, due, *content in self._rows(
                "SELECT id, topic_id, due, `key`, accepted_at, deliver_at FROM delay WHERE (shard, id) IN (?*)",
                by_shard,
            ):
                if topic_id in self._topics:
                    rows.timers[id_] = {"topic": self._topics[topic_id], "id": id_, "due": due, **_content(content)}
            for id_, topic_id, at, *content in self._rows(
                "SELECT id, topic_id, cancelled_at, `key`, accepted_at, deliver_at FROM cancelled"
                " WHERE (shard, id) IN (?*)",
                by_shard,
            ):
                if topic_id in self._topics:
                    told = {"topic": self._topics[topic_id], "id": id_, "cancelled_at": at}
                    rows.cancelled[id_] = told | _content(content)
            for id_, queue_id, offset, at, *content in self._rows(
                "SELECT id, queue_id, `offset`, streamed_at, `key`, accepted_at, deliver_at FROM message"
                " WHERE id IN (?*)",
                some,
            ):
                queue = self._facts.queues.get(queue_id)
                if queue is not None and queue.topic_id in self._topics:
                    rows.messages[queue_id, offset] = {
                        "topic": self._topics[queue.topic_id],
                        "id": id_,
                        "queue_id": queue_id,
                        "queue": queue.number,
                        "offset": offset,
                        "streamed_at": at,
                        **_content(content),
                    }
            for groups in _some(list(self._groups)):
                self._letters(rows, groups, some)

    def _letters(self, rows: Rows, groups: list[int], ids: list[int]) -> None:
        sql = (
            "SELECT group_id, id, dead_at, history, queue_id, `offset`, `key`, accepted_at, deliver_at FROM dead"
            " WHERE group_id IN (?*) AND id IN (?*)"
        )
        for group_id, id_, at, history, queue_id, offset, *content in self._rows(sql, groups, ids):
            rows.dead[group_id, id_, at] = {
                **self._of_group(group_id),
                "id": id_,
                "dead_at": at,
                "history": _text(history),
                "queue_id": queue_id,
                "offset": offset,
                **_content(content),
            }

    def follow(self, rows: Rows) -> None:
        """Adds what the groups did, and have yet to do, with the messages that `rows` has."""
        known = (*rows.messages.values(), *rows.dead.values())
        places = sorted({(row["queue_id"], row["offset"]) for row in known})
        for some in _some(sorted({row["id"] for row in known})):
            self._carried(rows, some)
        own = {
            (cursor.group_id, queue_id): [offset for at, offset in places if at == queue_id]
            for queue_id in {queue_id for queue_id, _ in places}
            for cursor in self._facts.cursors
            if cursor.queue_id == queue_id and cursor.group_id in self._groups
        }
        back: dict[tuple[int, int], dict[int, Row]] = {}
        for row in rows.returns:
            back.setdefault((row["group_id"], row["queue_id"]), {})[row["offset"]] = row
        for (group_id, queue_id), offsets in own.items():
            self._handled(rows, group_id, queue_id, offsets, partial(_first_attempt, queue_id))
        for (group_id, queue_id), returned in back.items():
            self._handled(rows, group_id, queue_id, sorted(returned), returned.__getitem__)

    def _carried(self, rows: Rows, ids: list[int]) -> None:
        """On the ladder, parked, or back from there."""
        for group_id, id_, *told in self._rows(
            "SELECT group_id, id, message_queue_id, message_offset, attempt, history FROM retry"
            " WHERE message_id IN (?*)",
            ids,
        ):
            if group_id in self._groups:
                due = int(id_) >> SEQUENCE_BITS
                rows.retries.append({**self._of_group(group_id), "due": due, "parked": False, **_carrier(told)})
        for group_id, due, *told in self._rows(
            "SELECT group_id, parked_at, queue_id, message_offset, attempt, history FROM parked"
            " WHERE message_id IN (?*)",
            ids,
        ):
            if group_id in self._groups:
                rows.retries.append({**self._of_group(group_id), "due": due, "parked": True, **_carrier(told)})
        for queue_id, offset, at, *told in self._rows(
            "SELECT queue_id, `offset`, streamed_at, message_queue_id, message_offset, attempt, history"
            " FROM redelivery WHERE message_id IN (?*)",
            ids,
        ):
            queue = self._facts.queues.get(queue_id)
            if queue is not None and queue.group_id in self._groups:
                place = {"queue_id": queue_id, "offset": offset, "streamed_at": at}
                rows.returns.append({**self._of_group(queue.group_id), **place, **_carrier(told)})

    def _handled(
        self, rows: Rows, group_id: int, queue_id: int, offsets: Sequence[int], source: Callable[[int], Row]
    ) -> None:
        for claim in self._rows(
            "SELECT number, number, client, `first`, size, claimed_at, NULL, outcome, settled_at FROM claim"
            " WHERE group_id = ? AND queue_id = ?",
            *(group_id, queue_id),
        ):
            for row in self._messages_of(claim, group_id, queue_id, offsets, source):
                rows.claims[group_id, queue_id, row["claim"], row["offset"]] = row
        for first, last in _runs(offsets):
            for claim in self._rows(
                "SELECT number, claim, client, `first`, size, claimed_at, ended_at, outcome, settled_at"
                " FROM delivery /*! FORCE INDEX (idx_delivery_multi_first) */"
                " WHERE group_id = ? AND queue_id = ? AND `first` > ? AND `first` <= ?",
                *(group_id, queue_id, first - _WIDEST_CLAIM, last),
            ):
                for row in self._messages_of(claim, group_id, queue_id, offsets, source):
                    rows.deliveries[group_id, queue_id, row["number"], row["offset"]] = row

    def _messages_of(
        self, claim: Sequence[Any], group_id: int, queue_id: int, offsets: Sequence[int], source: Callable[[int], Row]
    ) -> Iterator[Row]:
        """Those of a claim that are looked for."""
        number, name, client, first, size, claimed_at, ended_at, outcomes, settled = claim
        for offset in offsets:
            at = offset - first
            if not 0 <= at < size:
                continue
            when = int.from_bytes(settled[8 * at : 8 * at + 8].ljust(8, b"\0"), "big")
            code = outcomes[at] if at < len(outcomes) else 0
            told = source(offset)
            yield {
                **self._of_group(group_id),
                "queue_id": queue_id,
                "offset": offset,
                "number": number,
                "claim": name,
                "client": _text(client),
                **{name: told[name] for name in ("message_queue_id", "message_offset", "attempt", "history")},
                "outcome": OUTCOMES.get(code, f"outcome {code}"),
                "claimed_at": claimed_at,
                "settled_at": when or None,
                "ended_at": ended_at,
            }

    def _of_group(self, group_id: int) -> dict[str, Any]:
        topic_id, name = self._facts.groups[group_id]
        return {"topic": self._facts.topics[topic_id], "group": name, "group_id": group_id}

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """`?` takes a value, `?*` the values of a list, in brackets where each is a tuple."""
        given: list[object] = []
        for value in values:
            if not isinstance(value, list):
                given.append(value)
                continue
            some: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            pairs = bool(some) and isinstance(some[0], tuple)
            sql = sql.replace("?*", ", ".join(["(?, ?)" if pairs else "?"] * len(some)), 1)
            given += [part for pair in some for part in pair] if pairs else some
        return self._link.rows(sql, given)


def _first_attempt(queue_id: int, offset: int) -> Row:
    return {"message_queue_id": queue_id, "message_offset": offset, "attempt": 1, "history": None}


def _carrier(told: Sequence[Any]) -> dict[str, Any]:
    queue_id, offset, attempt, history = told
    place = {"message_queue_id": queue_id, "message_offset": offset}
    return {**place, "attempt": attempt, "history": _text(history)}


def _content(values: Sequence[Any]) -> dict[str, Any]:
    key, accepted_at, deliver_at = values
    return {"key": None if key is None else _text(key), "accepted_at": accepted_at, "deliver_at": deliver_at}


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Near ones together, so that a stretch of the log is read once."""
    begin = end = None
    for offset in offsets:
        if begin is None or end is None:
            begin = end = offset
        elif offset <= end + _WIDEST_CLAIM:
            end = offset
        else:
            yield begin, end
            begin = end = offset
    if begin is not None and end is not None:
        yield begin, end


def _some(values: Sequence[int]) -> Iterator[list[int]]:
    for at in range(0, len(values), _TOGETHER):
        yield list(values[at : at + _TOGETHER])


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")
