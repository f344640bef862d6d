"""W3C trace context: reads it from the headers of a request, and adds it to the headers of a message. Pure.

It knows nothing of OpenTelemetry: a message passes on the context it came with, whichever program makes the spans.
"""

import re
from collections.abc import Mapping

import msgspec

from ..store.records import MAX_HEADERS

PARENT, STATE = "traceparent", "tracestate"
"""The names of the headers, in HTTP and in a message."""
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_STATE = re.compile(r"[\x20-\x7e]{1,512}")


def trace_of(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The trace context in these headers; empty if `traceparent` is missing or malformed."""
    parent = headers.get(PARENT)
    if parent is None or not _PARENT.fullmatch(parent):
        return {}
    state = headers.get(STATE)
    return {PARENT: parent} if state is None or not _STATE.fullmatch(state) else {PARENT: parent, STATE: state}


def carrying(headers: Mapping[str, str] | None, trace: Mapping[str, str]) -> bytes | None:
    """A message's headers as JSON, as they are stored: with this trace, unless they have one already or it does not
    fit."""
    alone = None if headers is None else msgspec.json.encode(headers)
    if not trace or (headers is not None and PARENT in headers):
        return alone
    both = msgspec.json.encode({**(headers or {}), **trace})
    return both if len(both) <= MAX_HEADERS else alone
