"""Records that the store takes and returns: frozen, times in Unix milliseconds UTC, text as str, bodies as received.

Records that are made for each published message are structs: making one takes a seventh of the time of an attrs class.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Literal, NamedTuple

from attrs import evolve, field, frozen
from msgspec import Struct

from ..wheel.ladder import Ladder
from .content import Attributes, Content

MAX_HEADERS = 16 << 10
"""Bytes of a message's headers, as JSON."""


@frozen
class Queue:
    """One sequence of offsets. A group's retry queue stands beside the topic's own queue of the same number."""

    id: int
    number: int


@frozen
class Topic:
    """A topic and its queues, in the order of their numbers."""

    id: int
    name: str
    kind: Literal["cluster", "broadcast"]
    ordered: bool
    queues: tuple[Queue, ...]
    retention: int | None
    """Milliseconds; None: the service's default."""
    ladder: Ladder | None
    created_at: int
    sequencer: Literal["store", "redis"] = "store"
    """Where its offsets are drawn; see `mysql.redis_offsets`."""
    max_pending: int | None = None
    """How many of its messages may be waiting for their due time; None: no limit."""
    max_rate: int | None = None
    """How many messages are accepted per second; None: no limit."""
    release_rate: int | None = None
    """How many waiting messages, retries included, go to the stream per second; None: no limit."""

    @property
    def limited(self) -> bool:
        """Whether there is a limit to what is accepted."""
        return self.max_pending is not None or self.max_rate is not None


@frozen
class Group:
    """A consumer group of one topic: a cursor per queue, and per queue a retry queue of its own."""

    id: int
    topic: Topic
    name: str
    ladder: Ladder
    retry_queue_of: Mapping[int, Queue]
    """By the id of the topic's own queue."""
    block: bool = False
    """Ordered topics: a message that exhausts the ladder is retried for ever, and blocks the later ones of its key."""
    own_ladder: Ladder | None = None
    """The group's own ladder; None: `ladder` is its topic's, or the default."""
    concurrency: int | None = None
    """How many messages its clients may hold in claims at once; None: no limit."""
    paused: bool = False
    """While paused, no messages are claimed. Messages in claims can still be settled; timers and retries go on."""

    @property
    def retry_queues(self) -> tuple[Queue, ...]:
        """The group's own queues, through which its retries come back."""
        return tuple(self.retry_queue_of.values())

    @property
    def queue_ids(self) -> tuple[int, ...]:
        """All queues this group reads, its retry queues first."""
        return (*(queue.id for queue in self.retry_queues), *(queue.id for queue in self.topic.queues))

    def number_of(self, queue_id: int) -> int | None:
        """The number of a queue of the topic, or of the one that a retry queue stands beside; None for any other."""
        queues = (*self.topic.queues, *self.retry_queues)
        return next((queue.number for queue in queues if queue.id == queue_id), None)


class Draft(Attributes, frozen=True, kw_only=True):
    """A message to be published: at once, or at `deliver_at`."""

    topic: Topic
    queue: Queue
    body: bytes
    deliver_at: int | None = None
    guard: str | None = None
    """The name of the guard that is asked at the due time whether the message is sent. A message with a guard always
    waits, if only for the answer."""


class Publication(Struct, frozen=True):
    """Drafts of one request: all or none. An idempotency key counts per topic and covers the whole request."""

    drafts: tuple[Draft, ...]
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    """SHA-256 of the request as sent; the same key with another fingerprint is a conflict."""

    @property
    def weight(self) -> int:
        """The weight of its drafts; see `weight_of`."""
        return weight_of(self.drafts)


def weight_of(drafts: Iterable[Draft]) -> int:
    """About how many bytes these drafts take in memory and in a statement."""
    return sum([len(draft.body) + 200 + (0 if draft.headers is None else len(draft.headers)) for draft in drafts])


