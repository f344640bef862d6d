"""Finds messages by id in any state, with the life of each: what happened to it, when, and in which group.

The number of statements does not depend on how many messages they are: each statement asks for all of them. (Their
claims are asked for `_SPANS` spans of a queue at a time.)
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from attrs import evolve, field, frozen
from msgspec.structs import asdict, replace

from ..groups.claims import WIDEST
from ..history import Attempt, nearest, numbered
from ..ids import due_of, places_of
from ..ports import Transaction
from ..records import Event, Found, Outcome, mended
from ..rows import Cancelled, ErasedRow, GroupRow, Return, Scheduled, Streamed
from ..states import ENDS

_SPANS = 1000
"""How many spans a statement has at most: for many more the servers would read the whole table."""
_WITH_REASON = {"failed", "lease_lost", "dead"}


async def find_message(tx: Transaction, id_: int) -> Found | None:
    """The message of this id, or None."""
    return (await find_messages(tx, [id_])).get(id_)


async def topic_of(tx: Transaction, id_: int) -> str | None:
    """The name of a message's topic; None if there is no such message. The topic never changes."""
    ids: set[int] = {row.topic_id for row in await tx.fetch("delay.find", Scheduled, places_of([id_]))}
    ids |= {row.topic_id for row in await tx.fetch("cancelled.find", Cancelled, [id_])}
    ids |= {row.topic_id for row in await tx.fetch("message.find", Streamed, [id_])}
    names = await tx.fetch("topic.names", tuple[int, str], sorted(ids)) if ids else []
    return names[0][1] if names else None


async def find_messages(tx: Transaction, ids: Sequence[int]) -> dict[int, Found]:
    """The messages among these that exist, by id. Reads the tables in the order in which a message can move, so that
    none is missed."""
    if not ids:
        return {}
    waiting = await tx.fetch("delay.find", Scheduled, places_of(ids))
    cancelled = await tx.fetch("cancelled.find", Cancelled, ids)
    streamed = await tx.fetch("message.find", Streamed, ids)
    topics = {row.topic_id for row in waiting} | {row.topic_id for row in cancelled}
    topics |= {row.topic_id for row in streamed}
    # A topic that is missing has been removed, and its rows are about to be.
    names = dict(await tx.fetch("topic.names", tuple[int, str], sorted(topics))) if topics else {}
    found = await _streamed(tx, {row.id: row for row in streamed}, names) if streamed else {}
    erased = await tx.fetch("erased.find", ErasedRow, [row.id for row in cancelled]) if cancelled else []
    erased_at = {row.id: row.erased_at for row in erased}
    for row in cancelled:
        if row.id not in found and row.topic_id in names:
            found[row.id] = _cancelled(row, names[row.topic_id], erased_at.get(row.id))
    for one in waiting:
        if one.id not in found and one.topic_id in names:
            found[one.id] = _waiting(one, names[one.topic_id])
    if asked := [id_ for id_, one in found.items() if one.state == "scheduled"]:
        for id_, guard in await tx.fetch("delay.guards", tuple[int, str | None], places_of(asked)):
            if guard:
                found[id_] = replace(found[id_], guard=guard)
    return found


def _cancelled(row: Cancelled, topic: str, erased_at: int | None) -> Found:
    return Found(
        id=row.id,
        topic=topic,
        state=row.state,
        key=row.key,
        accepted_at=row.accepted_at,
        deliver_at=row.deliver_at,
        life=(Event("scheduled", row.accepted_at), Event(row.state, row.cancelled_at)),
        erased_at=erased_at,
        guard=row.guard,
    )


def _waiting(row: Scheduled, topic: str) -> Found:
    life = (Event("scheduled", row.content.accepted_at),)
    return Found(**asdict(row.content), id=row.id, topic=topic, state="scheduled", life=life)


@frozen
class _Location:
    """A place from which the message was delivered: in the topic's own queue, or in a group's retry queue."""

    group_id: int
    queue_id: int
    offset: int
    attempt: int


class _Span(NamedTuple):
    """A claim, open or ended, that may have held the message."""

    group_id: int
    queue_id: int
    client: str
    first: int
    size: int
    claimed_at: int
    outcome: bytes
    settled_at: bytes


