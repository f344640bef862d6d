"""A message of the load: its name stands in its body, and a digest holds all of it against what comes back."""

from collections.abc import Mapping
from random import Random
from typing import Any, cast
from zlib import crc32

from attrs import frozen
from msgspec.json import encode

POISON = "poison"


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

    @property
    def draft(self) -> dict[str, Any]:
        """As it is published."""
        draft: dict[str, Any] = {"body": {"name": self.name, "pad": self.pad}}
        if self.headers:
            draft["headers"] = self.headers
        if self.key:
            draft["ordering_key"] = self.key
        if self.delay_ms:
            draft["delay"] = self.delay_ms
        return draft

    @property
    def digest(self) -> str:
        return digest_of(self.draft)


def digest_of(message: Mapping[str, Any]) -> str:
    """Of a draft or of what came back."""
    whole = (message["body"], message.get("headers"), message.get("ordering_key"))
    return f"{crc32(encode(whole, order='sorted')):08x}"


def make(random: Random, name: str, topic: str, **rest: Any) -> Message:
    """With a body and headers of some size; one of 200 is poison, and never done."""
    pad = "x" * random.choice((0, 10, 100, 300, 2000))
    headers = {"of": name} if random.random() < 0.3 else None
    ending = f"-{POISON}" if random.random() < 0.005 else ""
    return Message(name + ending, topic, pad, headers, **rest)


def name_of(message: Mapping[str, Any]) -> str:
    """The name of what came back; what has none shows as itself."""
    body = message["body"]
    return str(cast("dict[str, Any]", body).get("name", body)) if isinstance(body, dict) else str(body)
