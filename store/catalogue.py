"""Topics, their queues and consumer groups: makes, changes and reads them, and their counters."""

from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from typing import Literal

from attrs import evolve, frozen

from ..wheel.ladder import Ladder
from .errors import GroupGone, TopicGone
from .groups.locked_rows import ClaimRow
from .ports import Queries, Transaction
from .records import Group, GroupState, Outcome, Queue, QueueState, Topic, TopicState
from .rows import CursorState, GroupRow, QueueRow, TopicRow, encode
from .stream.positions import Position, hold_floors, offset_of
from .stream.readers import broadcast_state
from .stream.sealing import seal

_PAGE = 1_000
_KINDS: Sequence[Literal["cluster", "broadcast"]] = ("cluster", "broadcast")
_SEQUENCERS: Sequence[Literal["store", "redis"]] = ("store", "redis")


@frozen
class TopicDraft:
    """The settings that a topic is to have."""

    name: str
    kind: Literal["cluster", "broadcast"] = "cluster"
    queues: int = 1
    ordered: bool = False
    retention: int | None = None
    ladder: Ladder | None = None
    sequencer: Literal["store", "redis"] = "store"
    max_pending: int | None = None
    max_rate: int | None = None
    release_rate: int | None = None


def encode_ladder(ladder: Ladder | None) -> bytes | None:
    """The milliseconds of each rung, separated by commas; then a tilde and the jitter, if there is one."""
    if ladder is None:
        return None
    return (",".join(map(str, ladder.rungs)) + (f"~{ladder.jitter!r}" if ladder.jitter else "")).encode()


def decode_ladder(text: bytes | None) -> Ladder | None:
    """The reverse of `encode_ladder`; None also for invalid text: one topic that was spoilt by SQL from outside must
    not make all others unreadable."""
    if text is None:
        return None
    try:
        rungs, _, jitter = text.decode().partition("~")
        return Ladder(tuple(int(rung) for rung in rungs.split(",") if rung), float(jitter or 0))
    except ValueError:
        return None


async def topics(tx: Transaction) -> list[Topic]:
    """All topics by name."""
    found: list[Topic] = []
    while page := await topics_by_name(tx, found[-1].name if found else "", _PAGE):
        found += page
    return found


async def find_topics(tx: Queries, names: Sequence[str]) -> list[Topic]:
    """The topics of these names that exist. A topic without a queue was removed while it was read, and is left out."""
    if not names:
        return []
    found = await _with_queues(tx, await tx.fetch("topic.find", TopicRow, [name.encode() for name in names]))
    return [topic for topic in found if topic.queues]


async def topic_page(tx: Transaction, after: int, limit: int, default: Ladder) -> tuple[list[Topic], list[Group]]:
    """A page of topics by id, behind the id `after`, and all their groups (see `find_groups`). A topic without a queue
    was removed while it was read; it counts towards the limit."""
    rows = await tx.fetch("topic.page", TopicRow, after, limit)
    if not rows:
        return [], []
    ids = [row.id for row in rows]
    groups = await tx.fetch("consumer_group.of_topics", GroupRow, ids)
    queues = await tx.fetch("queue.of_topics", QueueRow, ids)
    topics = _of_queues(rows, queues)
    return topics, _whole_groups(topics, groups, queues, default)


async def topics_by_name(tx: Transaction, after: str, limit: int) -> list[Topic]:
    """A page of topics in order of their names, behind the name `after`."""
    return await _with_queues(tx, await tx.fetch("topic.by_name", TopicRow, encode(after), limit))


async def topics_of_groups(tx: Transaction, group_ids: Sequence[int]) -> list[str]:
    """The names of the topics that these groups belong to."""
    topics = {topic_id for _, topic_id in await tx.fetch("consumer_group.topics_of", tuple[int, int], group_ids)}
    return [name for _, name in await tx.fetch("topic.names", tuple[int, str], sorted(topics))] if topics else []


