"""What a work asks of a peer. Knows no peer."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..report import Figures

Arrival = tuple[int, int, int]
"""A message in a handler's hands: its number, when it was due (Unix ms, 0 for at once) and when it came (Unix ns)."""

CONSUMERS = 8
PAGE = 1000
"""Messages to a call that takes many."""
QUEUE = "bench"
FILLER = "x" * 150


def body(number: int, due: int) -> dict[str, object]:
    """About 200 bytes of JSON."""
    return {"n": number, "due": due, "x": FILLER}


def arrival(body: dict[str, int], at: int) -> Arrival:
    """Of a message with this body, at this time."""
    return body["n"], body["due"], at


def text(number: int, due: int) -> str:
    """The body as JSON."""
    return json.dumps(body(number, due))


class Peer(Protocol):
    """A queue with its server, private and empty, and with its client. One at a time; used from one thread but for
    `consume`."""

    durability: str
    """What an answered publish means."""
    lacks: str
    """What Tarry has and this has not, or what it does otherwise, where it concerns a figure."""
    in_memory: bool
    """Whether a pending message takes memory of the server's; else it is a row and no more."""

    def __init__(self, folder: Path) -> None: ...

    def missing(self) -> str:
        """What to install; nothing if all is there."""
        ...

    def version(self) -> str:
        """Of the server and of the client."""
        ...

    def start(self) -> None:
        """Starts the server, on what it has kept; returns when it answers."""
        ...

    def publish(self, callers: int, seconds: float) -> Figures:
        """So many callers that each publish a message, wait for its answer and publish the next."""
        ...

    def schedule(self, dues: Sequence[int]) -> float:
        """A message for each, due then (Unix ms; 0 for at once), in the client's way for many. Seconds it took."""
        ...

    def consume(self, total: int, patience: float) -> list[Arrival]:
        """What eight consumers handle, acknowledged each, until `total` have come or so many seconds are over."""
        ...

    def pending(self) -> int:
        """Messages that are not due yet."""
        ...

    def asked(self) -> int | None:
        """How many queries the server has counted; None if it counts none."""
        ...

    def pids(self) -> list[int]:
        """The server's processes, without their children."""
        ...

    def kill(self) -> None:
        """All of the server, as by a power cut, but for the disk."""
        ...

    def stop(self) -> None:
        """Ends the server, however it is."""
        ...
