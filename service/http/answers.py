"""What goes out: the bodies of answers. /openapi.json is made from these structs."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from .problems import Check, ProblemBody


class Answer(msgspec.Struct):
    """A body that goes out."""


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
    """The idempotency key had been used before, and this is the first answer again."""


class BatchAnswer(Answer, kw_only=True):
    """The receipts, in order."""

    messages: list[ReceiptAnswer]


class LineFault(Answer):
    """A line whose message was not accepted: why, and which, from 1."""

    error: ProblemBody
    line: int


class Content(Answer, kw_only=True):
    """What a message is made of; its body in `body`, or in `body_base64` with `content_type`.

    One that was erased has `erased_at` instead.
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
    """How often in a row before this its client died, or let its lease run out; there when it did."""


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
    """A line in a message's life."""

    what: str
    at: str
    group: str | UnsetType = UNSET
    client: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    late: int | UnsetType = UNSET
    """Milliseconds after `deliver_at`: of `promoted`, and of the first `claimed` of each group."""


class FoundAnswer(Content, kw_only=True):
    """A message wherever it is. One that was cancelled or suppressed has no body any more."""

    state: str
    queue: int | None
    offset: int | None
    guard: str | UnsetType = UNSET
    """Who is asked at its time, while it waits; or who has suppressed it."""
    held: str | UnsetType = UNSET
    """It is due, and its guard has not said whether it is sent; why."""
    life: list[Happening]


class FoundPage(Answer, kw_only=True):
    """Messages that were found; `cursor` is for the next page, null on the last."""

    messages: list[FoundAnswer]
    cursor: str | None


class BucketAnswer(Answer, kw_only=True):
    """A stretch of time from `at` on."""

    at: str
    messages: int


class UpcomingAnswer(Answer, kw_only=True):
    """How many messages fall due in each stretch of `width` milliseconds; the first holds what is overdue, too.

    `counted_until` is null when all were counted; else counting stopped there, and later buckets are left out.
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
    """Who is signed in: the key's name and scopes. `key` is null where no key is asked for, and nothing ends then."""

    key: str | None
    scopes: list[str]
    expires_at: str | None
    csrf: str | None
    """To be sent with each write, in the header X-Tarry-CSRF."""


class SignedOut(Answer, kw_only=True):
    """The cookie is taken back."""

    result: str = "signed out"


class LatenessAnswer(Answer, kw_only=True):
    """How many messages were handed out how late, for each band of `step` milliseconds, the oldest first.

    Of a band's counts each holds those that were so many milliseconds late as `bounds` says, or less, and the last one
    all that were later.
    """

    step: int
    bounds: list[int]
    counts: list[list[int]]


class ActivityAnswer(Answer, kw_only=True):
    """What this server did in each of the last seconds before `at`, the oldest first."""

    node: str
    at: str
    step: int
    """Milliseconds: of one count."""
    published: list[int]
    delivered: list[int]
    acked: list[int]
    retried: list[int]
    dead: list[int]
    lateness: LatenessAnswer


class WheelAnswer(Answer, kw_only=True):
    """The wheel of this server: how many entries lie in each of its 3600 slots, a second of the hour each.

    Slots behind the hand are of the hour after, as far as that is dealt.
    """

    node: str
    at: str
    hand: int
    """The second of the hour at which it stands."""
    entries: int
    """In all: in the slots, due already, and of later hours. What a sweep read while it was published counts twice."""
    behind: int
    """By how many milliseconds the oldest due entry is late."""
    slots: list[int]


class ReportAnswer(Answer, kw_only=True):
    """A report of the pipeline, and when it was made."""

    report: str
    made_at: str


class ReportList(Answer, kw_only=True):
    """Reports, the latest first. `folder`: whether the setting `reports` names one."""

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
    """Of the messages of a key how many were cancelled, and for how many it was too late."""

    cancelled: int
    too_late: int


