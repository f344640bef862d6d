"""How deeply JSON is nested (pure). What is nested more deeply than others can read is refused: `json` of Python 3.11
is among those, and whoever claims it can read nothing else of the same answer.

The client looks in the same way (`client/bodies.py`) and stands alone; a table of texts in the tests holds both.
"""

import re
from itertools import accumulate

MAX_DEPTH = 500
"""Lists and objects in each other."""

TOO_DEEP = f"it is nested too deeply: {MAX_DEPTH} levels are the most"

_TEXT = re.compile(rb'"(?:[^"\\]+|\\.)*"', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def is_too_deep(text: bytes) -> bool:
    """Of what is JSON; looked at closely only where there are so many brackets."""
    if len(text) <= MAX_DEPTH or text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    steps = _TEXT.sub(b"", text).translate(_STEPS, _OTHERS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH
