"""One line of a history: what the harness asked of the service and what it heard, and when."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.json import Decoder


class Event(Struct, frozen=True, omit_defaults=True):
    """Times are of the harness. `mono_ns` orders the events, `wall_ns` is held against the times of the service."""

    op: str
    """setup, publish, cancel, reschedule, replace (a timer by the next one of its key), claim, ack, fail, extend, seek,
    redrive, read, schedule (made, and paused), fault; and at the end fire, stream, dead, counts and drained."""
    phase: str
    """invoke; ok, fail (it was refused, and nothing was done) or unknown (nobody can tell)."""
    wall_ns: int
    mono_ns: int
    call: int = 0
    """The same for an invocation and what came of it."""
    name: str = ""
    """What the harness calls the message: it stands in the body, so it is known where no id was answered."""
    id: str = ""
    topic: str = ""
    group: str = ""
    client: str = ""
    attempt: int = 0
    token: str = ""
    """Of a claim."""
    place: int = 0
    """Of a message within its claim."""
    key: str = ""
    """The ordering key."""
    seq: int = 0
    """The number of the message within its ordering key, from 1."""
    queue: int = -1
    offset: int = -1
    due_ms: int = 0
    """Of a publish and a reschedule when it may go out, of a claim and an extension when the lease is over,
    of a dead letter when it died, of a fire the fire time. Of the store's clock, but for what is asked for."""
    ends_ms: int = 0
    """Of a publish: from when on it is handed out to nobody; 0: no end."""
    rest_ms: int = -1
    """Of a fail: the delay that the consumer named."""
    counted: bool = True
    """Of a fail: whether it counts."""
    digest: str = ""
    """Of body, headers and keys."""
    reason: str = ""
    """Of a refusal; of a fault what was done."""
    node: str = ""
    facts: dict[str, Any] = {}
    """Of setup: topics and groups; of counts: what the service tells; of a dead letter: its attempts; of a fault
    that steps the clock of the store, by how many milliseconds it is ahead of the harness's: `ahead_ms`. Of a schedule:
    its name, `since` when it fires, and `every` how many milliseconds; of a fire: its `schedule`, and `at` when it had
    its turn."""

    @property
    def wall_ms(self) -> float:
        return self.wall_ns / 1e6


def read(path: Path) -> Iterator[Event]:
    """The events of a history; a last line that is torn off is left out."""
    decoder = Decoder(Event)
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield decoder.decode(line)
