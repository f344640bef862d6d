"""The time line of messages, on literal rows."""

import json
from typing import Any

from pyspark.sql import SparkSession

from support.literal_tables import literal_tables, rows_of
from tarry.pipeline.tables import Tables
from tarry.pipeline.trace import TIMELINE, timeline, with_ids, with_key


def _told(tables: Tables, *ids: int) -> list[tuple[Any, ...]]:
    """(id, at, what, and whatever else is not null)."""
    return [
        (row["id"], row["at"], row["what"], *(row[name] for name in TIMELINE.names[5:] if row[name] is not None))
        for row in rows_of(timeline(tables, ids))
    ]


def test_nothing_is_known_of_nothing(spark: SparkSession) -> None:
    frame = timeline(literal_tables(spark), [1])
    assert frame.schema == TIMELINE
    assert rows_of(frame) == []
    assert rows_of(with_ids(literal_tables(spark), [1])) == []


def test_the_whole_row(spark: SparkSession) -> None:
    message = {"id": 7, "offset": 3, "queue": 2, "key": "order-7", "deliver_at": 100, "accepted_at": 100}
    tables = literal_tables(
        spark,
        messages=[message],
        deliveries=[{"offset": 3, "claimed_at": 120, "settled_at": 150, "client": "c", "outcome": "acked"}],
    )
    row = dict.fromkeys(TIMELINE.names) | {"topic": "t", "id": 7, "key": "order-7"}
    assert rows_of(timeline(tables, [7])) == [
        row | {"at": 100, "what": "accepted"},
        row | {"at": 100, "what": "streamed", "queue": 2, "offset": 3},
        row | {"at": 120, "what": "claimed", "group": "g", "client": "c", "attempt": 1},
        row | {"at": 150, "what": "acked", "group": "g", "client": "c", "attempt": 1, "held_ms": 30},
    ]


def test_a_life_of_failures(spark: SparkSession) -> None:
    history = [{"at": 150, "client": "a", "reason": "no crew"}, {"at": 400, "client": "b", "reason": "lease lost"}]
    back: dict[str, Any] = {"queue_id": 9, "message_queue_id": 1, "message_offset": 3}
    tables = literal_tables(
        spark,
        messages=[
            {"id": 7, "offset": 3, "deliver_at": 100, "accepted_at": 10, "streamed_at": 101},
            {"id": 8, "offset": 4, "deliver_at": 100},
        ],
        deliveries=[
            {"offset": 3, "claimed_at": 120, "settled_at": 150, "client": "a", "outcome": "retried"},
            {"offset": 3, "claimed_at": 110, "settled_at": 115, "client": "z", "outcome": "suspended"},
            {"offset": 3, "group": "h", "group_id": 2, "claimed_at": 130, "outcome": "skipped", "settled_at": None},
            {"offset": 4, "claimed_at": 120, "settled_at": 121},
            {
                **back,
                "offset": 0,
                "attempt": 2,
                "claimed_at": 300,
                "settled_at": 400,
                "client": "b",
                "outcome": "lost_dead",
                "history": json.dumps(history[:1]),
            },
        ],
        returns=[{**back, "offset": 0, "attempt": 2, "streamed_at": 300, "history": json.dumps(history[:1])}],
        dead=[{"id": 7, "offset": 3, "accepted_at": 10, "dead_at": 400, "history": json.dumps(history)}],
    )
    assert _told(tables, 7) == [
        (7, 10, "accepted"),
        (7, 100, "due"),
        (7, 101, "streamed", 0, 3),
        (7, 110, "claimed", "g", "z", 1),
        (7, 115, "suspended", "g", "z", 1, 5),
        (7, 120, "claimed", "g", "a", 1),
        (7, 130, "skipped", "h", 1),
        (7, 150, "failed", "g", "a", 1, "no crew", 30),
        (7, 300, "returned", "g", 2),
        (7, 300, "claimed", "g", "b", 2),
        (7, 400, "lease_lost", "g", "b", 2, "lease lost", 100),
        (7, 400, "dead", "g"),
    ]


def test_what_waits_what_is_parked_and_what_was_cancelled(spark: SparkSession) -> None:
    tables = literal_tables(
        spark,
        messages=[{"id": n, "offset": n, "deliver_at": 100} for n in (1, 2)],
        claims=[{"offset": 1, "claimed_at": 120}],
        deliveries=[{"offset": 2, "claimed_at": 120, "outcome": "parked", "settled_at": None}],
        retries=[
            {"message_queue_id": 1, "message_offset": 2, "message_id": 2, "attempt": 2, "due": 140, "parked": True},
            {"message_queue_id": 1, "message_offset": 1, "message_id": 1, "attempt": 3, "due": 900}
            | {"group": "h", "history": json.dumps([{"at": 1, "client": "x", "reason": "r"}])},
        ],
        timers=[{"id": 3, "due": 500, "accepted_at": 20}],
        cancelled=[{"id": 4, "deliver_at": 600, "accepted_at": 30, "cancelled_at": 40}],
    )
    assert _told(tables, 1, 2, 3, 4) == [
        (1, 100, "accepted"),
        (1, 100, "streamed", 0, 1),
        (1, 120, "claimed", "g", "c", 1),
        (1, 900, "waiting", "h", 3),
        (2, 100, "accepted"),
        (2, 100, "streamed", 0, 2),
        (2, 140, "parked", "g", 2),
        (3, 20, "accepted"),
        (3, 500, "waiting"),
        (4, 30, "accepted"),
        (4, 40, "cancelled"),
    ]


def test_a_dead_letter_tells_of_a_message_that_is_gone(spark: SparkSession) -> None:
    tables = literal_tables(
        spark,
        dead=[
            {"id": 7, "offset": 3, "accepted_at": 10, "dead_at": 400, "group": group, "group_id": n}
            for n, group in enumerate("gh")
        ],
    )
    assert _told(tables, 7) == [(7, 10, "accepted"), (7, 400, "dead", "g"), (7, 400, "dead", "h")]


def test_the_messages_of_a_key_wherever_they_are(spark: SparkSession) -> None:
    plain = {"key": "order-7", "accepted_at": 5, "deliver_at": 9}
    tables = literal_tables(
        spark,
        messages=[plain | {"id": 1, "offset": 0}, plain | {"id": 2, "offset": 1, "key": "Order-7"}],
        timers=[plain | {"id": 3, "due": 9}],
        cancelled=[plain | {"id": 4, "cancelled_at": 6}],
        dead=[plain | {"id": 1, "offset": 0, "dead_at": 7}, plain | {"id": 5, "offset": 9, "dead_at": 7}],
    )
    found = rows_of(with_key(tables, "order-7").orderBy("id"))
    assert found == [{"topic": "t", "id": id_, "accepted_at": 5} for id_ in (1, 3, 4, 5)]
    assert [row["id"] for row in rows_of(with_ids(tables, [2, 5, 6]).orderBy("id"))] == [2, 5]
