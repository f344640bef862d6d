"""The messages of the load: the body holds a message's name, and a digest checks that it comes back unchanged. A
schedule's message is named after the schedule and the fire time in its headers."""

from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any, cast
from zlib import crc32

from attrs import frozen
from msgspec.json import encode

POISON = "poison"
STALE = "stale"
"""Ends the name of a message that is failed until it has expired."""
SCHEDULE, FIRE_AT = "tarry-schedule", "tarry-fire-at"
"""Headers of the messages that schedules send."""


@frozen
class Message:
    name: str
    topic: str
    pad: str
    headers: Mapping[str, str] | None = None
    key: str | None = None
    """The ordering key."""
    seq: int = 0
    delay_ms: int = 0
    ends_ms: int = 0
    """When the message expires, by the store's clock; 0: never."""

    @property
    def draft(self) -> dict[str, Any]:
        """The message as it is published."""
        draft: dict[str, Any] = {"body": {"name": self.name, "pad": self.pad}}
        if self.headers:
            draft["headers"] = self.headers
        if self.key:
            draft["ordering_key"] = self.key
        if self.delay_ms:
            draft["delay"] = self.delay_ms
        if self.ends_ms:
            draft["expires_at"] = datetime.fromtimestamp(self.ends_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return draft

    @property
    def digest(self) -> str:
        return digest_of(self.draft)


def digest_of(message: Mapping[str, Any]) -> str:
    """The digest of a draft, or of a message that came back."""
    whole = (message["body"], message.get("headers"), message.get("ordering_key"))
    return f"{crc32(encode(whole, order='sorted')):08x}"


def make(random: Random, name: str, topic: str, *, stale: bool = False, **rest: Any) -> Message:
    """A message with a body and headers of random size; one in 200 is poison and always fails."""
    pad = "x" * random.choice((0, 10, 100, 300, 2000))
    headers = {"of": name} if random.random() < 0.3 else None
    poisoned = random.random() < 0.005
    ending = f"-{STALE}" if stale else f"-{POISON}" if poisoned else ""
    return Message(name + ending, topic, pad, headers, **rest)


def name_of(message: Mapping[str, Any]) -> str:
    """The name of a message that came back; without a name, its body."""
    headers: Mapping[str, str] = message.get("headers") or {}
    if SCHEDULE in headers:
        return fire_name(headers[SCHEDULE], headers[FIRE_AT])
    body = message["body"]
    return str(cast("dict[str, Any]", body).get("name", body)) if isinstance(body, dict) else str(body)


def fire_name(schedule: str, fire_at: str) -> str:
    """The name of the message that a schedule sends for a fire time (RFC 3339)."""
    return f"{schedule}@{round(datetime.fromisoformat(fire_at).timestamp() * 1000)}"
