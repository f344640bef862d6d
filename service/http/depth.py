"""Tells whether JSON is nested too deeply (pure).

Bodies are refused that are nested more deeply than common parsers can read, such as `json` of Python 3.11: a client
that claims such a body cannot read anything else of that answer.

The client library makes the same check by itself (`client/bodies.py`); a table of texts in the tests covers both.
"""

import re
from itertools import accumulate

MAX_DEPTH = 500
"""Levels of nested lists and objects."""

TOO_DEEP = f"it is nested too deeply: {MAX_DEPTH} levels are the most"

_TEXT = re.compile(rb'"(?:[^"\\]+|\\.)*"', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def is_too_deep(text: bytes) -> bool:
    """Whether `text`, which is valid JSON, is nested too deeply; counts levels only if there are enough brackets."""
    if len(text) <= MAX_DEPTH or text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    steps = _TEXT.sub(b"", text).translate(_STEPS, _OTHERS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH
