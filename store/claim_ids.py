"""The name of a claim outside: its key and its token. Whoever has it may settle the claim, so it cannot be guessed."""

import re

from .records import ClaimKey

_FORM = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,19})-(\d{1,19})-([0-9a-f]{1,16})", re.ASCII)


def format_claim(key: ClaimKey) -> str:
    """`group-queue-number-first-token`, the token in hexadecimal."""
    return f"{key.group_id}-{key.queue_id}-{key.number}-{key.first}-{key.token:x}"


def parse_claim(name: str) -> ClaimKey | None:
    """The reverse; None for what is no claim's name."""
    match = _FORM.fullmatch(name)
    if match is None:
        return None
    group_id, queue_id, number, first = (int(part) for part in match.groups()[:4])
    token = int(match[5], 16)
    if max(number, first, token) >= 1 << 63:
        return None
    return ClaimKey(group_id, queue_id, number, first, token)
