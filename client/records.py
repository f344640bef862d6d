"""The records that calls take and return, frozen. Times are datetimes in UTC; a body comes back as it was sent."""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, TypedDict, cast

import msgspec
from attrs import field, frozen

from .durations import Duration, duration_out, instant_in, instant_out


class _Told:
    """A record whose fields have the names that they have in the server's JSON."""

    __slots__ = ()

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Reads the server's JSON. What it tells as null and has a default here is as if it had not been told."""
        return msgspec.convert({name: value for name, value in record.items() if value is not None}, cls)


@frozen
class Receipt(_Told):
    """The answer to a publish. `queue` and `offset` are known if the message went straight to the stream."""

    id: str
    topic: str
    state: str
    deliver_at: datetime
    queue: int | None = None
    offset: int | None = None
    replayed: bool = False
    """The server had this request before, and answered with the receipt from then."""
    load: int | None = None
    """How many messages fall due in the same second, as far as the server knows; None if that second is not near."""
    late_by: int | None = None
    """How many milliseconds late the message will be, at the pace of the last promotions; None if it will not."""

    def document(self) -> dict[str, Any]:
        """The receipt as the JSON that the server sent."""
        document = {
            name: getattr(self, name) for name in ("id", "topic", "state", "queue", "offset", "load", "late_by")
        }
        document = {name: value for name, value in document.items() if value is not None}
        return document | {"deliver_at": instant_out(self.deliver_at), "replayed": self.replayed}


@frozen
class Timer(_Told):
    """The timer of a key: the message that waits, or the last one that did."""

    id: str
    key: str
    revision: int
    """Rises with each message of the timer."""
    deliver_at: datetime
    state: str
    """`scheduled`, `published` or `cancelled`."""
    replaced: str | None = None
    """The id of the message that this one replaced."""
    queue: int | None = None
    offset: int | None = None
    """Where the message is, once it is published."""
    replayed: bool = False
    """The server had this request before, and answered as it did then."""
    load: int | None = None
    """How many messages fall due in the same second, as far as the server knows; None if that second is not near."""
    late_by: int | None = None
    """How many milliseconds late the message will be, at the pace of the last promotions; None if it will not."""
    kept: bool = False
    """This message waited already, and the new one was dropped (`mode="keep"`)."""


@frozen
class Rescheduled:
    """The answer to a reschedule: when the message is due now."""

    id: str
    deliver_at: datetime


@frozen
class Erased:
    """The answer to an erase."""

    id: str
    erased_at: datetime
    """When it was erased for the first time."""
    lake: Literal["none", "pending", "erased"]
    """Whether the message is erased in the lake too, by the next run of the archive. `none`: there is no lake."""
    lake_at: datetime | None = None

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Reads the server's JSON."""
        lake_at = None if record["lake_at"] is None else instant_in(record["lake_at"])
        return cls(record["id"], instant_in(record["erased_at"]), record["lake"], lake_at)


@frozen
class Schedule(_Told):
    """A message that is sent again and again."""

    name: str
    spec: Mapping[str, Any]
    """The schedule as it was set."""
    next: tuple[datetime, ...]
    """The next fire times; none while it is paused."""
    paused: bool
    revision: int
    """Rises with each change; 0 if the schedule does not exist yet."""


@frozen
class Fire(_Told):
    """What became of a fire time."""

    fire_at: datetime
    what: str
    """`fired`, `missed`, `overlapped`, `run`, `backfilled` or `cancelled`; `kept`: it waits for the one before it."""
    at: datetime
    id: str | None = None
    """The id of its message."""
    missed_until: datetime | None = None
    """The fire times after it and before then were left out with it, except those that are listed themselves."""


@frozen
class Alive:
    """The answer to a sign of life."""

    until: datetime
    seconds: float
    """How long the client counts as alive from the sign on, without another."""
    untold: Sequence[str] = ()
    """Claims for which the server could not note which messages were begun."""

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "Alive":
        """Reads the server's JSON."""
        seconds = record.get("alive_for", 15_000) / 1000
        return cls(instant_in(record["alive_until"]), seconds, record.get("untold", ()))


@frozen(kw_only=True)
class Message:
    """A message as claimed, pulled or found among the dead."""

    id: str
    topic: str
    queue: int
    offset: int
    body: Any
    content_type: str | None = None
    """None: `body` is a JSON value. Otherwise it is bytes of this type."""
    key: str | None = None
    ordering_key: str | None = None
    tag: str | None = None
    headers: Mapping[str, str] = field(factory=dict[str, str])
    attempt: int = 0
    """1 at the first delivery to the group; 0 where there is no group."""
    losses: int = 0
    """How many times in a row before this delivery the client died, or let the lease run out."""
    published_at: datetime
    deliver_at: datetime
    expires_at: datetime | None = None
    """From then on it is not handed out any more."""
    erased_at: datetime | None = None
    """When an operator erased its body and headers; None if nobody has."""

    @property
    def erased(self) -> bool:
        """Whether its body is gone: `body` is None then, whatever it was."""
        return self.erased_at is not None

    @classmethod
    def read(cls, record: Mapping[str, Any], topic: str) -> Self:
        """Reads the server's JSON."""
        encoded = record.get("body_base64")
        return cls(
            id=record["id"],
            topic=record.get("topic", topic),
            queue=record["queue"],
            offset=record["offset"],
            body=record.get("body") if encoded is None else base64.b64decode(encoded),
            content_type=record.get("content_type"),
            key=record.get("key"),
            ordering_key=record.get("ordering_key"),
            tag=record.get("tag"),
            headers=record.get("headers") or {},
            attempt=record.get("attempt") or 0,
            losses=record.get("losses", 0),
            published_at=instant_in(record["published_at"]),
            deliver_at=instant_in(record["deliver_at"]),
            erased_at=instant_in(record["erased_at"]) if "erased_at" in record else None,
            expires_at=None if (expires_at := record.get("expires_at")) is None else instant_in(expires_at),
        )


