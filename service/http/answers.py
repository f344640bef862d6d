"""The bodies of answers, as structs; /openapi.json is made from them."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, Self

import msgspec
from msgspec import UNSET, UnsetType

from ..durations import format_time
from .problems import Check, ProblemBody


class Answer(msgspec.Struct):
    """The body of an answer."""

    @classmethod
    def of(cls, record: object, **others: Any) -> Self:
        """The answer that tells what a record has under the same names; `others` are its other fields.

        Times become texts, and a field that may be left out is, if the record has None.
        """
        for name, may_be_left_out in _fields(cls):
            if name not in others and (value := getattr(record, name, UNSET)) is not UNSET:
                if isinstance(value, int) and (name == "at" or name.endswith(("_at", "_until"))):
                    others[name] = format_time(value)
                elif value is not None or not may_be_left_out:
                    others[name] = value
        return cls(**others)


@cache
def _fields(answer: type[Answer]) -> Sequence[tuple[str, bool]]:
    """The names of its fields, each with whether it may be left out."""
    return [(one.name, one.default is UNSET) for one in msgspec.structs.fields(answer)]


class ReceiptAnswer(Answer, kw_only=True, omit_defaults=True):
    """A message was accepted. `queue` and `offset` are known when it went straight to the stream.

    `load` and `late_by` are estimates for messages that wait and are due soon: how many fall due in the same second, as
    far as this server knows; and by how many milliseconds they will be late, at the pace of the last promotions.
    """

    id: str
    topic: str
    state: str
    deliver_at: str
    queue: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    load: int | UnsetType = UNSET
    late_by: int | UnsetType = UNSET
    replayed: bool = False
    """The idempotency key was used before, and this repeats the first answer."""


class BatchAnswer(Answer, kw_only=True):
    """The receipts, in order."""

    messages: list[ReceiptAnswer]


class LineFault(Answer):
    """A line whose message was not accepted: the reason, and the number of the line, from 1."""

    error: ProblemBody
    line: int


class Content(Answer, kw_only=True):
    """The content of a message; its body is in `body`, or in `body_base64` with `content_type`.

    A message that was erased has `erased_at` instead.
    """

    id: str
    topic: str
    key: str | None
    ordering_key: str | None
    tag: str | None
    headers: msgspec.Raw | None
    body: msgspec.Raw | UnsetType = UNSET
    body_base64: bytes | UnsetType = UNSET
    content_type: str | UnsetType = UNSET
    erased_at: str | UnsetType = UNSET
    published_at: str
    deliver_at: str
    expires_at: str | UnsetType = UNSET


class MessageAnswer(Content, kw_only=True):
    """A message as claimed or pulled."""

    queue: int
    offset: int
    attempt: int
    losses: int | UnsetType = UNSET
    """How many deliveries in a row before this one were lost, because the client died or its lease ran out; left out if
    none was."""


class ClaimAnswer(Answer, kw_only=True):
    """A claim, or `claim: null` and no messages. Messages of a broadcast topic come without a claim, with `next`."""

    claim: str | None
    next: str | UnsetType = UNSET
    lease_until: str | UnsetType = UNSET
    ordered: bool | UnsetType = UNSET
    """True: messages of one queue and ordering key (or of none) are to be handled one after the other."""
    messages: list[MessageAnswer]


class PullAnswer(Answer, kw_only=True):
    """Messages of a queue; the next pull begins at `next_offset`."""

    messages: list[MessageAnswer]
    next_offset: int


class Happening(Answer, kw_only=True, omit_defaults=True):
    """An event in a message's life."""

    what: str
    at: str
    group: str | UnsetType = UNSET
    client: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    late: int | UnsetType = UNSET
    """Milliseconds after `deliver_at`; of `promoted`, and of the first `claimed` of each group."""


class FoundAnswer(Content, kw_only=True):
    """A message in any state. If it was cancelled or suppressed it has no body any more."""

    state: str
    queue: int | None
    offset: int | None
    guard: str | UnsetType = UNSET
    """The guard that is asked at its time, while it waits; or the guard that has suppressed it."""
    held: str | UnsetType = UNSET
    """It is due, but its guard has not said whether it is sent: the reason."""
    life: list[Happening]


