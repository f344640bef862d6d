"""The public name of a claim: its keys and its token. Its holder may settle the claim, so it cannot be guessed."""

import re

from ..records import ClaimKey

RANGES = 64
"""How many ranges a claim has at most: its name is used in URL paths, and each range is a row."""
_FORM = re.compile(
    r"(\d{1,10})-(\d{1,10}-\d{1,19}-\d{1,19})-([0-9a-f]{1,16})((?:\.\d{1,10}-\d{1,19}-\d{1,19})*)", re.ASCII
)


def format_claim(key: ClaimKey, *others: ClaimKey) -> str:
    """`group-queue-number-first-token`, the token in hexadecimal; for each further range `.queue-number-first`."""
    name = f"{key.group_id}-{key.queue_id}-{key.number}-{key.first}-{key.token:x}"
    return name + "".join(f".{other.queue_id}-{other.number}-{other.first}" for other in others)


def parse_claim(name: str) -> tuple[ClaimKey, ...]:
    """The reverse of `format_claim`; empty if the text is not a claim's name."""
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