def merged(topic: Topic, draft: TopicDraft, named: Set[str]) -> TopicDraft:
    """The topic's settings, with those fields replaced by the draft's that are named. The rungs (`ladder`) and the
    `jitter` of its ladder count as two fields: a jitter for a topic without a ladder of its own goes with the draft's
    rungs."""
    kept = (topic.name, topic.kind, len(topic.queues), topic.ordered, topic.retention, topic.ladder, topic.sequencer)
    was = TopicDraft(*kept, topic.max_pending, topic.max_rate, topic.release_rate)
    ladder = topic.ladder
    if "ladder" in named:
        ladder = draft.ladder
        if ladder is not None and "jitter" not in named:
            ladder = evolve(ladder, jitter=0 if topic.ladder is None else topic.ladder.jitter)
    elif "jitter" in named and draft.ladder is not None:
        ladder = evolve(draft.ladder if ladder is None else ladder, jitter=draft.ladder.jitter)
    fields = named - {"ladder", "jitter"}
    return evolve(was, ladder=ladder, **{name: getattr(draft, name) for name in fields})


async def put_topic(
    tx: Transaction, draft: TopicDraft, named: Set[str], check: Callable[[Topic, TopicDraft], None], now: int
) -> tuple[Topic, bool]:
    """Makes the topic if it is missing, else sets the `named` fields of the draft. Returns the topic, and whether it
    was made.

    A change of other fields at the same moment is kept, since the fields that are not named are read here, under the
    topic's lock. `check` is given the topic as it is and the settings that it would get, and may raise any error.
    """
    if not await tx.fetch("topic.lock_named", int, draft.name.encode()) and await _insert(tx, draft, now):
        return await _with_queues_of(tx, draft), True
    await tx.fetch("topic.lock_named", int, draft.name.encode())  # another transaction may have made it meanwhile
    for topic in await find_topics(tx, [draft.name]):
        wished = merged(topic, draft, named)
        check(topic, wished)
        await change_topic(tx, topic, wished, now)
        return await _with_queues_of(tx, wished), False
    raise TopicGone(f"topic {draft.name!r} is being removed; try again in a moment")


async def add_topic(tx: Transaction, draft: TopicDraft, now: int) -> Topic:
    """Makes the topic if it is missing; an existing one may gain queues, and is otherwise not changed. Returns it."""
    await tx.fetch("topic.lock_named", int, draft.name.encode())
    await _insert(tx, draft, now)
    return await _with_queues_of(tx, draft)


async def _with_queues_of(tx: Transaction, draft: TopicDraft) -> Topic:
    """Adds the draft's queues that the topic and its groups lack, and returns the topic."""
    (row,) = await tx.fetch("topic.find", TopicRow, [draft.name.encode()])
    await tx.execute_many("queue.add", [(row.id, 0, number, 0, 0, 0) for number in range(draft.queues)])
    groups = await tx.fetch("consumer_group.of_topics", GroupRow, [row.id])
    (topic,) = await find_topics(tx, [draft.name])
    for group in groups:
        await _add_queues_of_group(tx, topic, group.id, {})
    return topic


async def _insert(tx: Transaction, draft: TopicDraft, now: int) -> bool:
    """Inserts the topic's row; returns False when it exists already."""
    added = await tx.execute_many(
        "topic.add",
        [
            (
                draft.name.encode(),
                _KINDS.index(draft.kind),
                draft.ordered,
                draft.retention,
                encode_ladder(draft.ladder),
                _SEQUENCERS.index(draft.sequencer),
                now,
                draft.max_pending,
                draft.max_rate,
                draft.release_rate,
            )
        ],
    )
    return bool(added)


async def change_topic(tx: Transaction, topic: Topic, draft: TopicDraft, now: int) -> None:
    """Sets the settings of an existing topic that may be changed: retention, ladder, sequencer and limits.

    When the offsets are to be drawn by the store again, the queues are first sealed to their ends.
    """
    await tx.execute(
        "topic.change",
        draft.retention,
        encode_ladder(draft.ladder),
        _SEQUENCERS.index(draft.sequencer),
        draft.max_pending,
        draft.max_rate,
        draft.release_rate,
        topic.id,
    )
    if draft.sequencer == "store" and topic.sequencer != "store":
        for queue in topic.queues:
            while (await seal(tx, queue.id, now, at_once=True)).more:
                pass