class FoundPage(Answer, kw_only=True):
    """Messages that match the search; `cursor` is for the next page, null on the last."""

    messages: list[FoundAnswer]
    cursor: str | None


class BucketAnswer(Answer, kw_only=True):
    """The messages that fall due in the stretch of time that begins at `at`."""

    at: str
    messages: int


class UpcomingAnswer(Answer, kw_only=True):
    """How many messages fall due in each stretch of `width` milliseconds; the first counts overdue messages, too.

    `counted_until` is null if all were counted; else counting stopped there, and later buckets are left out.
    """

    width: int
    buckets: list[BucketAnswer]
    counted_until: str | None


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


class SessionAnswer(Answer, kw_only=True):
    """Who is signed in: the key's name and scopes. Where no key is required, `key` is null and the session never
    ends."""

    key: str | None
    scopes: list[str]
    expires_at: str | None
    csrf: str | None
    """Send it with each write, in the header X-Tarry-CSRF."""


class SignedOut(Answer, kw_only=True):
    """The session is over, and its cookie is deleted."""

    result: str = "signed out"


class LatenessAnswer(Answer, kw_only=True):
    """How late messages were handed out: their counts for each band of `step` milliseconds, the oldest first.

    The counts of a band go by lateness: each holds the messages that were late by at most the milliseconds in `bounds`,
    and by more than the bound before; the last holds all that were later.
    """

    step: int
    bounds: list[int]
    counts: list[list[int]]


class ActivityAnswer(Answer, kw_only=True):
    """What this server did in each of the last seconds before `at`, the oldest first."""

    node: str
    at: str
    step: int
    """Milliseconds that one count covers."""
    published: list[int]
    delivered: list[int]
    acked: list[int]
    retried: list[int]
    dead: list[int]
    lateness: LatenessAnswer


class WheelAnswer(Answer, kw_only=True):
    """The wheel of this server: how many entries are in each of its 3600 slots, a second of the hour each.

    Slots behind the hand belong to the next hour, as far as its entries have been put into slots.
    """

    node: str
    at: str
    hand: int
    """The second of the hour at which the hand stands."""
    entries: int
    """Entries in all: in the slots, due already, and of later hours. A message that was published while a sweep read it
    counts twice."""
    behind: int
    """By how many milliseconds the oldest due entry is late."""
    slots: list[int]


class ReportAnswer(Answer, kw_only=True):
    """A report of the pipeline, and when it was made."""

    report: str
    made_at: str


class ReportList(Answer, kw_only=True):
    """Reports, the latest first. `folder`: whether the setting `reports` names a folder."""

    folder: bool
    reports: list[ReportAnswer]


class CancelAnswer(Answer, kw_only=True):
    """The message will not be delivered: it is cancelled, or its guard had ended it before."""

    result: str = "cancelled"


class ErasureAnswer(Answer, kw_only=True):
    """A message is erased, since `erased_at`.

    `lake` is `pending` until the archive's next run, and `erased` then, since `lake_at`; `none` where there is no lake.
    """

    id: str
    erased_at: str
    lake: Literal["none", "pending", "erased"]
    lake_at: str | None


class LabelledAnswer(Answer, kw_only=True):
    """How many messages of a key were cancelled, and how many were too late to cancel."""

    cancelled: int
    too_late: int


class TimerAnswer(Answer, kw_only=True, omit_defaults=True):
    """The message of a timer, and its state: it waits, is in the stream, or was cancelled or suppressed."""

    id: str
    key: str
    revision: int
    deliver_at: str
    state: str
    replaced: str | UnsetType = UNSET
    """The id of the message that it replaced."""
    kept: bool = False
    """It is the message that waited already, which `keep` left as it was."""
    queue: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    load: int | UnsetType = UNSET
    late_by: int | UnsetType = UNSET
    """As in a receipt."""
    replayed: bool = False
    """The idempotency key was used before, and this repeats the first answer."""


class TimerPage(Answer, kw_only=True):
    """Timers by key; `cursor` is for the next page, null on the last."""

    timers: list[TimerAnswer]
    cursor: str | None


