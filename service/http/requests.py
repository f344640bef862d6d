"""The bodies of requests, as structs; /openapi.json is made from them."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ..durations import TIME_PATTERN
from . import schemas
from .reading import Body

# Rules that a call checks itself, with error texts of its own, are only in the schema, not checked by msgspec.
_Text = Annotated[str, Meta(extra_json_schema=schemas.DURATION)]
_MEANT = Meta(description="milliseconds, or units such as 10m and 1h30m, or ISO 8601 such as PT10M")
Duration = Annotated[Annotated[int, Meta(extra_json_schema=schemas.MILLISECONDS)] | _Text, _MEANT]
Lease = Annotated[Annotated[int, Meta(extra_json_schema=schemas.MILLISECONDS | {"minimum": 1})] | _Text, _MEANT]
Post = Annotated[Annotated[int, Meta(extra_json_schema=schemas.POST)] | _Text, _MEANT]
Rest = Annotated[Annotated[int, Meta(extra_json_schema=schemas.REST)] | _Text, _MEANT]
_IN_MS = "RFC 3339 with a zone; milliseconds count, what is finer is rounded up"
Time = Annotated[str, Meta(description=_IN_MS, extra_json_schema=schemas.TIME)]
Window = Annotated[list[Time], Meta(min_length=2, max_length=2)]
Start = Annotated[str, Meta(extra_json_schema=schemas.START)]
Offset = Annotated[int, Meta(extra_json_schema=schemas.OFFSET)]
Label = Annotated[str, Meta(description="1 to 255 bytes of UTF-8", extra_json_schema=schemas.LABEL)]
Id = Annotated[str, Meta(description="a message's id", pattern=schemas.ID["pattern"])]
Ids = Annotated[list[Id], Meta(max_length=10_000)]
_ROOM_FOR_IDS = 512 << 10
"""The most bytes of a request that names messages: enough for the most ids, even indented."""
Headers = Annotated[
    dict[str, str], Meta(description="16 KiB at most, as JSON", extra_json_schema={"propertyNames": {"minLength": 1}})
]
_OF_BYTES = Meta(description="of body_base64; else application/octet-stream", extra_json_schema=schemas.CONTENT_TYPE)
Tags = Annotated[
    list[Label],
    Meta(min_length=1, max_length=100, description="messages of other tags are skipped: settled for the group"),
]
_ON_EXHAUSTED = Meta(description="block, of ordered topics: it comes again for ever, and its ordering key waits")
_WAITING = Meta(ge=0, le=10**12, description="messages that may wait for their time; null: no limit")
_A_SECOND = Meta(ge=1, le=1_000_000, description="messages accepted a second; null: no limit")
_RELEASED = Meta(
    ge=1, le=1_000_000, description="messages and retries that go into the stream a second; null: no limit"
)
_IN_HAND = Meta(ge=1, le=1_000_000, description="messages in its clients' hands at once; null: no limit")
_RANGE = Meta(
    min_length=1,
    max_length=255,
    description="of many ranges of a queue, by ascending offsets: what is below where it has come is done",
)
Rungs = Annotated[list[Rest], Meta(max_length=64, description="rests after the first, second, ... failure")]


class Shape(msgspec.Struct):
    """Tells a single message from a batch before either is decoded."""

    messages: msgspec.Raw | UnsetType = UNSET


class Lengths(Body, forbid_unknown_fields=False):
    """The length of a message's body, for a message that is too large."""

    body: msgspec.Raw = msgspec.Raw()
    body_base64: msgspec.Raw = msgspec.Raw()