class Receipt(Struct, frozen=True):
    """The answer to a publish. `queue` and `offset` are set when the message went straight to the stream."""

    id: int
    state: Literal["published", "scheduled"]
    deliver_at: int
    due: int
    """When the wheel is to fire: `deliver_at`, or up to a second later when that millisecond is full."""
    queue: int | None = None
    offset: int | None = None
    replayed: bool = False


@frozen
class Conflict:
    """The idempotency key was used before with another request."""

    idempotency_key: str


@frozen
class Verdict:
    """The result of a cancel or a reschedule; exact, since it is decided by the locked row."""

    result: Literal["cancelled", "suppressed", "rescheduled", "too_late", "not_found", "locked", "expires"]
    """`suppressed`: its guard said no before. `locked`: a transaction holds the row at this moment; ask again.
    `expires`: the message would be expired at the new time, so it was not moved."""
    fresh: bool = True
    """False when the message had been cancelled before."""
    topic: int | None = None
    due_before: int | None = None
    due: int | None = None
    deliver_at: int | None = None
    expires_at: int | None = None
    first_heard: bool = False
    """The message came from an outbox, and this transaction has counted its publish in the topic's counters."""
    of_schedule: bool = False
    """The message was the next one of a schedule, which has to go on to its next fire time."""


class Promoted(NamedTuple):
    """A wheel entry that promotion moved to the stream. (A tuple, since thousands are made per second.)"""

    entry: int
    queue_id: int
    due: int
    first_heard: bool = False
    """See `Verdict.first_heard`."""


class Outcome(IntEnum):
    """The outcome of one message of a claim; one byte of the claim row's `outcome`."""

    OPEN = 0
    ACKED = 1
    RETRIED = 2
    """Failed; it was put onto the ladder."""
    DEAD = 3
    """Failed on the last rung."""
    LOST = 4
    """The lease ran out; it was put onto the ladder."""
    LOST_DEAD = 5
    """The lease ran out on the last rung."""
    SUSPENDED = 6
    """Given back without counting an attempt."""
    EXPIRED = 7
    """Expired or no longer in the stream when it would have been handed out or put onto the ladder."""
    ACKED_OUTSIDE = 16
    """Acked in a user's own transaction; the next turn that locks the claim changes it to ACKED and counts it."""
    RELEASED = 20
    """Its claim was closed by a seek: it comes again from the position that was sought, or from the ladder."""
    PARKED = 9
    """Ordered topics: parked behind a message of its key that comes back, without counting an attempt. A message that
    is parked when the claim is made is never handed out."""
    SKIPPED = 8
    """Its tag was not among those that the client asked for."""


UNBEGUN = (1).to_bytes(8, "big")
"""The value in `settled_at` of an open message that its client has not begun, where the client reports what it begins.
Once it is begun, the value is the time of that; where the client does not report, it is 0."""

_SOUND = bytes(Outcome)
_MENDED = bytes(byte if byte in _SOUND else Outcome.OPEN for byte in range(256))


def is_sound(outcome: bytes | bytearray, size: int) -> bool:
    """Whether these are valid outcomes for a claim of `size` messages."""
    return len(outcome) == size and not outcome.translate(None, _SOUND)


def mended(outcome: bytes | bytearray, size: int) -> bytes:
    """The outcomes with invalid values, written by SQL from outside, replaced by OPEN: better delivered twice than
    never."""
    return bytes(outcome[:size]).ljust(size, bytes([Outcome.OPEN])).translate(_MENDED)


@frozen
class ClaimKey:
    """The key of a claim row, and its fencing token."""

    group_id: int
    queue_id: int
    number: int
    first: int
    token: int


class Delivered(Content, frozen=True, kw_only=True):
    """A message as it is handed out."""

    id: int
    queue: int
    offset: int
    attempt: int
    streamed_at: int
    losses: int = 0
    """How many times in a row its client died or let the lease run out."""


