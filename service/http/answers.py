"""What goes out: the bodies of answers, and how the store's records become them."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from ...store.records import DeadLetter, Delivered, Event, Found, Group, GroupState, Receipt, Topic, TopicState
from ..durations import format_time
from .problems import Check


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A body that goes out."""


class ReceiptAnswer(Answer, omit_defaults=True):
    """A message was accepted. `queue` and `offset` are known when it went straight to the stream."""

    id: str
    topic: str
    state: str
    deliver_at: str
    queue: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    replayed: bool = False
    """The idempotency key had been used before, and this is the first answer again."""


class BatchAnswer(Answer):
    """The receipts, in order."""

    messages: list[ReceiptAnswer]


class Content(Answer):
    """What a message is made of; its body in `body`, or in `body_base64` with `content_type`."""

    id: str
    topic: str
    key: str | None
    ordering_key: str | None
    tag: str | None
    headers: msgspec.Raw | None
    body: msgspec.Raw | UnsetType = UNSET
    body_base64: bytes | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    published_at: str
    deliver_at: str


class MessageAnswer(Content):
    """A message as claimed or pulled."""

    queue: int
    offset: int
    attempt: int


class ClaimAnswer(Answer):
    """A claim, or `claim: null` and no messages."""

    claim: str | None
    lease_until: str | UnsetType = UNSET
    messages: list[MessageAnswer]


class PullAnswer(Answer):
    """Messages of a queue; the next pull begins at `next_offset`."""

    messages: list[MessageAnswer]
    next_offset: int


class Happening(Answer, omit_defaults=True):
    """A line in a message's life."""

    what: str
    at: str
    group: str | UnsetType = UNSET
    client: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class FoundAnswer(Content):
    """A message wherever it is. One that was cancelled has no body any more."""

    state: str
    queue: int | None
    offset: int | None
    life: list[Happening]


class FoundPage(Answer):
    """Messages by id; `cursor` is for the next page, null on the last."""

    messages: list[FoundAnswer]
    cursor: str | None


class Attempt(Answer):
    """A counted delivery that failed."""

    at: str
    client: str
    reason: str | None


class DeadAnswer(MessageAnswer):
    """A dead letter."""

    dead_at: str
    attempts: list[Attempt]


class DeadPage(Answer):
    """Dead letters by id; `cursor` is for the next page, null on the last."""

    messages: list[DeadAnswer]
    cursor: str | None


class CancelAnswer(Answer):
    """The message will not be delivered."""

    result: str = "cancelled"


class RescheduleAnswer(Answer):
    """The message has another time; its id stays."""

    result: str = "rescheduled"
    id: str
    deliver_at: str


class AckAnswer(Answer):
    """How many of the ids named are acknowledged."""

    acked: int


class FailAnswer(Answer):
    """How many went onto the ladder, and how many to the dead letters."""

    retried: int
    dead: int


class ExtendAnswer(Answer):
    """The new end of the lease."""

    lease_until: str


class TopicAnswer(Answer):
    """A topic. Durations are milliseconds; null is the default."""

    topic: str
    kind: str
    queues: int
    ordered: bool
    retention: int | None
    ladder: list[int] | None
    created_at: str


class GroupSummary(Answer):
    """A group in a list."""

    group: str
    topic: str
    ladder: list[int]


class GroupCounts(GroupSummary):
    """A group with its counts."""

    backlog: int
    claimed: int
    retrying: int
    dead: int


class TopicCounts(TopicAnswer):
    """A topic with its counts: accepted = streamed + cancelled + pending."""

    accepted: int
    streamed: int
    cancelled: int
    pending: int


class TopicDetail(TopicCounts):
    """A topic with its counts and groups."""

    groups: list[GroupCounts]


class TopicList(Answer):
    """All topics."""

    topics: list[TopicCounts]


class GroupList(Answer):
    """The groups of a topic."""

    groups: list[GroupSummary]


class QueueAnswer(Answer):
    """How far a group is in one queue."""

    queue: int
    offset: int
    end: int
    lag: int


class GroupDetail(GroupSummary):
    """Where a group stands. `backlog` is what it may claim now, returned retries included."""

    backlog: int
    queues: list[QueueAnswer]
    retry_queues: list[QueueAnswer]
    clients: list[str]
    claims: int
    claimed: int
    retries: list[int]
    """Resting, per rung."""
    acked: int
    retried: int
    dead: int


class Live(Answer):
    """The process works."""

    alive: bool = True


class Ready(Answer):
    """The server can accept and deliver. `checks` is there with ?verbose; a durability that is not ok is a warning."""

    ready: bool
    checks: list[Check] | UnsetType = UNSET


class Welcome(Answer):
    """Where to look."""

    name: str
    version: str
    openapi: str
    topics: str
    ready: str
    metrics: str


class KindOfProblem(Answer):
    """What a problem's `type` means."""

    type: str
    title: str
    status: int