class TimerAnswer(Answer, kw_only=True, omit_defaults=True):
    """The message of a timer, and how it is: it waits, is in the stream, or was cancelled or
    suppressed."""

    id: str
    key: str
    revision: int
    deliver_at: str
    state: str
    replaced: str | UnsetType = UNSET
    """The message in whose place it is."""
    kept: bool = False
    """It is the one that waited already, which `keep` left as it was."""
    queue: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    load: int | UnsetType = UNSET
    late_by: int | UnsetType = UNSET
    """As of a receipt."""
    replayed: bool = False
    """The idempotency key had been used before, and this is the first answer again."""


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
    """So many fire times lie in the range; messages of so many were sent, or would be. The others had been before, or
    wait."""

    times: int
    sent: int


class NextAnswer(Answer, kw_only=True):
    """Fire times."""

    times: list[str]


class FireAnswer(Answer, kw_only=True, omit_defaults=True):
    """What became of a fire time: fired, missed, overlapped, run, backfilled or cancelled; kept: it waits still."""

    fire_at: str
    what: str
    at: str
    id: str | UnsetType = UNSET
    """Of its message."""
    missed_until: str | UnsetType = UNSET
    """The fire times after it and before then were left out with it, but for those that are told on their own."""


class RemovedSchedule(Answer, kw_only=True):
    """The schedule is no more."""

    name: str
    result: str = "removed"
    unsent: list[FireAnswer] | UnsetType = UNSET
    """The fire times that had come and whose messages are not sent any more, the latest first; where there are any."""


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
    """How many went onto the ladder, and how many to the dead letters."""

    retried: int
    dead: int


class SettledAnswer(Answer, kw_only=True, omit_defaults=True):
    """How many messages of a claim are done, rest for another try and are dead; or `error`, and beside it how many were
    acked before it."""

    acked: int | UnsetType = UNSET
    retried: int | UnsetType = UNSET
    dead: int | UnsetType = UNSET
    error: ProblemBody | UnsetType = UNSET


class SettleAnswer(Answer, kw_only=True):
    """One for each settlement, in order."""

    settled: list[SettledAnswer]


class ExtendAnswer(Answer, kw_only=True):
    """The new end of the lease."""

    lease_until: str


class NudgeAnswer(Answer, kw_only=True):
    """The tables are being looked at."""

    nudged: bool = True


class RenewAnswer(Answer, kw_only=True):
    """The client lives, and without another sign of life until then, which is in `alive_for` milliseconds."""

    client: str
    alive_until: str
    alive_for: int
    untold: list[str] | UnsetType = UNSET
    """Claims of which what was begun could not be noted, because the store or a row was not to be had: say it again."""


class DeregisterAnswer(Answer, kw_only=True):
    """The client has gone: whether it had ever renewed, and how many claims ended with it."""

    client: str
    registered: bool
    claims: int


class RemovedTopic(Answer, kw_only=True):
    """The topic is no more."""

    topic: str
    result: str = "removed"


class RemovedGroup(Answer, kw_only=True):
    """The group is no more."""

    topic: str
    group: str
    result: str = "removed"


class PushAnswer(Answer, kw_only=True):
    """Where the messages of a group are posted. Nothing tells its secrets."""

    topic: str
    group: str
    url: str
    timeout: int
    """Of one post, milliseconds."""
    max_in_flight: int
    secrets: int
    """How many there are."""
    changed_at: str
    state: Literal["on", "broken", "off"]
    """broken: the endpoint is away, and tried now and then. off: it answered 410, and nothing is posted."""
    since: str | None
    """When it broke, or was switched off."""
    because: str | None


class RemovedPush(Answer, kw_only=True):
    """The messages of the group are pushed no more."""

    topic: str
    group: str
    result: str = "removed"


class HeldAnswer(Answer, kw_only=True):
    """What a client holds of a queue; `owner`: of an ordered topic, it alone may claim from the queue."""

    topic: str
    group: str
    queue: int
    claims: int
    owner: bool


