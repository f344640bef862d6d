"""The time line of messages: everything that is known of them, in the order in which it happened.

What a group's consumers did is in the delivery log and the open claims; why they failed is in the history that the next
delivery, the retry, the return or the dead letter carries. Pure: rows in, events out.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from ...store.history import UNREADABLE, Attempt, nearest, numbered
from ..schemas import SUPPRESSED
from ..times import moment, time_text

Row = Mapping[str, Any]
"""A row with the columns of its table in `schemas`; times are milliseconds since 1970."""


@frozen
class Rows:
    """What is known of some messages, each row once, by its key."""

    messages: dict[Any, Row] = field(factory=dict[Any, Row])
    """By (queue_id, offset)."""
    timers: dict[Any, Row] = field(factory=dict[Any, Row])
    cancelled: dict[Any, Row] = field(factory=dict[Any, Row])
    """Both by id."""
    dead: dict[Any, Row] = field(factory=dict[Any, Row])
    """By (group_id, id, dead_at)."""
    deliveries: dict[Any, Row] = field(factory=dict[Any, Row])
    """By (group_id, queue_id, number, offset)."""
    claims: dict[Any, Row] = field(factory=dict[Any, Row])
    """By (group_id, queue_id, claim, offset)."""
    retries: list[Row] = field(factory=list[Row])
    returns: list[Row] = field(factory=list[Row])
    fires: dict[Any, Row] = field(factory=dict[Any, Row])
    """By (schedule_id, fire_at, at): those that had a message."""
    erased: dict[int, int] = field(factory=dict[int, int])
    """When messages were erased, by id."""


@frozen
class Event:
    """Something that happened to a message, or is to."""

    at: int
    """Milliseconds since 1970."""
    topic: str
    id: int
    key: str | None
    what: str
    """One of `EVENTS`."""
    group: str | None = None
    client: str | None = None
    attempt: int | None = None
    reason: str | None = None
    """Why it failed; of a message of a schedule: the schedule, the fire time, and whether an operator asked for it; of
    a suppressed message: the guard."""
    queue: int | None = None
    """Where it is in the stream; only of `streamed`."""
    offset: int | None = None
    held_ms: int | None = None
    """Milliseconds since the hand-out that this ends."""


EVENTS = (
    "accepted",
    "cancelled",
    "suppressed",  # its guard said no
    "due",
    "kept",  # back by its schedule, until the one before is settled
    "fired",  # its schedule has sent it
    "streamed",
    "skipped",  # its tag was not asked for
    "returned",  # from the ladder into the retry queue
    "claimed",
    "acked",
    "failed",
    "lease_lost",
    "suspended",
    "expired",  # past its time, or no longer in the stream, when it was claimed or would have come back
    "released",  # by a seek, which closed its claim
    "parked",  # behind one of its key that has to come back first
    "dead",
    "erased",  # its body and headers, by an operator
    "waiting",  # for its time, or on the ladder: `at` is when that is over
)
"""Events of the same millisecond are in this order."""

_ENDS = {
    "acked": "acked",
    "acked_outside": "acked",
    "retried": "failed",
    "dead": "failed",
    "lost": "lease_lost",
    "lost_dead": "lease_lost",
    **{outcome: outcome for outcome in ("suspended", "released", "parked", "expired", "skipped")},
}
_SENT_BY = {"tarry-schedule", "tarry-fire-at"}
"""Headers of each message of a schedule."""
_NEVER_HAD = ("skipped", "expired")
"""Nobody had a message with such an outcome, unless it has a time: then it had failed, and would have come back after
its end."""
_WITH_REASON = ("failed", "lease_lost")

_Of = tuple[str, int, str | None]
"""Topic, id and key."""
_Attempts = dict[tuple[int, str | None, int | None], list[Attempt]]
"""By message, group and attempt."""


def timeline(rows: Rows) -> list[Event]:
    """The events by the ids of their messages, each message's in order of time."""
    places = _places(rows)
    claims = _still_open(rows)
    handled = [(row, of) for row in (*rows.deliveries.values(), *claims) if (of := places.get(_place(row)))]
    carriers = [(row, of) for row in (*rows.retries, *rows.returns) if (of := places.get(_place(row)))]
    letters = [(row, _of(row)) for row in rows.dead.values()]
    attempts = _attempts([*handled, *carriers, *letters])
    events = dict.fromkeys([*_before_any_group(rows), *_handled(handled), *_on_the_ladder(carriers), *_deaths(letters)])
    explained = _with_reasons(list(events), attempts)
    return sorted(
        explained,
        key=lambda e: (e.id, e.at, EVENTS.index(e.what), e.group or "", -1 if e.attempt is None else e.attempt),
    )


def _of(row: Row) -> _Of:
    return row["topic"], row["id"], row["key"]


def _place(row: Row) -> tuple[Any, Any]:
    return row["message_queue_id"], row["message_offset"]


def _places(rows: Rows) -> dict[tuple[Any, Any], _Of]:
    """The messages by where each is, or was when it died."""
    every = (*rows.dead.values(), *rows.messages.values())
    return {(row["queue_id"], row["offset"]): _of(row) for row in every}


def _still_open(rows: Rows) -> list[Row]:
    """The claims that are open. One that ended between two reads is in the log, too, and is taken from there."""
    ended = {(row["group_id"], row["queue_id"], row["claim"]) for row in rows.deliveries.values()}
    return [row for row in rows.claims.values() if (row["group_id"], row["queue_id"], row["claim"]) not in ended]