def receipt(topic: Topic, one: Receipt) -> ReceiptAnswer:
    """Of a message that was accepted."""
    return ReceiptAnswer(
        id=str(one.id),
        topic=topic.name,
        state=one.state,
        deliver_at=format_time(one.deliver_at),
        queue=UNSET if one.queue is None else one.queue,
        offset=UNSET if one.offset is None else one.offset,
        replayed=one.replayed,
    )


def message(topic: Topic, one: Delivered) -> MessageAnswer:
    """As claimed or pulled."""
    body, body_base64, content_type = _body(one)
    return MessageAnswer(
        id=str(one.id),
        topic=topic.name,
        key=one.key,
        ordering_key=one.ordering_key,
        tag=one.tag,
        headers=None if one.headers is None else msgspec.Raw(one.headers),
        body=body,
        body_base64=body_base64,
        content_type=content_type,
        published_at=format_time(one.published_at),
        deliver_at=format_time(one.deliver_at),
        queue=one.queue,
        offset=one.offset,
        attempt=one.attempt,
    )


def dead_letter(topic: Topic, letter: DeadLetter) -> DeadAnswer:
    """As claimed, with its end and its attempts."""
    claimed = message(topic, letter.message)
    history = msgspec.json.decode(letter.history, type=list[_Stored])
    return DeadAnswer(
        **msgspec.structs.asdict(claimed),
        dead_at=format_time(letter.dead_at),
        attempts=[Attempt(at=format_time(one.at), client=one.client, reason=one.reason) for one in history],
    )


class _Stored(msgspec.Struct):
    """An attempt as the store keeps it."""

    at: int
    client: str
    reason: str | None = None


def found(one: Found) -> FoundAnswer:
    """Wherever it is."""
    body, body_base64, content_type = _body(one)
    return FoundAnswer(
        id=str(one.id),
        topic=one.topic,
        state=one.state,
        key=one.key,
        ordering_key=one.ordering_key,
        tag=one.tag,
        headers=None if one.headers is None else msgspec.Raw(one.headers),
        body=body,
        body_base64=body_base64,
        content_type=content_type,
        published_at=format_time(one.published_at),
        deliver_at=format_time(one.deliver_at),
        queue=one.queue,
        offset=one.offset,
        life=[_happening(event) for event in one.life],
    )


def _happening(event: Event) -> Happening:
    return Happening(
        what=event.what,
        at=format_time(event.at),
        group=UNSET if event.group is None else event.group,
        client=UNSET if event.client is None else event.client,
        attempt=UNSET if event.attempt is None else event.attempt,
        reason=UNSET if event.reason is None else event.reason,
    )


def _body(one: Delivered | Found) -> tuple[msgspec.Raw | UnsetType, bytes | UnsetType, str | UnsetType]:
    """As it came: JSON text as it was written, or bytes with their type."""
    if one.body is None:
        return UNSET, UNSET, UNSET
    if one.content_type is None:
        return msgspec.Raw(one.body), UNSET, UNSET
    return UNSET, one.body, one.content_type


def topic(one: Topic) -> TopicAnswer:
    """As it was made."""
    return TopicAnswer(
        topic=one.name,
        kind=one.kind,
        queues=len(one.queues),
        ordered=one.ordered,
        retention=one.retention,
        ladder=None if one.ladder is None else list(one.ladder.rungs),
        created_at=format_time(one.created_at),
    )


def topic_counts(one: Topic, state: TopicState) -> TopicCounts:
    """With its counts."""
    return TopicCounts(
        **msgspec.structs.asdict(topic(one)),
        accepted=state.accepted,
        streamed=state.streamed,
        cancelled=state.cancelled,
        pending=state.pending,
    )


def topic_detail(one: Topic, state: TopicState, groups: Sequence[tuple[Group, GroupState]]) -> TopicDetail:
    """With its counts and groups."""
    return TopicDetail(
        **msgspec.structs.asdict(topic_counts(one, state)),
        groups=[
            GroupCounts(
                **msgspec.structs.asdict(group_summary(group)),
                backlog=_backlog(counts),
                claimed=counts.claimed,
                retrying=sum(counts.retries),
                dead=counts.dead,
            )
            for group, counts in groups
        ],
    )


def group_summary(one: Group) -> GroupSummary:
    """Its ladder: its own, its topic's or the default."""
    return GroupSummary(group=one.name, topic=one.topic.name, ladder=list(one.ladder.rungs))


def group_detail(one: Group, state: GroupState) -> GroupDetail:
    """Where it stands."""

    def queues(*, retry: bool) -> list[QueueAnswer]:
        mine = [queue for queue in state.queues if queue.retry == retry]
        return [QueueAnswer(queue=q.queue, offset=q.offset, end=q.end, lag=q.lag) for q in mine]

    return GroupDetail(
        **msgspec.structs.asdict(group_summary(one)),
        backlog=_backlog(state),
        queues=queues(retry=False),
        retry_queues=queues(retry=True),
        clients=list(state.clients),
        claims=state.claims,
        claimed=state.claimed,
        retries=list(state.retries),
        acked=state.acked,
        retried=state.retried,
        dead=state.dead,
    )


def _backlog(state: GroupState) -> int:
    return sum(queue.lag for queue in state.queues)
