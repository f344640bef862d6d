"""The name of a claim outside: its keys and its token. Whoever has it may settle the claim, so it cannot be guessed."""

import re

from ..records import ClaimKey

RANGES = 64
"""Ranges of a claim at most: its name stands in paths, and each of them is a row."""
_FORM = re.compile(
    r"(\d{1,10})-(\d{1,10}-\d{1,19}-\d{1,19})-([0-9a-f]{1,16})((?:\.\d{1,10}-\d{1,19}-\d{1,19})*)", re.ASCII
)


def format_claim(key: ClaimKey, *others: ClaimKey) -> str:
    """`group-queue-number-first-token`, the token in hexadecimal; of further ranges `.queue-number-first` each."""
    name = f"{key.group_id}-{key.queue_id}-{key.number}-{key.first}-{key.token:x}"
    return name + "".join(f".{other.queue_id}-{other.number}-{other.first}" for other in others)


def parse_claim(name: str) -> tuple[ClaimKey, ...]:
    """The reverse; empty for what is no claim's name."""
    match = _FORM.fullmatch(name)
    if match is None or name.count(".") >= RANGES:
        return ()
    group_id, token = int(match[1]), int(match[3], 16)
    keys: list[ClaimKey] = []
    for part in (match[2] + match[4]).split("."):
        queue_id, number, first = (int(digits) for digits in part.split("-"))
        if max(number, first, token) >= 1 << 63:
            return ()
        keys.append(ClaimKey(group_id, queue_id, number, first, token))
    return tuple(keys) if len(set(keys)) == len(keys) else ()