def _before_any_group(rows: Rows) -> Iterator[Event]:
    """Events before any group had a message. If the message is gone, its dead letter tells of them."""
    known = (rows.messages, rows.timers, rows.cancelled, rows.dead)
    for row in (row for place in known for row in place.values()):
        yield Event(row["accepted_at"], *_of(row), "accepted", reason=_sent_by(row.get("headers")))
        if row["id"] in rows.erased:
            yield Event(rows.erased[row["id"]], *_of(row), "erased")
    for row in rows.messages.values():
        if row["deliver_at"] > row["accepted_at"]:
            yield Event(row["deliver_at"], *_of(row), "due")
        yield Event(row["streamed_at"], *_of(row), "streamed", queue=row["queue"], offset=row["offset"])
    for row in rows.cancelled.values():
        what = "suppressed" if row["reason"] == SUPPRESSED else "cancelled"
        reason = None if row["guard"] is None else f"guard {row['guard']}"
        yield Event(row["cancelled_at"], *_of(row), what, reason=reason)
    for row in rows.timers.values():
        yield Event(row["due"], *_of(row), "waiting")
    yield from _fired(rows)


def _fired(rows: Rows) -> Iterator[Event]:
    """The events of schedules with their messages."""
    places = (rows.messages, rows.timers, rows.cancelled, rows.dead)
    of = {row["id"]: _of(row) for place in places for row in place.values()}
    for row in rows.fires.values():
        if row["message_id"] in of:
            what = "kept" if row["outcome"] == "kept" else "fired"
            asked_for = f", {row['outcome']}" if row["outcome"] in ("run", "backfilled") else ""
            reason = f"schedule {row['schedule']}, fire time {time_text(moment(row['fire_at']))}{asked_for}"
            yield Event(row["at"], *of[row["message_id"]], what, reason=reason)


def _sent_by(headers: str | None) -> str | None:
    said = schedule_of(headers)
    return None if said is None else f"schedule {said[0]}, fire time {said[1]}"


def schedule_of(headers: str | None) -> tuple[str, str] | None:
    """The schedule and the fire time that the headers of its message name; None for headers without them."""
    try:
        said: Any = json.loads(headers or "{}")
    except ValueError:
        return None
    if not isinstance(said, dict) or not said.keys() >= _SENT_BY:  # pyright: ignore[reportUnknownMemberType]
        return None
    return str(said["tarry-schedule"]), str(said["tarry-fire-at"])  # pyright: ignore[reportUnknownArgumentType]


def _handled(handled: Iterable[tuple[Row, _Of]]) -> Iterator[Event]:
    """Hand-outs and how they ended."""
    for row, of in handled:
        outcome, settled = row["outcome"], row["settled_at"]
        if outcome == "parked" and settled is None:
            continue  # it lay in the claim, and nobody had it
        over = next(at for at in (settled, row["ended_at"], row["claimed_at"]) if at is not None)
        group, attempt = row["group"], row["attempt"]
        if outcome in _NEVER_HAD and settled is None:
            yield Event(over, *of, _ENDS[outcome], group, attempt=attempt)
            continue
        yield Event(row["claimed_at"], *of, "claimed", group, row["client"], attempt)
        if outcome in _ENDS:
            held = None if settled is None else settled - row["claimed_at"]
            yield Event(over, *of, _ENDS[outcome], group, row["client"], attempt, held_ms=held)
        if outcome in ("dead", "lost_dead"):  # the letter itself may have been redriven or purged
            yield Event(over, *of, "dead", group)


def _on_the_ladder(carriers: Iterable[tuple[Row, _Of]]) -> Iterator[Event]:
    for row, of in carriers:
        if "streamed_at" in row:
            yield Event(row["streamed_at"], *of, "returned", row["group"], attempt=row["attempt"])
        else:
            what = "parked" if row["parked"] else "waiting"
            yield Event(row["due"], *of, what, row["group"], attempt=row["attempt"])


def _deaths(letters: Iterable[tuple[Row, _Of]]) -> Iterator[Event]:
    for row, of in letters:
        yield Event(row["dead_at"], *of, "dead", row["group"])


def _attempts(carriers: Sequence[tuple[Row, _Of]]) -> _Attempts:
    """Failed attempts by message, group and number, from the histories of later ones. Those without a reason are left
    out."""
    attempts: _Attempts = defaultdict(list)
    for row, (_, id_, _key) in carriers:
        for number, attempt in numbered((row["history"] or "[]").encode()):
            if attempt.reason not in (None, UNREADABLE):
                attempts[id_, row["group"], number].append(attempt)
    return attempts


def _with_reasons(events: Sequence[Event], attempts: _Attempts) -> list[Event]:
    """The events, with the reasons of failed attempts."""
    ends: dict[tuple[int, str | None, int | None], list[int]] = defaultdict(list)
    for place, event in enumerate(events):
        if event.what in _WITH_REASON:
            ends[event.id, event.group, event.attempt].append(place)
    told = list(events)
    for key, places in ends.items():
        for which, attempt in nearest([events[place].at for place in places], attempts.get(key, ())).items():
            told[places[which]] = evolve(events[places[which]], reason=attempt.reason)
    return told
