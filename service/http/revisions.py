"""Revisions of timers and schedules in HTTP headers: reads If-Match and If-None-Match, and sets ETag."""

import re

from .asgi import Response
from .call import Call
from .problems import Problem

_TAG = re.compile(r'(?:W/)?"([0-9]{1,19})"')


def condition(call: Call) -> tuple[int | None, bool]:
    """The revision that the object must have, None for any, and whether it must not exist."""
    match, none = call.request.headers(b"if-match"), call.request.headers(b"if-none-match")
    if none and (match or none != [b"*"]):
        raise Problem("bad-request", "the header If-None-Match: say *, without If-Match: only when none waits")
    if not match:
        return None, bool(none)
    found = _TAG.fullmatch(match[0].decode("latin-1").strip()) if len(match) == 1 else None
    if found is None or int(found[1]) >= 1 << 63:
        raise Problem("bad-request", 'the header If-Match: say one revision in quotes, as ETag has it: "1795432123456"')
    return int(found[1]), False


def revision_of(call: Call) -> int | None:
    """The revision that the object must have to be removed, None for any."""
    revision, absent = condition(call)
    if absent:
        raise Problem("bad-request", "the header If-None-Match goes with PUT")
    return revision


def unmatched(there: str, revision: int | None) -> Problem:
    """412: what is there instead, and its revision, if it exists."""
    return Problem("precondition-failed", there, executed=False, revision=revision)


def tagged(response: Response, revision: int) -> Response:
    response.add_header("ETag", f'"{revision}"')
    return response
