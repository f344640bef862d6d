"""The mark of an erased message: a content type that no published message has, and that every copy of it carries.

It begins with a space. So an erased message is recognized without another query when it is handed out, and copies that
are made later, in the dead letters or in the lake, are marked, too.
"""

from .history import attempts_of, written

LOST = "lease lost"
"""The reason of a failure that Tarry itself gives. It contains no personal data, so it is kept."""

MARK = " erased "
_DIGITS = 19
"""A time has fewer digits than this."""


def content_type_of(erased_at: int) -> str:
    """The content type of a message that was erased at this time."""
    return f"{MARK}{erased_at}"


def erased_at_of(content_type: str | None) -> int | None:
    """When the message of this content type was erased, Unix milliseconds; None: it was not."""
    if content_type is None or not content_type.startswith(MARK):
        return None
    at = content_type.removeprefix(MARK)
    return int(at) if at.isascii() and at.isdigit() and len(at) < _DIGITS else None


def without_reasons(history: bytes) -> bytes:
    """A history of attempts without the reasons of their failures, since reasons may quote the message."""
    attempts = attempts_of(history)
    if all(attempt.reason in (None, LOST) for attempt in attempts):
        return history
    for attempt in attempts:
        attempt.reason = attempt.reason if attempt.reason in (None, LOST) else None
    return written(attempts)
