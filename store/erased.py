"""How a message says that it is erased: by its content type, which every copy of it carries.

No message that is published has one that begins with a space. So a hand-out tells it without another look, and what is
copied later, into the dead letters or the lake, is erased, too.
"""

from .history import attempts_of, written

LOST = "lease lost"
"""The reason for a failure that Tarry itself gives. It is about nobody, and stays."""

MARK = " erased "
_DIGITS = 19
"""That a time has less than."""


def content_type_of(erased_at: int) -> str:
    """What the content type of an erased message is."""
    return f"{MARK}{erased_at}"


def erased_at_of(content_type: str | None) -> int | None:
    """When the message of this content type was erased, Unix milliseconds; None: it was not."""
    if content_type is None or not content_type.startswith(MARK):
        return None
    at = content_type.removeprefix(MARK)
    return int(at) if at.isascii() and at.isdigit() and len(at) < _DIGITS else None


def without_reasons(history: bytes) -> bytes:
    """A history of attempts without why they failed: reasons quote what they are about."""
    attempts = attempts_of(history)
    if all(attempt.reason in (None, LOST) for attempt in attempts):
        return history
    for attempt in attempts:
        attempt.reason = attempt.reason if attempt.reason in (None, LOST) else None
    return written(attempts)
