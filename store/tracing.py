"""Finding a message wherever it is, and its life: what happened to it, when, in which group."""

from collections.abc import Iterable, Mapping

import msgspec
from attrs import evolve, frozen

from .ids import due_of
from .ports import Row, Transaction
from .records import Event, Found, Outcome
from .text import decode

_WIDEST_CLAIM = 1000
_ENDS = {
    Outcome.ACKED: "acked",
    Outcome.ACKED_OUTSIDE: "acked",
    Outcome.RETRIED: "failed",
    Outcome.LOST: "lease_lost",
    Outcome.DEAD: "dead",
    Outcome.LOST_DEAD: "dead",
    Outcome.SUSPENDED: "suspended",
    Outcome.EXPIRED: "expired",
    Outcome.RELEASED: "released",
    Outcome.PARKED: "parked",
}
_WITH_REASON = {"failed", "lease_lost", "dead"}


async def find_message(tx: Transaction, id_: int) -> Found | None:
    """The message of this id, or None. Looks in the order in which a message can move, so that it cannot slip by."""
    waiting = await tx.fetch("delay.find", [id_])
    cancelled = await tx.fetch("cancelled.find", [id_])
    streamed = await tx.fetch("message.find", [id_])
    if streamed:
        return await _streamed(tx, streamed[0])
    if cancelled:
        _, topic_id, key, accepted_at, deliver_at, cancelled_at = cancelled[0]
        if (topic := await _topic_name(tx, topic_id)) is None:
            return None
        life = (Event("scheduled", accepted_at), Event("cancelled", cancelled_at))
        return Found(
            id=id_,
            topic=topic,
            state="cancelled",
            deliver_at=deliver_at,
            published_at=accepted_at,
            key=decode(key),
            life=life,
        )
    if waiting:
        _, _due, topic_id, _queue, *content, accepted_at, deliver_at = waiting[0]
        key, ordering_key, tag, headers, content_type, body = content
        if (topic := await _topic_name(tx, topic_id)) is None:
            return None
        return Found(
            id=id_,
            topic=topic,
            state="scheduled",
            deliver_at=deliver_at,
            published_at=accepted_at,
            key=decode(key),
            ordering_key=decode(ordering_key),
            tag=decode(tag),
            headers=headers,
            content_type=decode(content_type),
            body=body,
            life=(Event("scheduled", accepted_at),),
        )
    return None


async def _topic_name(tx: Transaction, topic_id: int) -> str | None:
    """None: the topic has been removed, and what is left of it is on its way out."""
    rows = await tx.fetch("topic.name", topic_id)
    return rows[0][0].decode() if rows else None


@frozen
class _Place:
    """Where a delivery of the message lay: in the topic's own queue, or in a group's retry queue."""

    group_id: int
    queue_id: int
    offset: int
    attempt: int


@frozen
class _Span:
    """A claim, open or ended, that may have held the message."""

    client: bytes
    first: int
    size: int
    claimed_at: int
    outcome: bytes
    settled_at: bytes


