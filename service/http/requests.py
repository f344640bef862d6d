"""What comes in: the bodies of requests. /openapi.json is made from these structs."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .reading import Body

Duration = Annotated[
    int | str, Meta(description="milliseconds, or units such as 10m and 1h30m, or ISO 8601 such as PT10M")
]
Time = Annotated[str, Meta(description="RFC 3339 with a zone; milliseconds count, what is finer is rounded up")]
Label = Annotated[str, Meta(description="1 to 255 bytes of UTF-8")]
Id = Annotated[str, Meta(description="a message's id", pattern="^[0-9]{1,19}$")]
Rungs = Annotated[list[int | str], Meta(max_length=64, description="rests after the first, second, ... failure")]


class Shape(msgspec.Struct):
    """Tells one message from a batch, before either is read."""

    messages: msgspec.Raw | UnsetType = UNSET


class Message(Body):
    """A message: `body` or `body_base64`, and at most one of `delay` and `deliver_at`."""

    body: msgspec.Raw | UnsetType = UNSET
    body_base64: bytes | None = None
    content_type: Annotated[str | None, Meta(description="of body_base64; else application/octet-stream")] = None
    delay: Duration | None = None
    deliver_at: Annotated[Time | None, Meta(description="the past means now")] = None
    key: Label | None = None
    ordering_key: Label | None = None
    tag: Label | None = None
    headers: dict[str, str] | None = None
    queue: Annotated[int, Meta(ge=0)] | None = None
    idempotency_key: Annotated[Label | None, Meta(description="of a single message; a batch has its own")] = None


class Batch(Body):
    """Messages that are accepted all or none. The idempotency key covers them all."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    idempotency_key: Label | None = None


class Reschedule(Body):
    """The new time: one of the two."""

    delay: Duration | None = None
    deliver_at: Time | None = None


class Claim(Body):
    """A wish for messages."""

    client: Annotated[str, Meta(description="who asks: 1 to 255 bytes, printable")]
    max: Annotated[int, Meta(ge=1, le=1000)] = 10
    wait: Annotated[Duration, Meta(description="how long to wait for the first message, up to 30 s")] = 0
    lease: Annotated[Duration | None, Meta(description="60 s unless said")] = None
    from_: Annotated[
        Literal["earliest", "latest"] | None,
        Meta(description="where a group begins that this claim brings into being, or a client of a broadcast topic"),
    ] = msgspec.field(name="from", default=None)
    tags: (
        Annotated[
            list[Label],
            Meta(min_length=1, max_length=100, description="messages of other tags are skipped: settled for the group"),
        ]
        | None
    ) = None
    after: Annotated[
        str | None,
        Meta(
            description="of a broadcast topic: `next` of the answer before, which it confirms; empty when there was"
            " none yet; left out, the offset moves with the answer"
        ),
    ] = None


class Ack(Body):
    """The messages that are done; all when left out."""

    ids: Annotated[list[Id], Meta(max_length=10_000)] | None = None


class Fail(Body):
    """The messages that failed; all that are open when left out."""

    ids: Annotated[list[Id], Meta(max_length=10_000)] | None = None
    reason: Annotated[str | None, Meta(description="kept with the message; cut after 1 KiB")] = None
    retry_after: Annotated[Duration | None, Meta(description="a rest in place of the rung's")] = None
    count: Annotated[bool, Meta(description="false: the attempt is not counted")] = True


class Extend(Body):
    """The lease, from now."""

    lease: Duration


class PutTopic(Body):
    """What a topic is to be; what is left out stays as it is."""

    kind: Literal["cluster", "broadcast"] | UnsetType = UNSET
    queues: Annotated[int, Meta(ge=1, le=1024)] | UnsetType = UNSET
    ordered: bool | UnsetType = UNSET
    retention: Annotated[Duration | None, Meta(description="null: the default")] | UnsetType = UNSET
    ladder: Annotated[Rungs | None, Meta(description="null: the default")] | UnsetType = UNSET


class PutGroup(Body):
    """What a group is to be; what is left out stays as it is."""

    ladder: Annotated[Rungs | None, Meta(description="null: the topic's, or the default")] | UnsetType = UNSET
    concurrency: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="messages in its clients' hands at once; null: no limit")]
        | UnsetType
        | None
    ) = UNSET

    later: ClassVar = {
        "from": "choosing where a group begins is not built yet here: say it in the group's first claim",
        "on_exhausted": "on_exhausted is not built yet: a message that exhausts the ladder goes to the dead letters",
    }
