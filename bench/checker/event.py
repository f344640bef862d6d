"""An event of a history: what the harness asked the service or was answered, and when."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder


class Event(Struct, frozen=True, omit_defaults=True):
    """All clocks are the harness's: `mono_ns` orders the events, `wall_ns` is compared with the service's times."""

    op: str
    """setup, publish, cancel, reschedule, replace (a timer by the next one of its key), claim, ack, fail, extend, seek,
    redrive, read, schedule (made, and paused), fault; and at the end fire, stream, dead, counts and drained."""
    phase: str
    """invoke; then ok, fail (refused, and nothing was done) or unknown (it may have been done)."""
    wall_ns: int
    mono_ns: int
    call: int = 0
    """The same for an invocation and its outcome."""
    name: str = ""
    """The harness's name for the message; it is in the body, so it is known even if no id was answered."""
    id: str = ""
    topic: str = ""
    group: str = ""
    client: str = ""
    attempt: int = 0
    token: str = ""
    """The token of a claim."""
    place: int = 0
    """The place of a message within its claim."""
    key: str = ""
    """The ordering key."""
    seq: int = 0
    """The number of the message within its ordering key, from 1."""
    queue: int = -1
    offset: int = -1
    due_ms: int = 0
    """publish, reschedule: when the message is due; claim, extend: when the lease ends; dead: when it died; fire: the
    fire time. By the store's clock, except in requests."""
    ends_ms: int = 0
    """publish: when the message expires; 0: never."""
    rest_ms: int = -1
    """fail: the delay that the consumer asked for; -1: none."""
    counted: bool = True
    """fail: whether it counts as an attempt."""
    digest: str = ""
    """The digest of body, headers and ordering key."""
    reason: str = ""
    """The reason of a refusal; of a fault, what was done."""
    node: str = ""
    facts: dict[str, Any] = {}
    """setup: topics and groups; counts: the service's counters; dead: the attempts; a fault that steps the store's
    clock: `ahead_ms`, how many milliseconds it is ahead of the harness's. schedule: its name, `since` when it fires,
    and `every`, the milliseconds between fire times; fire: its `schedule`, and `at`, when it was handled."""

    @property
    def wall_ms(self) -> float:
        return self.wall_ns / 1e6


def read(path: Path) -> Iterator[Event]:
    """Reads the events of a history; leaves out an incomplete last line."""
    decoder = Decoder(Event)
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield decoder.decode(line)
