"""Verdicts: what an endpoint's answer means for the posted message, and for the endpoint. Pure."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal

from attrs import frozen

SHORTEST_REST, LONGEST_REST = 1000, 86_400_000
"""Bounds in milliseconds of the rest that an endpoint asks for. After a day it is tried again in any case. If it asks
for no rest, or one that is over, it is not tried at once: such attempts are not counted, so they would go on without
end."""
_PUTS_OFF = (429, 502, 503, 504)
"""Statuses that, with Retry-After, say when to come again."""
_GONE = 410
_TOO_MANY = 429

Kind = Literal["sent", "failed", "away", "later", "gone"]


@frozen
class Verdict:
    """`sent`: the endpoint accepted the message. `failed`: it refused this message. `away`: it failed to process it.
    `later`: it asked to be left alone for `rest` milliseconds. `gone`: it wants no messages any more."""

    kind: Kind
    reason: str = ""
    rest: int = 0
    found: str = ""
    """Details for the log only."""


def verdict_of(status: int, headers: Mapping[str, str], now: int) -> Verdict:
    """The verdict on an answer. `now` is Unix milliseconds; header names are in lower case."""
    said = f"the endpoint answered {status}"
    if 200 <= status < 300:
        return Verdict("sent")
    if status == _GONE:
        return Verdict("gone", said)
    if status in _PUTS_OFF and (rest := _rest(headers.get("retry-after", ""), now)) is not None:
        return Verdict("later", f"{said}, and to come again in {rest} ms", rest)
    if 300 <= status < 400:
        return Verdict("failed", f"{said}: redirects are not followed; set the url to where it leads")
    return Verdict("away" if status >= 500 or status == _TOO_MANY else "failed", said)


def _rest(text: str, now: int) -> int | None:
    """Milliseconds that Retry-After asks for, in seconds or as a date; None if it cannot be parsed."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        rest = int(text[:10]) * 1000
    else:
        try:
            date = parsedate_to_datetime(text)
            date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)  # "-0000": UTC, not the machine's zone
            rest = round(date.timestamp() * 1000) - now
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return min(max(rest, SHORTEST_REST), LONGEST_REST)
