"""Verdicts: what an endpoint's answer means for the message that it was posted, and for the endpoint. Pure."""

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal

from attrs import frozen

SHORTEST_REST, LONGEST_REST = 1000, 86_400_000
"""Milliseconds: who asks for a longer rest is asked again after a day, and who asks for none, or for one that is over,
not at once, for what is not counted would go to and fro without end."""
_PUTS_OFF = (429, 502, 503, 504)
"""With Retry-After: it says itself when to come again."""
_GONE = 410
_TOO_MANY = 429

Kind = Literal["sent", "failed", "away", "later", "gone"]


@frozen
class Verdict:
    """`sent`: it is done. `failed`: this message was refused. `away`: the endpoint did not do its part. `later`: it
    asked to be left alone for `rest` milliseconds. `gone`: it wants nothing any more."""

    kind: Kind
    reason: str = ""
    rest: int = 0
    found: str = ""
    """What only the log is told of it."""


def verdict_of(status: int, headers: Mapping[str, str], now: int) -> Verdict:
    """Of an answer. `now` is Unix milliseconds, header names are in lower case."""
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
    """Milliseconds that Retry-After asks for, in seconds or as a date; None when it says nothing that can be read."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        rest = int(text[:10]) * 1000
    else:
        try:
            date = parsedate_to_datetime(text)
            date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)  # "-0000": not the machine's zone
            rest = round(date.timestamp() * 1000) - now
        except (ValueError, TypeError, OverflowError, IndexError):
            return None
    return min(max(rest, SHORTEST_REST), LONGEST_REST)