@frozen
class ClaimRequest:
    """A client's request for up to `size` messages."""

    client: str
    size: int
    lease: int
    """Milliseconds."""
    tags: frozenset[str] | None = None
    """Messages with other tags, or with none, are skipped for the group; None: all messages are taken."""
    tells: bool = False
    """The client reports which messages it begins."""


@frozen
class ReadRequest:
    """A request of a client of a broadcast topic for up to `size` messages from the client's own offset on."""

    group: Group
    client: str
    size: int
    after: tuple[Queue, int] | None = None
    """The offset in a queue up to which the client confirms that it has read."""
    moves: bool = True
    """Whether the offset moves with the answer; otherwise it moves when the client confirms it."""
    latest: bool = True
    """Where a new client begins: behind the last committed message, or else at the first."""
    tags: frozenset[str] | None = None
    since: int | None = None
    """A new client begins at the first message that came into the stream at this time or later, Unix milliseconds; then
    `latest` does not matter."""


@frozen
class ReadAnswer:
    """Messages of one queue."""

    messages: tuple[Delivered, ...]
    next: tuple[int, int]
    """The queue's number, and the offset behind the messages, for the client to confirm."""
    more: bool = False
    """The read stopped among messages with other tags; the next one goes on from there."""
    beyond: bool = False
    """Nothing was done, since `after` lies behind the end of its queue."""


@frozen
class Claim:
    """A range of one queue that is leased to one client until `lease_until`."""

    key: ClaimKey
    client: str
    claimed_at: int
    lease_until: int
    size: int
    """The length of the range; some of its messages may be gone from the stream."""
    messages: tuple[Delivered, ...]
    places: Mapping[int, int]
    """Position in the range by message id."""
    skipped: tuple[int, ...] = ()
    """Positions of messages whose tags were not asked for."""
    others: "tuple[Claim, ...]" = ()
    """Further ranges that the client got under the same name and token. No message lies in two of them."""

    @property
    def ranges(self) -> "tuple[Claim, ...]":
        """Each range as a claim of its own, this one first."""
        return (evolve(self, others=()), *self.others) if self.others else (self,)


@frozen
class Settlement:
    """An ack, a fail, an extension or the end of a lease, for positions of a range; None means all open ones. Any of
    these may also report messages that were begun, and `begin` reports only those."""

    key: ClaimKey
    verb: Literal["ack", "fail", "extend", "begin", "end"]
    places: tuple[int, ...] | None = None
    reason: str | None = None
    retry_after: int | None = None
    count: bool = True
    lease: int = 0
    at_once: bool = False
    """With `end`: the client is gone, so its lease is over now."""
    begun: tuple[int, ...] = ()
    """Positions of messages that a handler has begun."""
    others: "tuple[Settlement, ...]" = ()
    """The same for further ranges of the claim: either all are done or none."""

    @property
    def ranges(self) -> "tuple[Settlement, ...]":
        """Each range as a settlement of its own, this one first."""
        return (evolve(self, others=()), *self.others) if self.others else (self,)


@frozen
class Settled:
    """The answer to a settlement. `lost`: nothing was done, since the lease is over or the claim did not hold one of
    the messages."""

    lost: bool = False
    acked: int = 0
    retried: int = 0
    dead: int = 0
    lease_until: int = 0
    ended: bool = False
    """No message of the claim is open any more."""
    timers: tuple[tuple[int, int], ...] = ()
    """(due, entry) of the retries that were set."""
    locked: bool = False
    """A user's transaction holds the claim at this moment, so nothing was done; ask again."""


Gather = Callable[[], tuple[Sequence[Settlement], Sequence[ClaimRequest], int]]
"""Returns the settlements and the claim requests of a turn, and its time in Unix milliseconds. Called again, it also
returns those that arrived meanwhile."""


