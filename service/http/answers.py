"""What goes out: the bodies of answers. /openapi.json is made from these structs."""

import msgspec
from msgspec import UNSET, UnsetType

from .problems import Check


class Answer(msgspec.Struct):
    """A body that goes out."""


class ReceiptAnswer(Answer, kw_only=True, omit_defaults=True):
    """A message was accepted. `queue` and `offset` are known when it went straight to the stream."""

    id: str
    topic: str
    state: str
    deliver_at: str
    queue: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    replayed: bool = False
    """The idempotency key had been used before, and this is the first answer again."""


class BatchAnswer(Answer, kw_only=True):
    """The receipts, in order."""

    messages: list[ReceiptAnswer]


class Content(Answer, kw_only=True):
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


class MessageAnswer(Content, kw_only=True):
    """A message as claimed or pulled."""

    queue: int
    offset: int
    attempt: int


class ClaimAnswer(Answer, kw_only=True):
    """A claim, or `claim: null` and no messages. Messages of a broadcast topic come without a claim, with `next`."""

    claim: str | None
    next: str | UnsetType = UNSET
    lease_until: str | UnsetType = UNSET
    messages: list[MessageAnswer]


class PullAnswer(Answer, kw_only=True):
    """Messages of a queue; the next pull begins at `next_offset`."""

    messages: list[MessageAnswer]
    next_offset: int


class Happening(Answer, kw_only=True, omit_defaults=True):
    """A line in a message's life."""

    what: str
    at: str
    group: str | UnsetType = UNSET
    client: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class FoundAnswer(Content, kw_only=True):
    """A message wherever it is. One that was cancelled has no body any more."""

    state: str
    queue: int | None
    offset: int | None
    life: list[Happening]


class FoundPage(Answer, kw_only=True):
    """Messages by id; `cursor` is for the next page, null on the last."""

    messages: list[FoundAnswer]
    cursor: str | None


class Attempt(Answer, kw_only=True):
    """A counted delivery that failed."""

    at: str
    client: str
    reason: str | None


class DeadAnswer(MessageAnswer, kw_only=True):
    """A dead letter."""

    dead_at: str
    attempts: list[Attempt]


class DeadPage(Answer, kw_only=True):
    """Dead letters by id; `cursor` is for the next page, null on the last."""

    messages: list[DeadAnswer]
    cursor: str | None


class CancelAnswer(Answer, kw_only=True):
    """The message will not be delivered."""

    result: str = "cancelled"


class RescheduleAnswer(Answer, kw_only=True):
    """The message has another time; its id stays."""

    result: str = "rescheduled"
    id: str
    deliver_at: str


class AckAnswer(Answer, kw_only=True):
    """How many of the ids named are acknowledged."""

    acked: int


class FailAnswer(Answer, kw_only=True):
    """How many went onto the ladder, and how many to the dead letters."""

    retried: int
    dead: int


class ExtendAnswer(Answer, kw_only=True):
    """The new end of the lease."""

    lease_until: str


class TopicAnswer(Answer, kw_only=True):
    """A topic. Durations are milliseconds; null is the default."""

    topic: str
    kind: str
    queues: int
    ordered: bool
    retention: int | None
    ladder: list[int] | None
    created_at: str


class GroupSummary(Answer, kw_only=True):
    """A group in a list."""

    group: str
    topic: str
    ladder: list[int]
    concurrency: int | None


class GroupCounts(GroupSummary, kw_only=True):
    """A group with its counts."""

    backlog: int
    claimed: int
    retrying: int
    dead: int


class TopicCounts(TopicAnswer, kw_only=True):
    """A topic with its counts: accepted = streamed + cancelled + pending."""

    accepted: int
    streamed: int
    cancelled: int
    pending: int


class TopicRanked(TopicCounts, kw_only=True):
    """A topic with what it is doing: messages a second over the last minute, by this server."""

    published_rate: float
    delivered_rate: float
    backlog: int
    """What its groups have yet to claim."""


class TopicDetail(TopicCounts, kw_only=True):
    """A topic with its counts and groups."""

    groups: list[GroupCounts]


class TopicList(Answer, kw_only=True):
    """All topics."""

    topics: list[TopicRanked]


class GroupList(Answer, kw_only=True):
    """The groups of a topic."""

    groups: list[GroupSummary]


class QueueAnswer(Answer, kw_only=True):
    """How far a group is in one queue."""

    queue: int
    offset: int
    end: int
    lag: int


class GroupDetail(GroupSummary, kw_only=True):
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


class Live(Answer, kw_only=True):
    """The process works."""

    alive: bool = True


class Ready(Answer, kw_only=True):
    """The server can accept and deliver. `checks` is there with ?verbose; a durability that is not ok is a warning."""

    ready: bool
    checks: list[Check] | UnsetType = UNSET


class Welcome(Answer, kw_only=True):
    """Where to look."""

    name: str
    version: str
    openapi: str
    topics: str
    ready: str
    metrics: str


class KindOfProblem(Answer, kw_only=True):
    """What a problem's `type` means."""

    type: str
    title: str
    status: int