class Timed(Body):
    """The content of a message: `body` or `body_base64`, and at most one of `delay` and `deliver_at`."""

    together: ClassVar[Mapping[str, Any]] = {
        "oneOf": [
            {"required": ["body"], "allOf": [schemas.absent("body_base64"), schemas.absent("content_type")]},
            schemas.given("body_base64") | {"not": {"required": ["body"]}},
        ],
        "not": schemas.given("delay", "deliver_at"),
        "anyOf": [schemas.absent("guard"), schemas.given("delay"), schemas.given("deliver_at")],
    }
    body: msgspec.Raw | UnsetType = UNSET
    body_base64: Annotated[bytes, Meta(extra_json_schema=schemas.BASE64)] | None = None
    content_type: Annotated[str, _OF_BYTES] | None = None
    delay: Duration | None = None
    deliver_at: Annotated[Time | None, Meta(description="the past means now")] = None
    expires_at: Annotated[
        Time | None, Meta(description="from then on it is not handed out any more; later than deliver_at, and than now")
    ] = None
    ordering_key: Label | None = None
    tag: Label | None = None
    headers: Headers | None = None
    queue: Annotated[int, Meta(ge=0)] | None = None
    guard: (
        Annotated[
            str,
            Meta(
                description="asked at its time, with the key, whether it is sent: a guard that the server declares",
                extra_json_schema=schemas.GUARD,
            ),
        ]
        | None
    ) = None
    idempotency_key: Annotated[Label | None, Meta(description="of a single message; a batch has its own")] = None


class Message(Timed):
    """A message: `body` or `body_base64`, and at most one of `delay`, `deliver_at` and `deliver_between`."""

    together: ClassVar[Mapping[str, Any]] = {
        "oneOf": Timed.together["oneOf"],
        "allOf": [
            *(
                {"not": schemas.given(*two)}
                for two in (("delay", "deliver_at"), ("delay", "deliver_between"), ("deliver_at", "deliver_between"))
            ),
            {"anyOf": [schemas.absent("guard"), schemas.given("key")]},
        ],
        "anyOf": [schemas.absent("guard"), *map(schemas.given, ("delay", "deliver_at", "deliver_between"))],
    }
    deliver_between: Annotated[Window | None, Meta(description="from and to: the emptiest second between")] = None
    key: Label | None = None


class PutTimer(Timed):
    """The message of a timer, with its time; and what happens to a message that waits already."""

    together: ClassVar[Mapping[str, Any]] = {
        "oneOf": Timed.together["oneOf"],
        "allOf": [
            {"oneOf": [schemas.given("delay"), schemas.given("deliver_at")]},
            {
                "anyOf": [
                    schemas.absent("max_wait"),
                    {"required": ["mode"], "properties": {"mode": {"enum": ["debounce"]}}},
                ]
            },
        ],
    }
    mode: Annotated[
        Literal["replace", "keep", "debounce"] | None,
        Meta(
            description="replace, unless said: it takes the place of one that waits; keep: that one stays, and this one"
            " is dropped; debounce: as replace, but for max_wait"
        ),
    ] = None
    max_wait: Annotated[
        Lease | None, Meta(description="of debounce: how long it waits at most since it was set first")
    ] = None
    key: ClassVar[None] = None
    """The key is in the path."""


Sent = Message | PutTimer


_SKIPS: schemas.Json = {"required": ["overlap"], "properties": {"overlap": {"enum": ["skip", "queue_one"]}}}


class CatchUp(Body):
    """Catching up on late fire times: on those within a duration."""

    catch_up: Annotated[Duration, Meta(description="of those within this time one message each")]


