"""Requests that many callers share: what each puts in, and how each finds its own answer. Pure.

Messages of a topic go as lines (NDJSON), acks and fails as a list. Whatever cannot be shared goes alone.
"""

from typing import Any, cast

import msgspec

from .calls import Form, Reply, Share
from .errors import TarryError, Unavailable, refusal

MAX_SHARES = 1000
MAX_BYTES = 1 << 20
"""Most bytes of a shared request: proxies take as much, unless they are configured otherwise."""
_ID = 105
"""Bytes that an id in an ack or a fail counts for, so that a shared request has fewer than the 10,000 ids allowed."""

_decode = msgspec.json.Decoder().decode


def message(path: str, content: bytes) -> Share | None:
    """The share of a message; None if it does not fit in a line of a request."""
    if len(content) >= MAX_BYTES or b"\n" in content:
        return None
    return Share(path, path, LINES, content, len(content))


def settlement(place: tuple[str, str] | None, content: bytes, ids: int) -> Share | None:
    """The share of an ack or a fail of so many ids. `place` is topic and group.

    None if there are too many, or if the place is not known: a slow topic would keep others waiting.
    """
    size = len(content) + ids * _ID
    return None if place is None or size >= MAX_BYTES else Share(("settle", *place), SETTLE, SETTLEMENTS, content, size)


class _LineAnswers:
    def __init__(self) -> None:
        self._begun = b""

    def feed(self, piece: bytes, /) -> list[Reply | TarryError]:
        *lines, self._begun = (self._begun + piece).split(b"\n")
        return [_read(_decode(line), len(line)) for line in lines]

    def end(self) -> list[Reply | TarryError]:
        return [_read(_decode(self._begun), len(self._begun))] if self._begun else []


class _SettledAnswers:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes, /) -> tuple[()]:
        self._pieces.append(piece)
        return ()

    def end(self) -> list[Reply | TarryError]:
        return settled(_decode(b"".join(self._pieces)))


def settled(document: dict[str, Any]) -> list[Reply | TarryError]:
    """The outcome of each ack or fail of a list."""
    return [_read(one, 0) for one in document["settled"]]


def _read(document: Any, size: int) -> Reply | TarryError:
    if not isinstance(document, dict):
        raise ValueError("an answer is an object")
    record = cast("dict[str, Any]", document)
    problem: dict[str, Any] | None = record.get("error")
    return Reply(record, size) if problem is None else refusal(problem["status"], problem)


LINES = Form("application/x-ndjson", lambda shares: b"\n".join(shares) + b"\n", _LineAnswers)
"""Messages of a topic, a line each."""
SETTLEMENTS = Form("application/json", lambda shares: b'{"settle":[%b]}' % b",".join(shares), _SettledAnswers)
"""Acks and fails, each of a claim."""
SETTLE = "/v1/claims/settle"


class Alone:
    """The outcome of a shared request that says nothing about this call: its caller sends it alone."""


ALONE = Alone()

Outcome = Reply | TarryError | Alone


def fate(error: BaseException) -> Unavailable | Alone:
    """The outcome for each caller of a shared request that failed as a whole.

    After a failure that may pass each caller tries again by itself. A refusal was perhaps not meant for its call.
    """
    if isinstance(error, Unavailable):
        return _again(error)
    if isinstance(error, Exception):
        return ALONE
    return Unavailable("whoever sent the request that this shared was interrupted")


def _again(error: Unavailable) -> Unavailable:
    # Each caller gets an error of its own: one that is raised carries its traceback.
    other = Unavailable(str(error), status=error.status, problem=error.problem, retry_after=error.retry_after)
    other.__cause__ = error.__cause__
    return other