async def _with_queues(tx: Queries, rows: Sequence[TopicRow]) -> list[Topic]:
    return _of_queues(rows, await tx.fetch("queue.of_topics", QueueRow, [row.id for row in rows])) if rows else []


def _of_queues(rows: Sequence[TopicRow], found: Sequence[QueueRow]) -> list[Topic]:
    """Makes topics from their rows, with those of these queues that are the topics' own."""
    queues: dict[int, list[Queue]] = defaultdict(list)
    for queue in found:
        if queue.group_id == 0:
            queues[queue.topic_id].append(Queue(queue.id, queue.number))
    return [
        Topic(
            id=row.id,
            name=row.name,
            kind=_KINDS[row.kind == 1],
            ordered=bool(row.ordered),
            queues=tuple(queues[row.id]),
            retention=row.retention,
            ladder=decode_ladder(row.ladder),
            sequencer=_SEQUENCERS[row.sequencer == 1],
            created_at=row.created_at,
            max_pending=row.max_pending,
            max_rate=row.max_rate,
            release_rate=row.release_rate,
        )
        for row in rows
    ]


async def find_groups(tx: Transaction, topics: Sequence[Topic], default: Ladder) -> list[Group]:
    """All groups of these topics; `default` is the ladder where neither group nor topic has one of its own.

    Groups are read before their queues, which are made and removed together with them. So a group that is made
    meanwhile is not read at all, and a group that lacks a queue is being removed and is left out: claiming from a part
    of a group would be wrong.
    """
    if not topics:
        return []
    ids = [topic.id for topic in topics]
    rows = await tx.fetch("consumer_group.of_topics", GroupRow, ids)
    return _whole_groups(topics, rows, await tx.fetch("queue.of_topics", QueueRow, ids), default)


async def find_group(tx: Transaction, topic: Topic, name: str, default: Ladder) -> Group | None:
    """The group of this name, read as `find_groups` does, but without the others: a topic may have thousands."""
    rows = await tx.fetch("consumer_group.find", GroupRow, topic.id, encode(name))
    queues = await tx.fetch("queue.of_group", QueueRow, topic.id, rows[0].id) if rows else []
    return next(iter(_whole_groups([topic], rows, queues, default)), None)


def _whole_groups(
    topics: Sequence[Topic], rows: Sequence[GroupRow], queues: Sequence[QueueRow], default: Ladder
) -> list[Group]:
    """Makes groups from their rows; leaves out those whose queues are not all among `queues`."""
    by_id = {topic.id: topic for topic in topics}
    numbers: dict[tuple[int, int], Queue] = {}
    for queue in queues:
        numbers[queue.group_id, queue.number] = Queue(queue.id, queue.number)
    groups: list[Group] = []
    for row in rows:
        topic = by_id[row.topic_id]
        retry_queue_of = {q.id: numbers[row.id, q.number] for q in topic.queues if (row.id, q.number) in numbers}
        if topic.kind == "cluster" and len(retry_queue_of) < len(topic.queues):
            continue
        own = decode_ladder(row.ladder)
        rungs = own if own is not None else topic.ladder if topic.ladder is not None else default
        groups.append(
            Group(
                row.id,
                topic,
                row.name,
                rungs,
                retry_queue_of,
                bool(row.on_exhausted),
                own,
                row.concurrency,
                paused=bool(row.paused),
            )
        )
    return groups


async def queues_now(tx: Transaction, topic: Topic) -> tuple[Queue, ...]:
    """The topic's own queues as they are now; it may have gained some since it was read. Raises `TopicGone`."""
    for present in await find_topics(tx, [topic.name]):
        if present.id == topic.id:
            return present.queues
    raise TopicGone(f"topic {topic.name!r} has been removed meanwhile")


