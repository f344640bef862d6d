"""How a message says that it is erased: by its content type, which every copy of it carries.

No message that is published has one that begins with a space. So a hand-out tells it without another look, and what is
copied later, into the dead letters or the lake, is erased, too. A server of before hands out an empty body of that
type.
"""

import msgspec

LOST = "lease lost"
"""The reason for a failure that Tarry itself gives. It is about nobody, and stays."""

MARK = " erased "


def content_type_of(erased_at: int) -> str:
    """What the content type of an erased message is."""
    return f"{MARK}{erased_at}"


def erased_at_of(content_type: str | None) -> int | None:
    """When the message of this content type was erased, Unix milliseconds; None: it was not."""
    if content_type is None or not content_type.startswith(MARK):
        return None
    return int(content_type.removeprefix(MARK))


def without_reasons(history: bytes) -> bytes:
    """A history of attempts without why they failed: reasons quote what they are about."""
    attempts = msgspec.json.decode(history, type=list[dict[str, int | str | None]])
    if all(attempt.get("reason") in (None, LOST) for attempt in attempts):
        return history
    bare = [attempt if attempt.get("reason") in (None, LOST) else attempt | {"reason": None} for attempt in attempts]
    return msgspec.json.encode(bare)
