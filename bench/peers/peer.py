"""The interface that each peer implements for the works."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from ..report import Figures

Arrival = tuple[int, int, int]
"""A message at a handler: its number, when it was due (Unix ms, 0 for at once) and when it arrived (Unix ns)."""

CONSUMERS = 8
PAGE = 1000
"""Messages in a call that takes many."""
QUEUE = "bench"
FILLER = "x" * 150


def body(number: int, due: int) -> dict[str, object]:
    """About 200 bytes of JSON."""
    return {"n": number, "due": due, "x": FILLER}


def arrival(body: dict[str, int], at: int) -> Arrival:
    """The arrival of a message with this body at this time."""
    return body["n"], body["due"], at


def text(number: int, due: int) -> str:
    """The body as JSON."""
    return json.dumps(body(number, due))


class Peer(Protocol):
    """A queue with its private, empty server and its client. Only one exists at a time, used from a single thread,
    except in `consume`."""

    durability: str
    """What an answered publish guarantees."""
    lacks: str
    """Features of Tarry that this peer lacks, or differences that affect a figure."""
    in_memory: bool
    """Whether a pending message takes memory of the server; otherwise it is only a row."""

    def __init__(self, folder: Path) -> None: ...

    def missing(self) -> str:
        """What to install; nothing if all is there."""
        ...

    def version(self) -> str:
        """The versions of the server and of the client."""
        ...

    def start(self) -> None:
        """Starts the server with the data that it has kept; returns when it answers."""
        ...

    def publish(self, callers: int, seconds: float) -> Figures:
        """Measures `callers` callers that each publish a message, wait for its answer and publish the next."""
        ...

    def schedule(self, dues: Sequence[int]) -> float:
        """Publishes a message due at each of these times (Unix ms; 0 for at once), by the client's call for many if it
        has one. Returns the seconds it took."""
        ...

    def consume(self, total: int, patience: float) -> list[Arrival]:
        """Runs eight consumers that handle and ack messages, until `total` came or `patience` seconds are over."""
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
        """Kills the whole server: like a power cut, except that the disk loses nothing."""
        ...

    def stop(self) -> None:
        """Stops the server, whatever state it is in."""
        ...
