"""Whether a message is expired: from its `expires_at` on it is not handed out any more."""


def is_past(expires_at: int | None, at: int) -> bool:
    """Whether the message is expired at the time `at`; both are Unix milliseconds, and None means never."""
    return expires_at is not None and expires_at <= at