@frozen
class Turn:
    """The result of one turn of a group: an answer to each settlement and each claim request, in order."""

    settled: tuple[Settled | None, ...]
    """None: the store knows no such claim."""
    claims: tuple[Claim | None, ...]
    """None: there was nothing to claim."""
    more: bool = False
    """Messages were left in the queues when the turn ended."""
    left: bool = False
    """Ordered topics: messages were left that none of the asking clients may have."""
    cut: bool = False
    """A claim stopped among messages that have other tags or are expired; the next turn goes on from there."""
    full: bool = False
    """The group holds as many messages in claims as it may: nothing can be claimed until one is settled."""
    acked: int = 0
    """Messages that this turn counted as acked, those acked in users' own transactions included; each once."""
    expired: int = 0
    """Messages that this turn counted as expired."""
    beside: bool = False
    """A client got nothing although queues that were left to other nodes may hold messages: the next turn looks there,
    too."""

    @property
    def ranges(self) -> "tuple[Claim, ...]":
        """The ranges of all claims."""
        return tuple(one for claim in self.claims if claim is not None for one in claim.ranges)


@frozen
class DeadLetter:
    """A message that exhausted its group's ladder."""

    message: Delivered
    dead_at: int
    history: bytes
    """JSON: `[{at, client, reason}]`, one per counted delivery."""


@frozen
class Event:
    """One event in the life of a message."""

    what: str
    at: int
    group: str | None = None
    client: str | None = None
    attempt: int | None = None
    reason: str | None = None


class Found(Attributes, frozen=True, kw_only=True):
    """A message in any state, with its state and the events of its life."""

    id: int
    topic: str
    state: Literal["scheduled", "published", "cancelled", "suppressed"]
    body: bytes | None = None
    """None: the message was cancelled or suppressed, so its body is gone."""
    accepted_at: int
    deliver_at: int
    life: tuple[Event, ...]
    queue: int | None = None
    offset: int | None = None
    standings: frozenset[str] = frozenset()
    """The states that it has in any of the groups: claimed, retrying, parked, dead."""
    guard: str | None = None
    """While the message waits, the guard that will be asked; if it is suppressed, the guard that said no."""
    erased_at: int | None = None
    """When a cancelled message was erased, Unix milliseconds; any other erased message is known by its content type,
    see `store.erased`."""

    def is_(self, state: str) -> bool:
        """Whether the message is in this state, by itself or in a group."""
        return state == self.state or state in self.standings


@frozen
class QueueState:
    """How far a group is in one queue."""

    queue: int
    offset: int
    end: int
    retry: bool = False

    @property
    def lag(self) -> int:
        """How many messages of this queue the group has yet to claim."""
        return self.end - self.offset


@frozen
class GroupState:
    """A group's counters, read from rows that its transactions lock anyway."""

    queues: tuple[QueueState, ...]
    acked: int
    dead: int
    retried: int
    claims: int
    claimed: int
    retries: tuple[int, ...]
    """Pending retries per rung."""
    clients: tuple[str, ...]
    letters: int = 0
    """Dead letters that exist now; `dead` counts all that ever died."""
    redriven: int = 0
    """Messages ever put onto the ladder by redrive or replay."""
    skipped: int = 0
    """Messages ever passed over because of their tags."""
    expired: int = 0
    """Messages that ever expired, or were removed by retention, before the group settled them."""
    parked: int = 0
    """Messages parked now behind one of their key that comes back."""
    owners: Mapping[int, str] = field(factory=dict[int, str])
    """Ordered topics: the client that owns each queue, by its number."""


@frozen
class TopicState:
    """A topic's counters."""

    accepted: int
    streamed: int
    cancelled: int
    replaced: int = 0
    """Messages replaced by another message of the same timer."""
    suppressed: int = 0
    """Messages suppressed by their guards."""

    @property
    def pending(self) -> int:
        """Messages accepted that are neither in the stream nor cancelled, replaced or suppressed."""
        return self.accepted - self.streamed - self.cancelled - self.replaced - self.suppressed