@frozen
class _Story:
    """What is known about a message beside its row: its places, its events so far, the histories of its attempts."""

    places: list[_Location] = field(factory=list[_Location])
    life: list[Event] = field(factory=list[Event])
    histories: list[tuple[int, bytes]] = field(factory=list[tuple[int, bytes]])
    standings: set[str] = field(factory=set[str])


async def _streamed(tx: Transaction, rows: Mapping[int, Streamed], names: Mapping[int, str]) -> dict[int, Found]:
    ids = list(rows)
    groups: dict[int, str] = {}
    of_topic: dict[int, list[int]] = defaultdict(list)
    topics = sorted({row.topic_id for row in rows.values()})
    for group in await tx.fetch("consumer_group.of_topics", GroupRow, topics):
        groups[group.id] = group.name
        of_topic[group.topic_id].append(group.id)
    stories = {id_: _begun(row, of_topic[row.topic_id]) for id_, row in rows.items()}
    await _add_returns(tx, stories, groups)
    spans = await _spans(tx, [place for story in stories.values() for place in story.places])
    for story in stories.values():
        for place in story.places:
            held = _add_handling(story.life, place, groups[place.group_id], spans[place])
            story.standings.update(["claimed"] if held else [])
    resting = await tx.fetch("retry.of_messages", tuple[int, int, int, int, bytes], ids)
    for message_id, group_id, retry_id, attempt, history in resting:
        if group_id in groups:
            _add_rest(stories[message_id], "retrying", group_id, history)
            stories[message_id].life.append(Event("retrying", due_of(retry_id), groups[group_id], attempt=attempt))
    parked = await tx.fetch("parked.of_messages", tuple[int, int, int, bytes, int], ids)
    for message_id, group_id, attempt, history, parked_at in parked:
        if group_id in groups:
            _add_rest(stories[message_id], "parked", group_id, history)
            stories[message_id].life.append(Event("waiting", parked_at, groups[group_id], attempt=attempt))
    if groups:
        dead = await tx.fetch("dead.of_messages", tuple[int, int, int, bytes], ids, sorted(groups))
        for message_id, group_id, _dead_at, history in dead:
            _add_rest(stories[message_id], "dead", group_id, history)
    return {id_: _told(row, names.get(row.topic_id, ""), stories[id_], groups) for id_, row in rows.items()}


def _begun(row: Streamed, group_ids: Iterable[int]) -> _Story:
    accepted_at = row.content.accepted_at
    life = [Event("published", accepted_at)]
    if row.content.deliver_at > accepted_at:
        life = [Event("scheduled", accepted_at), Event("promoted", row.streamed_at)]
    return _Story([_Location(group_id, row.queue_id, row.offset, 1) for group_id in group_ids], life)


def _add_rest(story: _Story, standing: str, group_id: int, history: bytes) -> None:
    story.standings.add(standing)
    story.histories.append((group_id, history))


async def _add_returns(tx: Transaction, stories: Mapping[int, _Story], groups: Mapping[int, str]) -> None:
    """Adds the returns of the messages from the ladder, by which they also lie in retry queues."""
    rows = await tx.fetch("redelivery.of_messages", Return, list(stories))
    queues = sorted({row.queue_id for row in rows})
    owners = dict(await tx.fetch("queue.groups", tuple[int, int], queues)) if queues else {}
    for row in rows:
        group_id = owners.get(row.queue_id, 0)
        if group_id not in groups:
            continue  # the group has been removed, and its rows are about to be
        story = stories[row.message_id]
        story.places.append(_Location(group_id, row.queue_id, row.offset, row.attempt))
        story.life.append(Event("returned", row.streamed_at, groups[group_id], attempt=row.attempt))
        story.histories.append((group_id, row.history))