async def as_it_is(tx: Transaction, group: Group) -> Group:
    """The group with all queues that its topic has now. Locks the topic, so that it gains none meanwhile. Raises
    `GroupGone` and `TopicGone`."""
    await tx.fetch("topic.lock", int, group.topic.id)
    topic = evolve(group.topic, queues=await queues_now(tx, group.topic))
    present = await find_group(tx, topic, group.name, group.ladder)
    if present is not None and present.id == group.id:
        return present
    raise GroupGone(f"group {group.name!r} of topic {topic.name!r} has been removed meanwhile")


async def add_group(
    tx: Transaction,
    topic: Topic,
    name: str,
    now: int,
    default: Ladder,
    *,
    ladder: Ladder | None,
    latest: bool,
    since: int | None = None,
) -> Group:
    """Makes the group if it is missing, with a cursor and a retry queue for each queue of the topic; returns it.

    A new group begins at the earliest message that still exists; with `latest` behind the last committed one; with
    `since` at the first that came into the stream at that time or later. The topic may have gained queues since it was
    read.
    """
    await tx.fetch("topic.lock", int, topic.id)
    topic = evolve(topic, queues=await queues_now(tx, topic))
    row = (topic.id, encode(name), encode_ladder(ladder), 0, None, now)
    made = await tx.execute_many("consumer_group.add", [row])
    (there,) = await tx.fetch("consumer_group.find", GroupRow, topic.id, encode(name))
    if made:  # the subscription of a removed group with the same id must not get this group's messages
        await tx.execute("push.remove", [there.id])
    mine = [queue.id for queue in topic.queues]
    # Retention counts messages as expired for groups that have not settled them: it sees this group, or is done before.
    begins = await hold_floors(tx, mine)
    if latest:
        begins = await queue_ends(tx, mine)
    elif since is not None:
        begins = {queue_id: await offset_of(tx, queue_id, Position("time", since)) for queue_id in mine}
    await _add_queues_of_group(tx, topic, there.id, begins)
    (group,) = _whole_groups([topic], [there], await tx.fetch("queue.of_group", QueueRow, topic.id, there.id), default)
    return group


async def change_group(tx: Transaction, group: Group, ladder: Ladder | None, *, block: bool = False) -> None:
    """Sets a group's own ladder (None: the topic's or the default one), and whether an exhausted message blocks."""
    await tx.execute("consumer_group.change", encode_ladder(ladder), block, group.id)


async def limit_group(tx: Transaction, group: Group, concurrency: int | None) -> None:
    """Sets how many messages a group's clients may hold in claims at once; None: no limit."""
    await tx.execute("consumer_group.limit", concurrency, group.id)


async def pause_group(tx: Transaction, group: Group, *, paused: bool) -> None:
    """Pauses or resumes the group: while it is paused, its clients are given no messages."""
    await tx.execute("consumer_group.pause", paused, group.id)


async def paused_groups(tx: Transaction) -> list[int]:
    """The ids of the groups that are paused."""
    return await tx.fetch("consumer_group.paused", int)


async def _add_queues_of_group(tx: Transaction, topic: Topic, group_id: int, begins: dict[int, int]) -> None:
    if topic.kind == "broadcast":
        return  # each client has offsets of its own, see `readers`
    await tx.execute_many("queue.add", [(topic.id, group_id, queue.number, 0, 0, 0) for queue in topic.queues])
    retries = await tx.fetch("queue.of_group", QueueRow, topic.id, group_id)
    mine = [*(queue.id for queue in topic.queues), *(queue.id for queue in retries)]
    cursors = [(group_id, id_, *(begins.get(id_, 0),) * 2, *(0,) * 8) for id_ in sorted(mine)]
    await tx.execute_many("cursor.add", cursors)


async def queue_ends(tx: Transaction, queue_ids: Sequence[int]) -> dict[int, int]:
    """The end of each of these queues, by its id."""
    return dict(await tx.fetch("queue.ends", tuple[int, int], queue_ids)) if queue_ids else {}


