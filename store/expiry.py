"""When a message is past its time: from its `expires_at` on nobody is given it."""


def is_past(expires_at: int | None, at: int) -> bool:
    """Whether it is past its time at this moment; both are Unix milliseconds, and None is never."""
    return expires_at is not None and expires_at <= at
