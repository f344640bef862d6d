"""What the store takes and gives: frozen records, times in Unix milliseconds UTC, text as str, bodies as received.

What is made for each message that is published is a struct: it is made in a seventh of an attrs class's time.
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
    """Milliseconds; None is the service's default."""
    ladder: Ladder | None
    created_at: int
    sequencer: Literal["store", "redis"] = "store"
    """Where its offsets are drawn; see `mysql.sequencing`."""
    max_pending: int | None = None
    """How many of its messages may wait for their time; None is no limit."""
    max_rate: int | None = None
    """How many messages are accepted a second; None is no limit."""
    release_rate: int | None = None
    """How many a second go from waiting to the stream, retries among them; None is no limit."""

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
    """Ordered topics: a message that exhausts the ladder comes again for ever, and its key waits."""
    own_ladder: Ladder | None = None
    """None: `ladder` is its topic's, or the default."""
    concurrency: int | None = None
    """Messages in the hands of its clients at once, at most; None is no limit."""
    paused: bool = False
    """Its clients are given nothing; what they have in hand they settle, and timers and retries go on."""

    @property
    def retry_queues(self) -> tuple[Queue, ...]:
        """Its own, through which its retries come back."""
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
    """Who is asked at its time whether it is sent. A message with one waits, if only for the answer."""


class Publication(Struct, frozen=True):
    """Drafts of one request: all or none. An idempotency key counts per topic and covers the whole request."""

    drafts: tuple[Draft, ...]
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    """SHA-256 of the request as sent; the same key with another one is a conflict."""

    @property
    def weight(self) -> int:
        """As `weight_of` its drafts."""
        return weight_of(self.drafts)


def weight_of(drafts: Iterable[Draft]) -> int:
    """About how many bytes they take in memory and in a statement."""
    return sum([len(draft.body) + 200 + (0 if draft.headers is None else len(draft.headers)) for draft in drafts])


class Receipt(Struct, frozen=True):
    """The answer to a publish. `queue` and `offset` are known when the message went straight to the stream."""

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
    """What became of a cancel or a reschedule; exact, by the row."""

    result: Literal["cancelled", "suppressed", "rescheduled", "too_late", "not_found", "locked", "expires"]
    """`suppressed`: its guard has ended it before. `locked`: a transaction holds the row at this moment; ask again.
    `expires`: at the new time it would not be handed out any more, so it was left where it was."""
    fresh: bool = True
    """False when it had been cancelled before."""
    topic: int | None = None
    due_before: int | None = None
    due: int | None = None
    deliver_at: int | None = None
    expires_at: int | None = None
    first_heard: bool = False
    """It came from an outbox: its publish is in the topic's counters from now on."""
    of_schedule: bool = False
    """A schedule waited for it, which is to go on."""


class Promoted(NamedTuple):
    """A wheel entry that promotion handed to the stream. (A tuple: thousands are made a second.)"""

    entry: int
    queue_id: int
    due: int
    first_heard: bool = False
    """It came from an outbox: its publish is in the topic's counters from now on."""


class Outcome(IntEnum):
    """What became of one message of a claim; one byte of the claim row's `outcome`."""

    OPEN = 0
    ACKED = 1
    RETRIED = 2
    """Failed, and on the ladder."""
    DEAD = 3
    """Failed on the last rung."""
    LOST = 4
    """The lease ran out: on the ladder."""
    LOST_DEAD = 5
    """The lease ran out on the last rung."""
    SUSPENDED = 6
    """Given back uncounted."""
    EXPIRED = 7
    """Past its time, or no longer in the stream, when it would have been handed out, or put onto the ladder."""
    ACKED_OUTSIDE = 16
    """Acked in a user's own transaction; the next turn that locks the claim makes ACKED of it, and counts it."""
    RELEASED = 20
    """Its claim was closed by a seek: it comes again where the seek says, or from the ladder."""
    PARKED = 9
    """Ordered topics: behind one of its key that comes back; uncounted. At the claim it was not even handed out."""
    SKIPPED = 8
    """Its tag was not among those that were asked for."""


UNBEGUN = (1).to_bytes(8, "big")
"""What stands in place of the time in `settled_at`, of an open message whose client tells what it begins, until it
says so; then it is since when, and 0 where the client tells nothing."""

_SOUND = bytes(Outcome)
_MENDED = bytes(byte if byte in _SOUND else Outcome.OPEN for byte in range(256))


def is_sound(outcome: bytes | bytearray, size: int) -> bool:
    """Whether a claim of so many messages may say this of them."""
    return len(outcome) == size and not outcome.translate(None, _SOUND)


def mended(outcome: bytes | bytearray, size: int) -> bytes:
    """The same with what is none, by somebody's own SQL, as if it were open: rather twice than never."""
    return bytes(outcome[:size]).ljust(size, bytes([Outcome.OPEN])).translate(_MENDED)


@frozen
class ClaimKey:
    """The key of a claim row, and the token that fences it."""

    group_id: int
    queue_id: int
    number: int
    first: int
    token: int


class Delivered(Content, frozen=True, kw_only=True):
    """A message as claimed."""

    id: int
    queue: int
    offset: int
    attempt: int
    streamed_at: int
    losses: int = 0
    """How often in a row its client died, or let its lease run out."""


@frozen
class ClaimRequest:
    """A wish for up to `size` messages."""

    client: str
    size: int
    lease: int
    """Milliseconds."""
    tags: frozenset[str] | None = None
    """Messages of other tags, or of none, are skipped for the group; None takes all."""
    tells: bool = False
    """The client tells which messages it begins."""