class ScheduleAnswer(Answer, kw_only=True):
    """A schedule as it was set, and its next fire times; none while it is paused."""

    name: str
    spec: msgspec.Raw
    next: list[str]
    paused: bool
    revision: int


class ScheduleList(Answer, kw_only=True):
    """Schedules; `cursor` is for the next page, null on the last."""

    schedules: list[ScheduleAnswer]
    cursor: str | None


class RunAnswer(Answer, kw_only=True):
    """A message of a schedule was sent."""

    id: str
    fire_at: str


class BackfillAnswer(Answer, kw_only=True):
    """How many fire times lie in the range, and for how many of them messages were sent, or would be. Those of the
    others were sent before, or wait."""

    times: int
    sent: int


class NextAnswer(Answer, kw_only=True):
    """Fire times."""

    times: list[str]


class FireAnswer(Answer, kw_only=True, omit_defaults=True):
    """What became of a fire time: fired, missed, overlapped, run, backfilled or cancelled; kept: it still waits."""

    fire_at: str
    what: str
    at: str
    id: str | UnsetType = UNSET
    """The id of its message."""
    missed_until: str | UnsetType = UNSET
    """The fire times between this one and then were missed too, except those that are listed on their own."""


class RemovedSchedule(Answer, kw_only=True):
    """The schedule is removed."""

    name: str
    result: str = "removed"
    unsent: list[FireAnswer] | UnsetType = UNSET
    """Past fire times whose messages will not be sent any more, the latest first; left out if there are none."""


class FirePage(Answer, kw_only=True):
    """Fire times, the latest first; `cursor` is for the next page, null on the last."""

    fires: list[FireAnswer]
    cursor: str | None


class RescheduleAnswer(Answer, kw_only=True):
    """The message has another time; its id stays."""

    result: str = "rescheduled"
    id: str
    deliver_at: str


class AckAnswer(Answer, kw_only=True):
    """How many of the ids named are acknowledged."""

    acked: int


class FailAnswer(Answer, kw_only=True):
    """How many messages were put onto the ladder, and how many went to the dead letters."""

    retried: int
    dead: int


class SettledAnswer(Answer, kw_only=True, omit_defaults=True):
    """How many messages of a claim are acked, wait for a retry, or are dead; or `error`, and how many were acked before
    it."""

    acked: int | UnsetType = UNSET
    retried: int | UnsetType = UNSET
    dead: int | UnsetType = UNSET
    error: ProblemBody | UnsetType = UNSET


class SettleAnswer(Answer, kw_only=True):
    """One result for each settlement, in order."""

    settled: list[SettledAnswer]


class ExtendAnswer(Answer, kw_only=True):
    """The new end of the lease."""

    lease_until: str


class NudgeAnswer(Answer, kw_only=True):
    """The server is looking at its tables."""

    nudged: bool = True


class RenewAnswer(Answer, kw_only=True):
    """The client is alive. Without another sign of life it is dead at `alive_until`, in `alive_for` milliseconds."""

    client: str
    alive_until: str
    alive_for: int
    untold: list[str] | UnsetType = UNSET
    """Claims whose begun messages could not be noted, because the store was away or a row was locked: send them
    again."""


class DeregisterAnswer(Answer, kw_only=True):
    """The client is deregistered: whether it had ever renewed, and how many claims ended with it."""

    client: str
    registered: bool
    claims: int


class RemovedTopic(Answer, kw_only=True):
    """The topic is removed."""

    topic: str
    result: str = "removed"


class RemovedGroup(Answer, kw_only=True):
    """The group is removed."""

    topic: str
    group: str
    result: str = "removed"


class PushAnswer(Answer, kw_only=True):
    """Where the messages of a group are posted. Its secrets are never shown."""

    topic: str
    group: str
    url: str
    timeout: int
    """The time-out of one post, milliseconds."""
    max_in_flight: int
    secrets: int
    """The number of secrets."""
    changed_at: str
    state: Literal["on", "broken", "off"]
    """broken: the endpoint is unavailable, and tried now and then. off: it answered 410, and nothing is posted."""
    since: str | None
    """When it broke, or was switched off."""
    because: str | None