class PutSchedule(Body):
    """A recurring message: `cron` or `every` says when, `body` or `body_base64` what is sent."""

    together: ClassVar[Mapping[str, Any]] = {
        "allOf": [
            schemas.one_of("cron", "every"),
            {"oneOf": Timed.together["oneOf"]},
            {"anyOf": [{"not": schemas.given("timezone")}, schemas.given("cron")]},
            {"oneOf": [{"allOf": [schemas.given("group"), _SKIPS]}, {"not": _SKIPS} | schemas.absent("group")]},
        ]
    }
    topic: Annotated[str, Meta(extra_json_schema=schemas.NAME)]
    cron: (
        Annotated[str, Meta(description="minute, hour, day-of-month, month, day-of-week; or with seconds first")] | None
    ) = None
    every: Annotated[Duration | None, Meta(description="1 s at least; the time that passes, whatever clocks show")] = (
        None
    )
    timezone: (
        Annotated[str, Meta(description="of cron, an IANA name such as Europe/Berlin; UTC unless said")] | None
    ) = None
    starts_at: Annotated[Time | None, Meta(description="no fire time before it; every counts from it")] = None
    ends_at: Annotated[Time | None, Meta(description="no fire time after it")] = None
    jitter: Annotated[Duration | None, Meta(description="messages are up to so much later, the same each try")] = None
    overlap: Annotated[
        Literal["allow", "skip", "queue_one"] | None,
        Meta(
            description="while the one before is unsettled in `group`: skip: none is sent; queue_one: one is kept back"
            " until then; allow unless said"
        ),
    ] = None
    group: Annotated[str, Meta(extra_json_schema=schemas.NAME)] | None = None
    misfire: Annotated[
        Literal["once", "skip"] | CatchUp | None,
        Meta(
            description="fire times that are late by more than a minute: one message for all of them, unless said; or"
            " none; or one each of those within a time"
        ),
    ] = None
    body: msgspec.Raw | UnsetType = UNSET
    body_base64: Annotated[bytes, Meta(extra_json_schema=schemas.BASE64)] | None = None
    content_type: Annotated[str, _OF_BYTES] | None = None
    key: Label | None = None
    headers: Headers | None = None
    tag: Label | None = None
    ordering_key: Label | None = None
    paused: Annotated[bool | None, Meta(description="left out: as it is; of a new one false")] = None


class Backfill(Body):
    """A range of past fire times."""

    from_: Time = msgspec.field(name="from")
    to: Annotated[Time, Meta(description="itself not included; 1000 fire times at most lie in between")]
    dry_run: Annotated[bool, Meta(description="tell how many, and do nothing")] = False


class Single(Message):
    """A single message, decoded in one go, as most requests are; if `messages` is set it is a batch instead."""

    messages: msgspec.Raw | UnsetType = UNSET


class Batch(Body):
    """Messages that are accepted all or none. The idempotency key covers them all."""

    together: ClassVar[Mapping[str, Any]] = {
        "allOf": [{"properties": {"messages": {"items": schemas.absent("idempotency_key")}}}]
    }
    messages: Annotated[list[Message], Meta(min_length=1)]
    idempotency_key: Label | None = None


class BatchApart(Body):
    """A large batch, whose messages are decoded one by one."""

    messages: Annotated[list[msgspec.Raw], Meta(min_length=1)]
    idempotency_key: Label | None = None


class SignIn(Body):
    """A key, in exchange for a session."""

    limit: ClassVar[int] = 1 << 10
    key: Annotated[Label, Meta(description="the text that `tarry keys create` printed")]


class Reschedule(Body):
    """The new time of a message: `delay` or `deliver_at`."""

    together: ClassVar[Mapping[str, Any]] = schemas.one_of("delay", "deliver_at")
    delay: Duration | None = None
    deliver_at: Time | None = None


class Claim(Body):
    """A request for messages."""

    client: Annotated[str, Meta(description="who asks: 1 to 255 bytes, printable", extra_json_schema=schemas.LABEL)]
    max: Annotated[int, Meta(ge=1, le=1000, description="10 unless said")] | None = None
    wait: Annotated[Duration | None, Meta(description="how long to wait for the first message, up to 30 s")] = None
    lease: Annotated[Lease | None, Meta(description="60 s unless said")] = None
    from_: Annotated[
        Start | None,
        Meta(
            description="where a group begins that this claim brings into being, or a client of a broadcast topic:"
            " earliest, latest or a time"
        ),
    ] = msgspec.field(name="from", default=None)
    tags: Tags | None = None
    tells_begun: Annotated[
        bool | None,
        Meta(
            description="true: the client tells in `begun` which messages a handler has begun; those it has not begun"
            " go back uncounted when it dies or its lease runs out"
        ),
    ] = None
    after: Annotated[
        Annotated[str, Meta(extra_json_schema=schemas.AFTER)] | None,
        Meta(
            description="of a broadcast topic: `next` of the answer before, which it confirms; empty when there was"
            " none yet; left out, the offset moves with the answer"
        ),
    ] = None


