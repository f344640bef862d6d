"""The history of a message's attempts: JSON that travels with it, an entry for each counted delivery that failed.

What cannot be read stops nobody: in its place stands one entry that says so.
"""

import msgspec


class Attempt(msgspec.Struct):
    """A counted delivery that failed."""

    at: int
    client: str
    reason: str | None = None


UNREADABLE = "what was remembered of earlier attempts cannot be read"
_read = msgspec.json.Decoder(list[Attempt]).decode


def attempts_of(history: bytes) -> list[Attempt]:
    """The attempts, the first one first."""
    try:
        return _read(history)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [Attempt(0, "", UNREADABLE)]


def written(attempts: list[Attempt]) -> bytes:
    """As it is kept."""
    return msgspec.json.encode(attempts)
