"""W3C trace context: what a request says of the trace that it is a part of, and what a message carries of it. Pure.

It knows nothing of OpenTelemetry: whoever makes spans, here or elsewhere, a message hands on what it came with.
"""

import re
from collections.abc import Mapping

import msgspec

from ..store.records import MAX_HEADERS

PARENT, STATE = "traceparent", "tracestate"
"""The names of HTTP's headers, and of a message's."""
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_STATE = re.compile(r"[\x20-\x7e]{1,512}")


def trace_of(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Of headers, what says where a trace goes on; nothing where they do not say so."""
    parent = headers.get(PARENT)
    if parent is None or not _PARENT.fullmatch(parent):
        return {}
    state = headers.get(STATE)
    return {PARENT: parent} if state is None or not _STATE.fullmatch(state) else {PARENT: parent, STATE: state}


def carrying(headers: Mapping[str, str] | None, trace: Mapping[str, str]) -> bytes | None:
    """A message's headers as they are kept: with this trace, unless they have one, or no room for it."""
    alone = None if headers is None else msgspec.json.encode(headers)
    if not trace or (headers is not None and PARENT in headers):
        return alone
    both = msgspec.json.encode({**(headers or {}), **trace})
    return both if len(both) <= MAX_HEADERS else alone