async def _streamed(tx: Transaction, row: Row) -> Found:
    id_, topic_id, queue_id, number, offset, key, ordering_key, tag, headers, content_type, body, *times = row
    accepted_at, deliver_at, streamed_at = times
    topic = await _topic_name(tx, topic_id)
    life = [Event("published", accepted_at)]
    if deliver_at > accepted_at:
        life = [Event("scheduled", accepted_at), Event("promoted", streamed_at)]
    groups = {r[0]: r[2].decode() for r in await tx.fetch("consumer_group.of_topics", [topic_id])}
    owners = {r[0]: r[2] for r in await tx.fetch("queue.of_topics", [topic_id])}
    histories: list[tuple[int, bytes]] = []
    places = [_Place(group_id, queue_id, offset, 1) for group_id in groups]
    for back_queue, back_offset, attempt, history, returned_at in await tx.fetch("redelivery.of_message", id_):
        group_id = owners.get(back_queue, 0)
        if group_id not in groups:
            continue  # removed, and what is left of it is on its way out
        places.append(_Place(group_id, back_queue, back_offset, attempt))
        life.append(Event("returned", returned_at, groups[group_id], attempt=attempt))
        histories.append((group_id, history))
    standings: set[str] = set()
    for place in places:
        events, held = await _handled(tx, place, groups[place.group_id])
        life += events
        standings |= {"claimed"} if held else set()
    for group_id, retry_id, attempt, history in await tx.fetch("retry.of_message", id_):
        if group_id not in groups:
            continue
        life.append(Event("retrying", due_of(retry_id), groups[group_id], attempt=attempt))
        histories.append((group_id, history))
        standings.add("retrying")
    for group_id, attempt, history, parked_at in await tx.fetch("parked.of_message", id_):
        if group_id not in groups:
            continue
        life.append(Event("waiting", parked_at, groups[group_id], attempt=attempt))
        histories.append((group_id, history))
        standings.add("parked")
    if groups:
        dead = await tx.fetch("dead.of_message", id_, list(groups))
        standings |= {"dead"} if dead else set()
        histories += [(group_id, history) for group_id, _dead_at, history in dead]
    life = sorted(_with_reasons(life, histories, groups), key=lambda event: event.at)
    return Found(
        id=id_,
        topic=topic or "",
        state="published",
        deliver_at=deliver_at,
        published_at=accepted_at,
        key=decode(key),
        ordering_key=decode(ordering_key),
        tag=decode(tag),
        headers=headers,
        content_type=decode(content_type),
        body=body,
        queue=number,
        offset=offset,
        life=tuple(life),
        standings=frozenset(standings),
    )


async def _handled(tx: Transaction, place: _Place, group: str) -> tuple[list[Event], bool]:
    """Who claimed it at this place, and how that ended; and whether somebody has it in hand."""
    spans = [
        _Span(client, first, size, claimed_at, outcome, settled_at)
        for client, first, size, claimed_at, _ended_at, outcome, settled_at in await tx.fetch(
            "delivery.of_offset", place.group_id, place.queue_id, place.offset - _WIDEST_CLAIM, place.offset
        )
    ]
    for row in await tx.fetch("claim.of_group", place.group_id):
        queue_id, _number, client, first, size, claimed_at, _lease_until, outcome, settled_at = row
        if queue_id == place.queue_id:
            spans.append(_Span(client, first, size, claimed_at, outcome, settled_at))
    events: list[Event] = []
    held = False
    for span in spans:
        at = place.offset - span.first
        if not 0 <= at < span.size:
            continue
        settled_at = int.from_bytes(span.settled_at[8 * at : 8 * at + 8], "big")
        if span.outcome[at] == Outcome.PARKED and not settled_at:
            continue  # it lay in the range, and was not handed out
        client = span.client.decode()
        outcome = Outcome(span.outcome[at])
        if outcome == Outcome.SKIPPED:  # its tag was not asked for: nobody had it
            events.append(Event("skipped", span.claimed_at, group, attempt=place.attempt))
            continue
        events.append(Event("claimed", span.claimed_at, group, client, place.attempt))
        if outcome == Outcome.OPEN:
            held = True
        else:
            events.append(Event(_ENDS[outcome], settled_at, group, client, place.attempt))
    return events, held


def _with_reasons(
    life: Iterable[Event], histories: Iterable[tuple[int, bytes]], groups: Mapping[int, str]
) -> list[Event]:
    """Adds why each delivery failed, from the history that the retry, the return or the dead letter carries."""
    reasons: dict[tuple[str | None, int | None], str | None] = {}
    for group_id, text in histories:
        for attempt, entry in enumerate(msgspec.json.decode(text, type=list[dict[str, str | int | None]]), 1):
            reason = entry.get("reason")
            reasons[groups[group_id], attempt] = reason if isinstance(reason, str) else None
    return [
        evolve(event, reason=reasons.get((event.group, event.attempt))) if event.what in _WITH_REASON else event
        for event in life
    ]
