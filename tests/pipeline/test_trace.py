"""The time line of messages, on literal rows."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from attrs import astuple

from support.literal_tables import Literal, filled
from support.timeline_rows import rows_by_table
from tarry.pipeline.trace.timeline import Event, Rows, timeline


def _rows(**tables: Iterable[Literal]) -> Rows:
    """Rows as a store or a lake would have them; what tells them from others is their place here."""
    return rows_by_table({name: [filled(name, row) for row in rows] for name, rows in tables.items()})


def _told(rows: Rows) -> list[tuple[Any, ...]]:
    """(id, at, what, and whatever else is known)."""
    return [
        (event.id, event.at, event.what, *(value for value in astuple(event)[5:] if value is not None))
        for event in timeline(rows)
    ]


def test_nothing_is_known_of_nothing() -> None:
    assert timeline(Rows()) == []


def test_the_whole_row() -> None:
    message = {"id": 7, "offset": 3, "queue": 2, "key": "order-7", "deliver_at": 100, "accepted_at": 100}
    rows = _rows(
        messages=[message],
        deliveries=[{"offset": 3, "claimed_at": 120, "settled_at": 150, "client": "c", "outcome": "acked"}],
    )
    of = ("t", 7, "order-7")
    assert timeline(rows) == [
        Event(100, *of, "accepted"),
        Event(100, *of, "streamed", queue=2, offset=3),
        Event(120, *of, "claimed", "g", "c", 1),
        Event(150, *of, "acked", "g", "c", 1, held_ms=30),
    ]


def test_a_life_of_failures() -> None:
    history = [{"at": 150, "client": "a", "reason": "no crew"}, {"at": 400, "client": "b", "reason": "lease lost"}]
    back: dict[str, Any] = {"queue_id": 9, "offset": 0, "message_queue_id": 1, "message_offset": 3, "attempt": 2}
    back["history"] = json.dumps(history[:1])
    rows = _rows(
        messages=[
            {"id": 7, "offset": 3, "deliver_at": 100, "accepted_at": 10, "streamed_at": 101},
        ],
        deliveries=[
            {"offset": 3, "claimed_at": 120, "settled_at": 150, "client": "a", "outcome": "retried"},
            {"offset": 3, "claimed_at": 110, "settled_at": 115, "client": "z", "outcome": "suspended"},
            {"offset": 3, "group": "h", "group_id": 2, "claimed_at": 130, "outcome": "skipped", "settled_at": None},
            {"offset": 4, "claimed_at": 120, "settled_at": 121},  # of another message
            back | {"claimed_at": 300, "settled_at": 400, "client": "b", "outcome": "lost_dead"},
        ],
        returns=[back | {"streamed_at": 300}],
        dead=[{"id": 7, "offset": 3, "accepted_at": 10, "dead_at": 400, "history": json.dumps(history)}],
    )
    assert _told(rows) == [
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


def test_what_a_guard_has_suppressed_and_what_was_erased() -> None:
    times = {"deliver_at": 600, "accepted_at": 30, "cancelled_at": 40}
    told = [
        filled("cancelled", {"id": id_, **times, "reason": reason, "guard": reason and "unpaid"})
        for id_, reason in ((4, "suppressed"), (5, None))
    ]
    rows = rows_by_table({"cancelled": told})
    rows.erased[5] = 700
    assert [(event.id, event.at, event.what, event.reason) for event in timeline(rows)] == [
        (4, 30, "accepted", None),
        (4, 40, "suppressed", "guard unpaid"),
        (5, 30, "accepted", None),
        (5, 40, "cancelled", None),
        (5, 700, "erased", None),
    ]


def test_what_expired_in_somebodys_hands_was_claimed() -> None:
    gone = {"claimed_at": 100, "outcome": "expired", "client": "a"}
    rows = _rows(
        messages=[{"id": n, "offset": n, "deliver_at": 9} for n in (1, 2)],
        deliveries=[{**gone, "offset": 1, "settled_at": 100}, {**gone, "offset": 2, "settled_at": None}],
    )
    told = [(event.id, event.what, event.client) for event in timeline(rows) if event.at == 100]
    assert told == [(1, "claimed", "a"), (1, "expired", "a"), (2, "expired", None)]


def test_who_sent_the_message_of_a_schedule() -> None:
    said = [
        '{"a": "b", "tarry-schedule": "nightly", "tarry-fire-at": "2026-11-23T02:00:00.000Z"}',
        '{"tarry-schedule": "nightly"}',
        "no JSON",
        '["tarry-schedule", "tarry-fire-at"]',
        None,
    ]
    rows = _rows(messages=[{"id": n, "offset": n, "deliver_at": 9, "headers": text} for n, text in enumerate(said)])
    reasons = [event.reason for event in timeline(rows) if event.what == "accepted"]
    assert reasons == ["schedule nightly, fire time 2026-11-23T02:00:00.000Z", None, None, None, None]


def test_what_its_schedule_did_with_it() -> None:
    fire = {"message_id": 7, "fire_at": 0}
    rows = _rows(
        messages=[{"id": 7, "offset": 3, "deliver_at": 90, "accepted_at": 10, "streamed_at": 300}],
        fires=[
            {**fire, "at": 90, "outcome": "kept"},
            {**fire, "at": 300, "outcome": "fired"},
            {**fire, "at": 300, "message_id": 8},  # of another message
        ],
    )
    told = "schedule daily, fire time 1970-01-01T00:00:00.000Z"
    assert _told(rows) == [
        (7, 10, "accepted"),
        (7, 90, "due"),
        (7, 90, "kept", told),
        (7, 300, "fired", told),
        (7, 300, "streamed", 0, 3),
    ]


@pytest.mark.parametrize("outcome", ["run", "backfilled"])
def test_what_somebody_asked_of_a_schedule(outcome: str) -> None:
    fires = [{"message_id": 7, "fire_at": 0, "at": 5, "outcome": outcome}]
    (_, fired, _) = timeline(_rows(messages=[{"id": 7, "deliver_at": 5}], fires=fires))
    assert fired.reason == f"schedule daily, fire time 1970-01-01T00:00:00.000Z, {outcome}"


def test_what_waits_what_is_parked_and_what_was_cancelled() -> None:
    rows = _rows(
        messages=[{"id": n, "offset": n, "deliver_at": 100} for n in (1, 2)],
        claims=[{"offset": 1, "claim": 1, "claimed_at": 120}],
        deliveries=[{"offset": 2, "claimed_at": 120, "outcome": "parked", "settled_at": None}],
        retries=[
            {"message_queue_id": 1, "message_offset": 2, "message_id": 2, "attempt": 2, "due": 140, "parked": True},
            {"message_queue_id": 1, "message_offset": 1, "message_id": 1, "attempt": 3, "due": 900}
            | {"group": "h", "history": json.dumps([{"at": 1, "client": "x", "reason": "r"}])},
        ],
        timers=[{"id": 3, "due": 500, "accepted_at": 20}],
        cancelled=[{"id": 4, "deliver_at": 600, "accepted_at": 30, "cancelled_at": 40}],
    )
    assert _told(rows) == [
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


def test_a_dead_letter_tells_of_a_message_that_is_gone() -> None:
    rows = _rows(
        dead=[
            {"id": 7, "offset": 3, "accepted_at": 10, "dead_at": 400, "group": group, "group_id": n}
            for n, group in enumerate("gh")
        ],
    )
    assert _told(rows) == [(7, 10, "accepted"), (7, 400, "dead", "g"), (7, 400, "dead", "h")]


def test_a_claim_that_ended_between_two_reads_is_told_once() -> None:
    handed = {"offset": 3, "claim": 5, "claimed_at": 120}
    rows = _rows(
        messages=[{"id": 7, "offset": 3, "deliver_at": 100}],
        claims=[handed | {"outcome": "open", "settled_at": None, "ended_at": None}],
        deliveries=[handed | {"settled_at": 150}],
    )
    assert [event.what for event in timeline(rows)] == ["accepted", "streamed", "claimed", "acked"]


def test_a_history_that_is_none_tells_no_reason() -> None:
    failed = {"offset": 3, "claimed_at": 120, "settled_at": 150, "outcome": "retried"}
    back = {"message_queue_id": 1, "message_offset": 3, "attempt": 2, "streamed_at": 200}
    for history in ("not JSON", "3", '["x", {"reason": null}]', None):
        rows = _rows(
            messages=[{"id": 7, "offset": 3, "deliver_at": 100}],
            deliveries=[failed],
            returns=[back | {"history": history}],
        )
        assert [(event.what, event.reason) for event in timeline(rows)][-2:] == [("failed", None), ("returned", None)]