async def claimable(tx: Transaction, group_ids: Sequence[int]) -> list[int]:
    """The groups among these that have messages yet to claim, whether or not a client may have them now."""
    return await tx.fetch("cursor.claimable", int, group_ids) if group_ids else []


async def lags(tx: Transaction, group_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """By group id: how many messages are yet to be claimed, and how many rest on the ladder or are parked."""
    rows = await tx.fetch("cursor.lags", tuple[int, int, int, int], group_ids) if group_ids else []
    return {group_id: (lag, failed - returned) for group_id, lag, failed, returned in rows}


async def backlogs(tx: Transaction) -> dict[int, int]:
    """By topic id: how many messages its groups have yet to claim; only topics with some."""
    return dict(await tx.fetch("cursor.backlogs", tuple[int, int]))


async def most_lagging(tx: Transaction, limit: int) -> list[int]:
    """The ids of the groups that have most messages to claim or on the ladder; scans all cursors."""
    return [group_id for group_id, _ in await tx.fetch("cursor.most", tuple[int, int], limit)]


async def most_pending(tx: Transaction, limit: int) -> list[int]:
    """The ids of the topics with most waiting messages; scans the counters of all topics, and the queues."""
    return [topic_id for topic_id, _ in await tx.fetch("tally.most_pending", tuple[int, int], limit)]


async def topic_states(tx: Transaction, topics: Sequence[Topic]) -> dict[int, TopicState]:
    """Counters by topic id."""
    if not topics:
        return {}
    ids = [topic.id for topic in topics]
    tallies = {id_: counts for id_, *counts in await tx.fetch("tally.of_topics", tuple[int, int, int, int, int], ids)}
    streams = {id_: counts for id_, *counts in await tx.fetch("queue.streamed", tuple[int, int, int], ids)}
    states: dict[int, TopicState] = {}
    for id_ in ids:
        scheduled, *gone = tallies.get(id_, (0, 0, 0, 0))
        streamed, straight = streams.get(id_, (0, 0))
        states[id_] = TopicState(scheduled + straight, streamed, *gone)
    return states


async def group_state(tx: Transaction, group: Group) -> GroupState:
    """A group's position in each queue, and its counters."""
    if group.topic.kind == "broadcast":
        return await broadcast_state(tx, group)
    cursors = await tx.fetch("cursor.of_group", CursorState, group.id)
    retries = [0] * len(group.ladder.rungs)
    owned = await tx.fetch("queue_owner.of_group", tuple[int, str, int, int], group.id)
    owners = {queue_id: client for queue_id, client, *_ in owned}
    (parked,) = await tx.fetch("parked.count", int, group.id)
    for attempt, pending in await tx.fetch("retry.of_group", tuple[int, int], group.id):
        rung = min(max(attempt - 1, 1), len(retries))
        if retries:
            retries[rung - 1] += pending
    claims = await tx.fetch("claim.of_group", ClaimRow, group.id)
    dead = sum(cursor.dead for cursor in cursors)
    return GroupState(
        queues=tuple(QueueState(one.number, one.position, one.next_offset, bool(one.group_id)) for one in cursors),
        acked=sum(cursor.acked for cursor in cursors),
        dead=dead,
        retried=sum(cursor.retried for cursor in cursors),
        claims=len(claims),
        # A message acked in a user's own transaction is claimed until a turn counts it.
        claimed=sum(one.outcome.count(Outcome.OPEN) + one.outcome.count(Outcome.ACKED_OUTSIDE) for one in claims),
        retries=tuple(retries),
        clients=tuple(sorted({claim.client for claim in claims})),
        letters=dead - sum(cursor.cleared for cursor in cursors),
        redriven=sum(cursor.redriven for cursor in cursors),
        skipped=sum(cursor.skipped for cursor in cursors),
        expired=sum(cursor.expired for cursor in cursors),
        parked=parked,
        owners={queue.number: owners[queue.id] for queue in group.topic.queues if queue.id in owners},
    )