class Ack(Body):
    """The messages that are done; all unsettled ones if left out."""

    limit: ClassVar[int] = _ROOM_FOR_IDS
    ids: Ids | None = None


class Fail(Body):
    """The messages that failed; all unsettled ones if left out."""

    limit: ClassVar[int] = _ROOM_FOR_IDS
    ids: Ids | None = None
    reason: Annotated[str | None, Meta(description="kept with the message; cut after 1 KiB")] = None
    retry_after: Annotated[Duration | None, Meta(description="a rest in place of the rung's")] = None
    count: Annotated[bool | None, Meta(description="false: the attempt is not counted")] = None


class Settlement(Body):
    """A settlement of messages of a claim: first those that were begun, then those that are done, then those that
    failed."""

    together: ClassVar[Mapping[str, Any]] = {
        "anyOf": [schemas.given("ack"), schemas.given("fail"), schemas.given("begun")],
        "not": {"allOf": [schemas.given("fail"), {"required": ["ack"], "properties": {"ack": {"enum": ["all"]}}}]},
    }
    limit: ClassVar[int] = _ROOM_FOR_IDS
    claim: str
    ack: Annotated[Ids | Literal["all"] | None, Meta(description="ids, or all")] = None
    fail: Fail | None = None
    begun: Annotated[Ids | None, Meta(description="what a handler has begun")] = None


class Settle(Body):
    """Settlements of many claims; those of one claim are done in order. Together they name 10,000 ids at most."""

    limit: ClassVar[int] = 4 << 20
    settle: Annotated[list[Settlement], Meta(max_length=1000)]


class SettleApart(Body):
    """Many settlements, which are decoded one by one."""

    settle: Annotated[list[msgspec.Raw], Meta(max_length=1000)]


class Extend(Body):
    """The lease, counted from now; and the messages that were begun."""

    limit: ClassVar[int] = _ROOM_FOR_IDS
    lease: Lease
    begun: Annotated[Ids | None, Meta(description="what a handler has begun")] = None


class Begun(Body):
    """Messages of a claim that a handler has begun."""

    claim: str
    ids: Ids


class Renew(Body):
    """The messages begun since the last sign of life. Messages that the client does not hold any more are ignored."""

    limit: ClassVar[int] = _ROOM_FOR_IDS
    begun: Annotated[list[Begun], Meta(max_length=100)] | None = None


Jitter = Annotated[float, Meta(ge=0, le=1, description="by which part of itself a rest may be longer at most")]


class Nudge(Body):
    """The topic for which the caller has committed messages in a transaction of its own."""

    topic: Annotated[str, Meta(extra_json_schema=schemas.NAME)] | None = None


class PutTopic(Body):
    """The new settings of a topic. A field left out stays as it is; so does null, except for ladder, retention and
    limits."""

    kind: Literal["cluster", "broadcast"] | None = None
    queues: Annotated[int, Meta(ge=1, le=1024)] | None = None
    ordered: bool | None = None
    retention: Annotated[Rest | None, Meta(description="null: the default")] | UnsetType = UNSET
    ladder: Annotated[Rungs | None, Meta(description="null: the default")] | UnsetType = UNSET
    sequencer: Literal["store", "redis"] | None = None
    jitter: Jitter | None = None
    max_pending: Annotated[int, _WAITING] | UnsetType | None = UNSET
    max_rate: Annotated[int, _A_SECOND] | UnsetType | None = UNSET
    release_rate: Annotated[int, _RELEASED] | UnsetType | None = UNSET