@frozen
class ReadRequest:
    """A wish of a client of a broadcast topic for up to `size` messages from its own offset on."""

    group: Group
    client: str
    size: int
    after: tuple[Queue, int] | None = None
    """The offset in a queue that the client has got to, and confirms."""
    moves: bool = True
    """The offset moves with the answer; otherwise when it is confirmed."""
    latest: bool = True
    """Where a client that is not known yet begins: behind the last message committed, or at the first."""
    tags: frozenset[str] | None = None
    since: int | None = None
    """It begins at the first message that came into the stream then or later, Unix milliseconds, whatever `latest`."""


@frozen
class ReadAnswer:
    """Messages of one queue."""

    messages: tuple[Delivered, ...]
    next: tuple[int, int]
    """The queue's number, and the offset behind the messages: to be confirmed."""
    more: bool = False
    """It has stopped among messages of other tags: to be gone on with."""
    beyond: bool = False
    """Nothing was done: `after` lies behind the end of its queue."""


@frozen
class Claim:
    """A range of one queue in one client's hands until `lease_until`."""

    key: ClaimKey
    client: str
    claimed_at: int
    lease_until: int
    size: int
    """Of the range; some of it may be gone from the stream."""
    messages: tuple[Delivered, ...]
    places: Mapping[int, int]
    """Position in the range by message id."""
    skipped: tuple[int, ...] = ()
    """Positions of messages whose tags were not asked for."""
    others: "tuple[Claim, ...]" = ()
    """Further ranges in the same hands, under one name and token. No message lies in two of them."""

    @property
    def ranges(self) -> "tuple[Claim, ...]":
        """This one and the others, each by itself."""
        return (evolve(self, others=()), *self.others) if self.others else (self,)


@frozen
class Settlement:
    """An ack, a fail, an extension or the end of a lease, for positions of a range; None means all that are open. Or
    only, as with any of these, that some were begun."""

    key: ClaimKey
    verb: Literal["ack", "fail", "extend", "begin", "end"]
    places: tuple[int, ...] | None = None
    reason: str | None = None
    retry_after: int | None = None
    count: bool = True
    lease: int = 0
    at_once: bool = False
    """Of an end: the client is gone, so its lease is over now."""
    begun: tuple[int, ...] = ()
    """Positions of those that a handler has begun."""
    others: "tuple[Settlement, ...]" = ()
    """The same for further ranges of the claim: all of them are done, or none."""

    @property
    def ranges(self) -> "tuple[Settlement, ...]":
        """This one and the others, each by itself."""
        return (evolve(self, others=()), *self.others) if self.others else (self,)


@frozen
class Settled:
    """The answer to a settlement. `lost`: nothing was done, the lease is over or a message was not in its hands."""

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
"""Who is of a turn, and the time: Unix milliseconds. Asked again, those who came meanwhile besides."""


@frozen
class Turn:
    """What one transaction of a group did: an answer to each settlement and each claim request, in order."""

    settled: tuple[Settled | None, ...]
    """None: the store knows no such claim."""
    claims: tuple[Claim | None, ...]
    """None: there was nothing to claim."""
    more: bool = False
    """Messages were left in the queues when it ended."""
    left: bool = False
    """Ordered topics: messages were left that none of those who asked may have."""
    cut: bool = False
    """A claim has stopped among messages of other tags, or past their time: to be gone on with."""
    full: bool = False
    """The group has as many messages in hand as it may: there is nothing to claim until one is settled."""
    acked: int = 0
    """Messages that it has counted as acked, those of users' own transactions included; none a second time."""
    expired: int = 0
    """Messages that it has counted as expired."""
    beside: bool = False
    """Somebody was given nothing, and there may be something in queues that were left to other nodes: the next turn
    looks there, too."""

    @property
    def ranges(self) -> "tuple[Claim, ...]":
        """Of all its claims."""
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
    """A line in a message's life."""

    what: str
    at: int
    group: str | None = None
    client: str | None = None
    attempt: int | None = None
    reason: str | None = None


class Found(Attributes, frozen=True, kw_only=True):
    """A message wherever it is, with its state and its life."""

    id: int
    topic: str
    state: Literal["scheduled", "published", "cancelled", "suppressed"]
    body: bytes | None = None
    """None: it was cancelled or suppressed, and its body is gone."""
    accepted_at: int
    deliver_at: int
    life: tuple[Event, ...]
    queue: int | None = None
    offset: int | None = None
    standings: frozenset[str] = frozenset()
    """What it is in one group or another: claimed, retrying, parked, dead."""
    guard: str | None = None
    """Who is asked, while it waits; who has ended it, if it is suppressed."""
    erased_at: int | None = None
    """Of a cancelled message, Unix milliseconds; of any other the content type says it, see `store.erased`."""

    def is_(self, state: str) -> bool:
        """Whether it is in this state, as such or in a group."""
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
        """Messages the group has yet to claim here."""
        return self.end - self.offset


@frozen
class GroupState:
    """A group's counters, from rows that its transactions lock anyway."""

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
    """Dead letters there are now; `dead` counts all that ever died."""
    redriven: int = 0
    """Put onto the ladder by redrive or replay, ever."""
    skipped: int = 0
    """Passed over for their tags, ever."""
    expired: int = 0
    """Past their time, or taken by retention, before they were settled, ever."""
    parked: int = 0
    """Behind one of their key that comes back."""
    owners: Mapping[int, str] = field(factory=dict[int, str])
    """Ordered topics: the client that owns each queue, by its number."""


@frozen
class TopicState:
    """A topic's counters."""

    accepted: int
    streamed: int
    cancelled: int
    replaced: int = 0
    """By another message of the same timer."""
    suppressed: int = 0
    """By their guards."""

    @property
    def pending(self) -> int:
        """Accepted, and neither in the stream nor cancelled, replaced or suppressed."""
        return self.accepted - self.streamed - self.cancelled - self.replaced - self.suppressed