class RemovedPush(Answer, kw_only=True):
    """The messages of the group are not pushed any more."""

    topic: str
    group: str
    result: str = "removed"


class HeldAnswer(Answer, kw_only=True):
    """A client's claims in a queue; `owner`, in an ordered topic: it alone may claim from the queue."""

    topic: str
    group: str
    queue: int
    claims: int
    owner: bool


class ClientAnswer(Answer, kw_only=True):
    """A client. If it never renewed it has no times and `alive` is null: only the leases of its claims count."""

    client: str
    registered_at: str | None
    renewed_at: str | None
    alive: bool | None
    holds: list[HeldAnswer]


class ClientPage(Answer, kw_only=True):
    """Clients by name; `cursor` is for the next page, null on the last."""

    clients: list[ClientAnswer]
    cursor: str | None


class NodeAnswer(Answer, kw_only=True):
    """A server, as it described itself at `renewed_at`; durations are milliseconds."""

    node: str
    """Its name: the setting `node`."""
    boot: str
    """A unique name for each start of the server."""
    slot: int
    alive: bool
    """False when it has not renewed for five seconds."""
    duties: bool
    """It has the duties that one server does for all, such as cleaning up."""
    level: int
    """The newest migration of the schema that it knows."""
    version: str
    url: str
    started_at: str
    renewed_at: str
    hand_behind: int
    """How late its oldest due timer is."""
    timers: int
    """Timers in its wheel."""
    shards: list[int]
    """The shards of the wheel, of sixteen, that it holds."""
    leaving: bool
    """It is stopping, and others take over its shards."""
    skew: int
    """By how much its host's clock was changed since it started; only with an embedded store."""
    durability: list[str]
    """Settings of the database under which an accepted message can be lost; empty when all is well."""


class NodeList(Answer, kw_only=True):
    """The servers on this database, by slot; `level` is the lowest among those that are alive."""

    nodes: list[NodeAnswer]
    level: int


class TopicAnswer(Answer, kw_only=True):
    """A topic. Durations are milliseconds; null is the default."""

    topic: str
    kind: str
    queues: int
    ordered: bool
    retention: int | None
    ladder: list[int] | None
    sequencer: str
    max_pending: int | None
    max_rate: int | None
    release_rate: int | None
    jitter: float | None
    created_at: str


class TopicDefaults(Answer, kw_only=True):
    """The values that this server uses where a topic has none of its own."""

    retention: int
    ladder: list[int]
    jitter: float


class TopicSettings(TopicAnswer, kw_only=True):
    """A topic, and the defaults that null stands for."""

    defaults: TopicDefaults


class GroupSummary(Answer, kw_only=True):
    """A group in a list."""

    group: str
    topic: str
    ladder: list[int]
    jitter: float
    on_exhausted: str
    concurrency: int | None
    paused: bool
    """Its clients are given no messages."""


class GroupDefaults(Answer, kw_only=True):
    """The ladder of a group that has none of its own: its topic's, or the server's."""

    ladder: list[int]
    jitter: float
    ladder_of: str


class GroupSettings(GroupSummary, kw_only=True):
    """A group, the source of its ladder (the group, the topic or the server), and its ladder if it had none of its
    own."""

    ladder_of: str
    defaults: GroupDefaults


class GroupCounts(GroupSummary, kw_only=True):
    """A group with its counts."""

    backlog: int
    claimed: int
    retrying: int
    dead: int
    dead_letters: int


class GuardAnswer(Answer, kw_only=True):
    """A guard, and how many messages wait for its answer at this server."""

    guard: str
    declared: bool
    """Whether this server's settings declare it; if not, messages that name it are held."""
    table: str | None
    key_column: str | None
    condition: str | None
    dsn: str | None
    """Without its password."""
    timeout: int | None
    waiting: int
    """Due messages for which it has not answered yet."""
    holds: str | None
    """Why it holds messages; null if it holds none."""


class GuardList(Answer, kw_only=True):
    """Guards by name."""

    guards: list[GuardAnswer]