@frozen
class Claim:
    """Messages that this client holds until `lease_until`; on a broadcast topic, messages to be confirmed by `next`."""

    id: str
    """Empty for messages of a broadcast topic: there is nothing to settle."""
    topic: str
    group: str
    lease_until: datetime
    messages: tuple[Message, ...]
    size: int = 0
    """Bytes of the answer, for flow control."""
    ordered: bool = False
    """Messages of one queue and ordering key (or of none) must be handled one after the other."""
    next: str | None = None
    """On a broadcast topic: pass it as `after` of the next claim, which confirms these messages."""


@frozen
class Failed:
    """What became of the messages of a fail."""

    retried: int
    dead: int


@frozen
class Pulled:
    """A page of a queue, and where the next one begins."""

    messages: tuple[Message, ...]
    next_offset: int


@frozen
class DeadLetter:
    """A message that exhausted its group's ladder, with one entry `{at, client, reason}` per counted delivery."""

    message: Message
    dead_at: datetime
    attempts: tuple[Mapping[str, Any], ...]


@frozen(kw_only=True)
class Draft:
    """A message to be published: at once, after `delay`, at `deliver_at`, or in the emptiest second of
    `deliver_between` (from, to)."""

    body: Any
    """Any JSON value, or bytes."""
    content_type: str | None = None
    """For a body of bytes; the default is application/octet-stream."""
    key: str | None = None
    delay: Duration | None = None
    deliver_at: datetime | str | None = None
    deliver_between: tuple[datetime | str, datetime | str] | None = None
    headers: Mapping[str, str] | None = None
    tag: str | None = None
    ordering_key: str | None = None
    queue: int | None = None
    expires_at: datetime | str | None = None
    """From then on it is not handed out any more."""
    guard: str | None = None
    """A guard that the server declares: at the due time it is asked, with the key, whether to send the message."""

    def wire(self) -> dict[str, Any]:
        """The message as the server takes it; fields that are None are left out."""
        document: dict[str, Any] = {}
        if isinstance(self.body, bytes | bytearray):
            document["body_base64"] = base64.b64encode(self.body).decode("ascii")
            document["content_type"] = self.content_type or "application/octet-stream"
        elif self.content_type is not None:
            raise ValueError("content_type goes with a body of bytes; any other body is JSON")
        else:
            document["body"] = self.body
        # Field by field: with many callers this is a good part of what a publish costs.
        if self.key is not None:
            document["key"] = self.key
        if self.delay is not None:
            document["delay"] = duration_out(self.delay, "delay")
        if self.deliver_at is not None:
            document["deliver_at"] = instant_out(self.deliver_at)
        if self.deliver_between is not None:
            document["deliver_between"] = [instant_out(one, "deliver_between") for one in self.deliver_between]
        if self.headers is not None:
            document["headers"] = dict(self.headers)
        if self.tag is not None:
            document["tag"] = self.tag
        if self.ordering_key is not None:
            document["ordering_key"] = self.ordering_key
        if self.queue is not None:
            document["queue"] = self.queue
        if self.expires_at is not None:
            document["expires_at"] = instant_out(self.expires_at, "expires_at")
        if self.guard is not None:
            document["guard"] = self.guard
        return document


class TimerFields(TypedDict, total=False):
    """The fields of a timer's message beside its body, in an outbox."""

    delay: Duration | None
    deliver_at: datetime | str | None
    expires_at: datetime | str | None
    ordering_key: str | None
    tag: str | None
    headers: Mapping[str, str] | None
    queue: int | None
    content_type: str | None


class Fields(TimerFields, total=False):
    """The fields of a message beside its body, in an outbox."""

    key: str | None


Named = str | int | Receipt | Rescheduled | Message
"""Identifies a message: its id, or a record that has it."""


def id_of(message: Named) -> str:
    """The id of a message. Raises `TypeError` for anything else."""
    if isinstance(message, str):
        return message
    if isinstance(message, Receipt | Rescheduled | Message):
        return message.id
    other = cast("object", message)  # users are not all typed
    if isinstance(other, int) and not isinstance(other, bool):
        return str(other)
    raise TypeError(
        f"id: an object of type {type(other).__name__} names no message: give its id, its receipt or the message itself"
    )
