"""Requests that many callers share: what each puts in, and how each finds its own answer. Pure.

Messages of a topic go as lines (NDJSON), acks and fails as a list. Whatever cannot be shared goes alone.
"""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from .calls import Reply, Share
from .errors import TarryError, Unavailable, refusal

MAX_SHARES = 1000
MAX_BYTES = 1 << 20
"""Of a shared request: proxies take as much, unless they are told otherwise."""
_ID = 105
"""What an id in an ack or a fail weighs in bytes, so that a shared request has fewer than the 10,000 that may be."""

_decode = msgspec.json.Decoder().decode


def message(path: str, content: bytes) -> Share | None:
    """A message's; None when it does not fit in a line of a request."""
    if len(content) >= MAX_BYTES or b"\n" in content:
        return None
    return Share(path, path, LINES, content, len(content))


def settlement(place: tuple[str, str] | None, content: bytes, ids: int) -> Share | None:
    """An ack's or a fail's, of so many ids. `place` is topic and group.

    None when there are too many, and where the place is not known: a slow topic would keep others waiting.
    """
    size = len(content) + ids * _ID
    return None if place is None or size >= MAX_BYTES else Share(("settle", *place), SETTLE, SETTLEMENTS, content, size)


class _Lines:
    """Messages of a topic, a line each."""

    media_type = "application/x-ndjson"

    def content(self, shares: Sequence[bytes], /) -> bytes:
        return b"\n".join(shares) + b"\n"

    def answers(self) -> "_LineAnswers":
        return _LineAnswers()


class _LineAnswers:
    def __init__(self) -> None:
        self._begun = b""

    def feed(self, piece: bytes, /) -> list[Reply | TarryError]:
        *lines, self._begun = (self._begun + piece).split(b"\n")
        return [_read(_decode(line), len(line)) for line in lines]

    def end(self) -> list[Reply | TarryError]:
        return [_read(_decode(self._begun), len(self._begun))] if self._begun else []


class _Settlements:
    """Acks and fails, each of a claim."""

    media_type = "application/json"

    def content(self, shares: Sequence[bytes], /) -> bytes:
        return b'{"settle":[%b]}' % b",".join(shares)

    def answers(self) -> "_SettledAnswers":
        return _SettledAnswers()


class _SettledAnswers:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes, /) -> tuple[()]:
        self._pieces.append(piece)
        return ()

    def end(self) -> list[Reply | TarryError]:
        return settled(_decode(b"".join(self._pieces)))


def settled(document: dict[str, Any]) -> list[Reply | TarryError]:
    """What came of each ack or fail of a list."""
    return [_read(one, 0) for one in document["settled"]]


def _read(document: Any, size: int) -> Reply | TarryError:
    if not isinstance(document, dict):
        raise ValueError("an answer is an object")
    record = cast("dict[str, Any]", document)
    problem: dict[str, Any] | None = record.get("error")
    return Reply(record, size) if problem is None else refusal(problem["status"], problem)


LINES = _Lines()
SETTLEMENTS = _Settlements()
SETTLE = "/v1/claims/settle"


class Alone:
    """What came of a shared request says nothing to its caller, who asks alone."""


ALONE = Alone()

Outcome = Reply | TarryError | Alone


def fate(error: BaseException) -> Unavailable | Alone:
    """What a shared request that failed as a whole is for one of those who share it.

    What may pass each tries again by itself. A refusal was perhaps not meant for it.
    """
    if isinstance(error, Unavailable):
        return _again(error)
    if isinstance(error, Exception):
        return ALONE
    return Unavailable("whoever sent the request that this shared was interrupted")


def _again(error: Unavailable) -> Unavailable:
    # For each an error of its own: what is raised carries where.
    other = Unavailable(str(error), status=error.status, problem=error.problem, retry_after=error.retry_after)
    other.__cause__ = error.__cause__
    return other