class ClientAnswer(Answer, kw_only=True):
    """A client. One that never renewed has no times, and `alive` is null: it lives by the leases of its claims."""

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
    """A server. What it tells of itself is as it was at `renewed_at`; durations are milliseconds."""

    node: str
    """Its name: the setting `node`."""
    boot: str
    """A name of its own for each start."""
    slot: int
    alive: bool
    """False when it has not renewed for five seconds."""
    duties: bool
    """It does what one server does for all, such as clearing up."""
    level: int
    """The newest migration of the schema that it knows."""
    version: str
    url: str
    started_at: str
    renewed_at: str
    hand_behind: int
    """By how much its oldest due timer is late."""
    timers: int
    """In its wheel."""
    shards: list[int]
    """Those of the wheel's sixteen shards that it holds."""
    leaving: bool
    """It stops, and others take what it holds."""
    skew: int
    """By how much its host's clock was set since it started; of an embedded store alone."""
    durability: list[str]
    """Under which settings of the database an accepted message can be lost; none when all is well."""


class NodeList(Answer, kw_only=True):
    """The servers on this database, by slot; `level` is that of the oldest program among them."""

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
    """What this server does where a topic has nothing of its own."""

    retention: int
    ladder: list[int]
    jitter: float


class TopicSettings(TopicAnswer, kw_only=True):
    """A topic, and what null stands for."""

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
    """Its clients are given nothing."""


class GroupDefaults(Answer, kw_only=True):
    """What a group has that has no ladder of its own: its topic's, or the server's."""

    ladder: list[int]
    jitter: float
    ladder_of: str


class GroupSettings(GroupSummary, kw_only=True):
    """A group, whose its ladder is (the group's, the topic's or the server's), and what it would have without one."""

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
    """A guard, and what waits for its answer at this server."""

    guard: str
    declared: bool
    """Whether this server's settings declare it; what names it is held else."""
    table: str | None
    key_column: str | None
    condition: str | None
    dsn: str | None
    """Without its password."""
    timeout: int | None
    waiting: int
    """Messages that are due and have no answer yet."""
    holds: str | None
    """Why it does not answer, if so."""


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
    """A topic with what it is doing: messages a second over the last minute, by this server."""

    published_rate: float
    delivered_rate: float
    backlog: int
    """What its groups have yet to claim."""


class TopicDetail(TopicCounts, kw_only=True):
    """A topic with its counts and groups, and what null stands for; `held_back` is what is due at this server and waits
    for the release rate, retries among it."""

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
    """Ordered topics: the client that may claim from it, null before the first claim."""


class GroupDetail(GroupSettings, kw_only=True):
    """Where a group stands. `backlog` is what it may claim now, returned retries included."""

    backlog: int
    queues: list[QueueAnswer]
    retry_queues: list[QueueAnswer]
    clients: list[str]
    claims: int
    claimed: int
    retries: list[int]
    """Resting, per rung."""
    parked: int
    """Ordered topics: behind one of their key that comes back."""
    acked: int
    retried: int
    redriven: int
    """Put onto the ladder by redrive and replay."""
    dead: int
    """All that ever died; those that are dead letters now are `dead_letters`."""
    dead_letters: int
    skipped: int
    """Passed over for their tags."""
    expired: int
    """Taken by retention before they were settled."""


class PositionAnswer(Answer, kw_only=True):
    """Where a group goes on in a queue."""

    queue: int
    offset: int


class SeekAnswer(Answer, kw_only=True):
    """Where the group is now, in each queue that was moved."""

    queues: list[PositionAnswer]


class ReplayAnswer(Answer, kw_only=True):
    """How many come once more. With `more` it stopped for the time being: the same call goes on."""

    replayed: int
    more: bool


class RedriveAnswer(Answer, kw_only=True):
    """How many went back to the group.

    With `more` it stopped for the time being: the same call, with this `from` and `to`, goes on.
    """

    redriven: int
    expired: int
    """Past their `expires_at`: they stay dead letters."""
    astray: int | UnsetType = UNSET
    """They stay, too: spoilt by somebody's own SQL, they are of no queue of the topic, or at no offset."""
    more: bool
    from_: str | UnsetType = msgspec.field(name="from", default=UNSET)
    to: str


class PurgeAnswer(Answer, kw_only=True):
    """How many are gone.

    With `more` it stopped for the time being: the same call, with this `from` and `to`, goes on.
    """

    purged: int
    more: bool
    from_: str | UnsetType = msgspec.field(name="from", default=UNSET)
    to: str


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