async def _spans(tx: Transaction, places: Sequence[_Location]) -> Mapping[_Location, list[_Span]]:
    """The claims that held the message at each place: first those that ended, then those that are open."""
    offsets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for place in sorted(places, key=lambda place: place.offset):
        offsets[place.group_id, place.queue_id].append(place.offset)
    held: dict[tuple[int, int, int], list[_Span]] = defaultdict(list)

    def note(spans: Iterable[_Span]) -> None:
        for span in spans:
            for offset in _within(offsets[span.group_id, span.queue_id], span.first, span.size):
                held[span.group_id, span.queue_id, offset].append(span)

    for some in _batches(_stretches(offsets)):
        note(await tx.fetch("delivery.of_spans", _Span, some))
    open_: list[tuple[int, int, int, int]] = []
    for some in _batches([(*cursor, cursor[-1] + 1) for cursor in sorted(offsets)]):
        extents = await tx.fetch("claim.extents", tuple[int, int, int, int, int], some)
        for group_id, queue_id, number, first, size in extents:
            if _within(offsets[group_id, queue_id], first, size):
                open_.append((group_id, queue_id, number, number + 1))
    for some in _batches(open_):
        note(await tx.fetch("claim.of_spans", _Span, some))
    return {place: held[place.group_id, place.queue_id, place.offset] for place in places}


def _within(offsets: Sequence[int], first: int, size: int) -> Sequence[int]:
    """The offsets among these, which are ascending, that a claim covers."""
    return offsets[bisect_left(offsets, first) : bisect_left(offsets, first + size)]


def _stretches(offsets: Mapping[tuple[int, int], Sequence[int]]) -> list[tuple[int, int, int, int]]:
    """(group, queue, from, to): the spans in which claims begin that may have held these offsets; none overlap."""
    stretches: list[tuple[int, int, int, int]] = []
    for (group_id, queue_id), some in sorted(offsets.items()):
        begin = end = some[0] - WIDEST + 1
        for offset in some:
            if offset - WIDEST + 1 > end:
                stretches.append((group_id, queue_id, begin, end))
                begin = offset - WIDEST + 1
            end = offset + 1
        stretches.append((group_id, queue_id, begin, end))
    return stretches


def _batches(spans: Sequence[tuple[int, ...]]) -> list[Sequence[tuple[int, ...]]]:
    return [spans[at : at + _SPANS] for at in range(0, len(spans), _SPANS)]


def _add_handling(life: list[Event], place: _Location, group: str, spans: Iterable[_Span]) -> bool:
    """Adds who claimed the message at this place, and how that ended; returns whether a claim holds it now."""
    held = False
    for span in spans:
        at = place.offset - span.first
        settled_at = int.from_bytes(span.settled_at[8 * at : 8 * at + 8], "big")
        outcome = Outcome(mended(span.outcome[at : at + 1], 1)[0])
        if outcome == Outcome.PARKED and not settled_at:
            continue  # it lay in the claim's range, but was not handed out
        if outcome == Outcome.SKIPPED:  # its tag was not asked for: it was not handed out
            life.append(Event("skipped", span.claimed_at, group, attempt=place.attempt))
            continue
        if outcome == Outcome.EXPIRED and not settled_at:  # it was expired: it was not handed out
            life.append(Event("expired", span.claimed_at, group, attempt=place.attempt))
            continue
        life.append(Event("claimed", span.claimed_at, group, span.client, place.attempt))
        if outcome == Outcome.OPEN:
            held = True
        else:
            life.append(Event(ENDS[outcome], settled_at, group, span.client, place.attempt))
    return held


def _told(row: Streamed, topic: str, story: _Story, groups: Mapping[int, str]) -> Found:
    life = sorted(_with_reasons(story.life, story.histories, groups), key=lambda event: event.at)
    return Found(
        **asdict(row.content),
        id=row.id,
        topic=topic,
        state="published",
        life=tuple(life),
        queue=row.number,
        offset=row.offset,
        standings=frozenset(story.standings),
    )


def _with_reasons(
    life: Sequence[Event], histories: Iterable[tuple[int, bytes]], groups: Mapping[int, str]
) -> list[Event]:
    """Adds the reason of each failed delivery, from the histories of retries, returns and dead letters."""
    attempts: dict[tuple[str | None, int | None], list[Attempt]] = defaultdict(list)
    for group_id, text in histories:
        for number, attempt in numbered(text):
            attempts[groups[group_id], number].append(attempt)
    ends: dict[tuple[str | None, int | None], list[int]] = defaultdict(list)
    for place, event in enumerate(life):
        if event.what in _WITH_REASON:
            ends[event.group, event.attempt].append(place)
    told = list(life)
    for key, places in ends.items():
        for which, attempt in nearest([life[place].at for place in places], attempts.get(key, ())).items():
            told[places[which]] = evolve(life[places[which]], reason=attempt.reason)
    return told
