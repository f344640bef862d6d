"""Finding messages wherever they are, and the life of each: what happened to it, when, in which group.

However many they are, the statements are as many as for one: each asks for all of them. (Their claims are asked for
`_SPANS` stretches of a queue at a time.)
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import msgspec
from attrs import evolve, field, frozen

from ..ids import due_of, places_of
from ..ports import Row, Transaction, Value
from ..records import Event, Found, Outcome
from ..states import ENDS
from ..text import decode

_WIDEST_CLAIM = 1000
_SPANS = 1000
"""Stretches in one statement: of many more the servers would rather read the whole table."""
_WITH_REASON = {"failed", "lease_lost", "dead"}


async def find_message(tx: Transaction, id_: int) -> Found | None:
    """The message of this id, or None."""
    return (await find_messages(tx, [id_])).get(id_)


async def find_messages(tx: Transaction, ids: Sequence[int]) -> dict[int, Found]:
    """Those of these messages that there are, by id. Looks in the order in which a message can move, so that none can
    slip by."""
    if not ids:
        return {}
    waiting = {row[0]: row for row in await tx.fetch("delay.find", places_of(ids))}
    cancelled = {row[0]: row for row in await tx.fetch("cancelled.find", ids)}
    streamed = {row[0]: row for row in await tx.fetch("message.find", ids)}
    topics = {row[2] for row in waiting.values()} | {row[1] for row in (*cancelled.values(), *streamed.values())}
    # One that is missing has been removed, and what is left of it is on its way out.
    names = {id_: name.decode() for id_, name in await tx.fetch("topic.names", sorted(topics))} if topics else {}
    found = await _streamed(tx, streamed, names) if streamed else {}
    for id_, row in cancelled.items():
        if id_ not in found and row[1] in names:
            found[id_] = _cancelled(row, names[row[1]])
    for id_, row in waiting.items():
        if id_ not in found and row[2] in names:
            found[id_] = _waiting(row, names[row[2]])
    return found


def _cancelled(row: Row, topic: str) -> Found:
    id_, _topic_id, key, accepted_at, deliver_at, cancelled_at = row
    return Found(
        id=id_,
        topic=topic,
        state="cancelled",
        deliver_at=deliver_at,
        published_at=accepted_at,
        key=decode(key),
        life=(Event("scheduled", accepted_at), Event("cancelled", cancelled_at)),
    )


def _waiting(row: Row, topic: str) -> Found:
    id_, _due, _topic_id, _queue, *content, accepted_at, deliver_at = row
    key, ordering_key, tag, headers, content_type, body = content
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


@frozen
class _Story:
    """What is known of one message beside its row: its places, its events so far, why its attempts failed."""

    places: list[_Place] = field(factory=list[_Place])
    life: list[Event] = field(factory=list[Event])
    histories: list[tuple[int, bytes]] = field(factory=list[tuple[int, bytes]])
    standings: set[str] = field(factory=set[str])


async def _streamed(tx: Transaction, rows: Mapping[int, Row], names: Mapping[int, str]) -> dict[int, Found]:
    ids = list(rows)
    groups: dict[int, str] = {}
    of_topic: dict[int, list[int]] = defaultdict(list)
    for group_id, topic_id, name, *_ in await tx.fetch(
        "consumer_group.of_topics", sorted({r[1] for r in rows.values()})
    ):
        groups[group_id] = name.decode()
        of_topic[topic_id].append(group_id)
    stories = {id_: _begun(row, of_topic[row[1]]) for id_, row in rows.items()}
    await _add_returns(tx, stories, groups)
    spans = await _spans(tx, [place for story in stories.values() for place in story.places])
    for story in stories.values():
        for place in story.places:
            held = _add_handling(story.life, place, groups[place.group_id], spans[place])
            story.standings.update(["claimed"] if held else [])
    for message_id, group_id, retry_id, attempt, history in await tx.fetch("retry.of_messages", ids):
        if group_id in groups:
            _add_rest(stories[message_id], "retrying", group_id, history)
            stories[message_id].life.append(Event("retrying", due_of(retry_id), groups[group_id], attempt=attempt))
    for message_id, group_id, attempt, history, parked_at in await tx.fetch("parked.of_messages", ids):
        if group_id in groups:
            _add_rest(stories[message_id], "parked", group_id, history)
            stories[message_id].life.append(Event("waiting", parked_at, groups[group_id], attempt=attempt))
    if groups:
        for message_id, group_id, _dead_at, history in await tx.fetch("dead.of_messages", ids, sorted(groups)):
            _add_rest(stories[message_id], "dead", group_id, history)
    return {id_: _told(row, names.get(row[1], ""), stories[id_], groups) for id_, row in rows.items()}


def _begun(row: Row, group_ids: Iterable[int]) -> _Story:
    _id, _topic_id, queue_id, _number, offset, *_, accepted_at, deliver_at, streamed_at = row
    life = [Event("published", accepted_at)]
    if deliver_at > accepted_at:
        life = [Event("scheduled", accepted_at), Event("promoted", streamed_at)]
    return _Story([_Place(group_id, queue_id, offset, 1) for group_id in group_ids], life)


def _add_rest(story: _Story, standing: str, group_id: int, history: bytes) -> None:
    story.standings.add(standing)
    story.histories.append((group_id, history))


async def _add_returns(tx: Transaction, stories: Mapping[int, _Story], groups: Mapping[int, str]) -> None:
    """What came back from the ladder lies in a retry queue, too."""
    rows = await tx.fetch("redelivery.of_messages", list(stories))
    queues = sorted({row[1] for row in rows})
    owners: dict[int, int] = dict(await tx.fetch("queue.owners", queues)) if queues else {}
    for message_id, queue_id, offset, attempt, history, returned_at in rows:
        group_id = owners.get(queue_id, 0)
        if group_id not in groups:
            continue  # removed, and what is left of it is on its way out
        story = stories[message_id]
        story.places.append(_Place(group_id, queue_id, offset, attempt))
        story.life.append(Event("returned", returned_at, groups[group_id], attempt=attempt))
        story.histories.append((group_id, history))


async def _spans(tx: Transaction, places: Sequence[_Place]) -> Mapping[_Place, list[_Span]]:
    """The claims that held each place: those that ended, and then those that are open."""
    offsets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place in sorted(places, key=lambda place: place.offset):
        offsets[place.group_id, place.queue_id].append(place.offset)
    held: dict[tuple[int, int, int], list[_Span]] = defaultdict(list)

    def note(row: Row) -> None:
        group_id, queue_id, client, first, size, claimed_at, outcome, settled_at = row
        span = _Span(client, first, size, claimed_at, outcome, settled_at)
        for offset in _within(offsets[group_id, queue_id], first, size):
            held[group_id, queue_id, offset].append(span)

    for some in _batches(_stretches(offsets)):
        for row in await tx.fetch("delivery.of_spans", some):
            note(row)
    open_: list[tuple[int, int, int, int]] = []
    for some in _batches([(*cursor, cursor[-1] + 1) for cursor in sorted(offsets)]):
        for group_id, queue_id, number, first, size in await tx.fetch("claim.extents", some):
            if _within(offsets[group_id, queue_id], first, size):
                open_.append((group_id, queue_id, number, number + 1))
    for some in _batches(open_):
        for row in await tx.fetch("claim.of_spans", some):
            note(row)
    return {place: held[place.group_id, place.queue_id, place.offset] for place in places}


def _within(offsets: Sequence[int], first: int, size: int) -> Sequence[int]:
    """Those of these offsets, ascending, that a claim covers."""
    return offsets[bisect_left(offsets, first) : bisect_left(offsets, first + size)]


def _stretches(offsets: Mapping[tuple[int, int], Sequence[int]]) -> list[tuple[int, int, int, int]]:
    """(group, queue, from, to): where the claims begin that may have held these offsets, each stretch once."""
    stretches: list[tuple[int, int, int, int]] = []
    for (group_id, queue_id), some in sorted(offsets.items()):
        begin = end = some[0] - _WIDEST_CLAIM + 1
        for offset in some:
            if offset - _WIDEST_CLAIM + 1 > end:
                stretches.append((group_id, queue_id, begin, end))
                begin = offset - _WIDEST_CLAIM + 1
            end = offset + 1
        stretches.append((group_id, queue_id, begin, end))
    return stretches


def _batches(spans: Sequence[tuple[int, ...]]) -> list[list[Value]]:
    return [cast("list[Value]", list(spans[at : at + _SPANS])) for at in range(0, len(spans), _SPANS)]


def _add_handling(life: list[Event], place: _Place, group: str, spans: Iterable[_Span]) -> bool:
    """Who claimed it at this place, and how that ended; returns whether somebody has it in hand."""
    held = False
    for span in spans:
        at = place.offset - span.first
        settled_at = int.from_bytes(span.settled_at[8 * at : 8 * at + 8], "big")
        if span.outcome[at] == Outcome.PARKED and not settled_at:
            continue  # it lay in the range, and was not handed out
        client = span.client.decode()
        outcome = Outcome(span.outcome[at])
        if outcome == Outcome.SKIPPED:  # its tag was not asked for: nobody had it
            life.append(Event("skipped", span.claimed_at, group, attempt=place.attempt))
            continue
        life.append(Event("claimed", span.claimed_at, group, client, place.attempt))
        if outcome == Outcome.OPEN:
            held = True
        else:
            life.append(Event(ENDS[outcome], settled_at, group, client, place.attempt))
    return held


def _told(row: Row, topic: str, story: _Story, groups: Mapping[int, str]) -> Found:
    id_, _topic_id, _queue_id, number, offset, *content, accepted_at, deliver_at, _streamed_at = row
    key, ordering_key, tag, headers, content_type, body = content
    return Found(
        id=id_,
        topic=topic,
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
        life=tuple(sorted(_with_reasons(story.life, story.histories, groups), key=lambda event: event.at)),
        standings=frozenset(story.standings),
    )


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