class PutGroup(Body):
    """The new settings of a group; a field left out stays as it is."""

    ladder: Annotated[Rungs | None, Meta(description="null: the topic's, or the default")] | UnsetType = UNSET
    jitter: Jitter | None = None
    from_: Annotated[
        Start | None, Meta(description="where a group begins that is made by this: earliest, latest or a time")
    ] = msgspec.field(name="from", default=None)
    on_exhausted: Annotated[Literal["dead", "block"], _ON_EXHAUSTED] | UnsetType = UNSET
    concurrency: Annotated[int, _IN_HAND] | UnsetType | None = UNSET


Secret = Annotated[
    str, Meta(description="whsec_ and 24 to 64 random bytes in base64", extra_json_schema=schemas.SECRET)
]


class PutPush(Body):
    """The endpoint to which the messages of a group are posted."""

    url: Annotated[str, Meta(description="https://, and of the public internet unless push_allow names it")]
    secret: Annotated[
        Secret | Annotated[list[Secret], Meta(min_length=1, max_length=4)],
        Meta(description="with which posts are signed; several while one takes the place of another"),
    ]
    timeout: Annotated[Post | None, Meta(description="of one post, 100 ms to 5 min; 10 s unless said")] = None
    max_in_flight: Annotated[int, Meta(ge=1, le=1000, description="posts at once; 10 unless said")] | None = None


class SeekTo(Body):
    """An offset of a queue, or a time."""

    together: ClassVar[Mapping[str, Any]] = schemas.one_of("offset", "time")
    offset: Offset | None = None
    queue: Annotated[int | None, Meta(description="needed when the topic has several")] = None
    time: Time | None = None


class Seek(Body):
    """The position from which a group continues."""

    to: Annotated[
        Annotated[str, Meta(extra_json_schema={"enum": ["earliest", "latest"]})] | SeekTo,
        Meta(description="earliest, latest, {offset, queue} or {time}"),
    ]
    dry_run: Annotated[bool, Meta(description="tell where it would be, and move nothing")] = False


class Replay(Body):
    """A range of the stream, by offsets or times; its end is not included."""

    together: ClassVar[Mapping[str, Any]] = {
        "anyOf": [
            schemas.absent("name"),
            schemas.given("queue", "to") | {"not": {"anyOf": [schemas.is_text("from"), schemas.is_text("to")]}},
        ]
    }
    from_: Annotated[
        Offset | Annotated[str, Meta(extra_json_schema=schemas.text(f"earliest|{TIME_PATTERN}"))],
        Meta(description="an offset, a time, or earliest"),
    ] = msgspec.field(name="from")
    to: Annotated[
        Offset | Annotated[str, Meta(extra_json_schema=schemas.text(f"latest|{TIME_PATTERN}"))] | None,
        Meta(description="an offset, a time, or latest; latest when left out"),
    ] = None
    queue: Annotated[int | None, Meta(description="all queues when left out; offsets need it")] = None
    dry_run: Annotated[bool, Meta(description="tell how many, and replay nothing")] = False
    name: Annotated[str, _RANGE] | None = None


class Letters(Body):
    """Dead letters: those named, those that died in a range of time, or all."""

    limit: ClassVar[int] = _ROOM_FOR_IDS
    ids: Ids | None = None
    from_: Annotated[Time | None, Meta(description="died then or later")] = msgspec.field(name="from", default=None)
    to: Annotated[Time | None, Meta(description="died before")] = None
    key: Label | None = None
    tag: Label | None = None
    reason: (
        Annotated[str, Meta(min_length=1, description="of the last attempt; with * at its end, its beginning")] | None
    ) = None
    rate: Annotated[int, Meta(ge=1, le=100_000, description="so many a second at most")] | None = None
    dry_run: Annotated[bool, Meta(description="tell how many, and do nothing")] = False