class TopicCounts(TopicAnswer, kw_only=True):
    """A topic with its counts: accepted = streamed + cancelled + replaced + suppressed + pending."""

    accepted: int
    streamed: int
    cancelled: int
    replaced: int
    suppressed: int
    pending: int


class TopicRanked(TopicCounts, kw_only=True):
    """A topic with its counts and rates: messages a second over the last minute, by this server."""

    published_rate: float
    delivered_rate: float
    backlog: int
    """Messages that its groups have yet to claim."""


class TopicDetail(TopicCounts, kw_only=True):
    """A topic with its counts and groups, and the defaults that null stands for. `held_back` counts messages and
    retries that are due at this server and wait for the release rate."""

    held_back: int
    defaults: TopicDefaults
    groups: list[GroupCounts]


class TopicList(Answer, kw_only=True):
    """Topics; `cursor` is for the next page, null on the last."""

    topics: list[TopicRanked]
    cursor: str | None


class GroupList(Answer, kw_only=True):
    """The groups of a topic."""

    groups: list[GroupSummary]


class GroupPage(Answer, kw_only=True):
    """Groups of all topics, or of one; `cursor` is for the next page, null on the last."""

    groups: list[GroupCounts]
    cursor: str | None


class QueueAnswer(Answer, kw_only=True):
    """How far a group is in one queue."""

    queue: int
    offset: int
    end: int
    lag: int
    owner: str | UnsetType | None = UNSET
    """In ordered topics the client that may claim from it, null before the first claim."""


class GroupDetail(GroupSettings, kw_only=True):
    """The position and counts of a group. `backlog` is how many messages it may claim now, returned retries
    included."""

    backlog: int
    queues: list[QueueAnswer]
    retry_queues: list[QueueAnswer]
    clients: list[str]
    claims: int
    claimed: int
    retries: list[int]
    """How many messages wait on each rung."""
    parked: int
    """In ordered topics, messages that wait behind a retry of their ordering key."""
    acked: int
    retried: int
    redriven: int
    """Put onto the ladder by redrive and replay."""
    dead: int
    """All messages that ever became dead letters; `dead_letters` counts those that still are."""
    dead_letters: int
    skipped: int
    """Messages passed over because of their tags."""
    expired: int
    """Messages removed by retention before they were settled."""


class PositionAnswer(Answer, kw_only=True):
    """The offset at which a group continues in a queue."""

    queue: int
    offset: int


class SeekAnswer(Answer, kw_only=True):
    """The position of the group now, in each queue that was moved."""

    queues: list[PositionAnswer]


class ReplayAnswer(Answer, kw_only=True):
    """How many messages are delivered once more. With `more` it stopped early: repeat the call to go on."""

    replayed: int
    more: bool


class RedriveAnswer(Answer, kw_only=True):
    """How many dead letters went back to the group.

    With `more` it stopped early: repeat the call with this `from` and `to` to go on.
    """

    redriven: int
    expired: int
    """Past their `expires_at`: they stay dead letters."""
    astray: int | UnsetType = UNSET
    """These stay, too: changed by SQL from outside Tarry, they name no queue of the topic, or no offset."""
    more: bool
    from_: str | UnsetType = msgspec.field(name="from", default=UNSET)
    to: str


class PurgeAnswer(Answer, kw_only=True):
    """How many dead letters were removed.

    With `more` it stopped early: repeat the call with this `from` and `to` to go on.
    """

    purged: int
    more: bool
    from_: str | UnsetType = msgspec.field(name="from", default=UNSET)
    to: str


class Live(Answer, kw_only=True):
    """The process works."""

    alive: bool = True


class Ready(Answer, kw_only=True):
    """The server can accept and deliver. `checks` is included with ?verbose; a durability that is not ok is a
    warning."""

    ready: bool
    checks: list[Check] | UnsetType = UNSET


class Welcome(Answer, kw_only=True):
    """Where to find documentation, topics, health and metrics."""

    name: str
    version: str
    docs: str
    openapi: str
    topics: str
    ready: str
    metrics: str


class KindOfProblem(Answer, kw_only=True):
    """What a problem's `type` means."""

    type: str
    title: str
    status: int
