"""Finds unpaired surrogates in JSON: escapes such as `\\ud800` that stand alone, and are no character.

msgspec refuses them as truncated or malformed data, without saying where. Only data that it has refused is searched:
first for the fault, and then for the path to it alone. Everything beside that path is skipped, and no objects are made
of it.
"""

import re
from itertools import islice

import msgspec

_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SOUND = re.compile(
    rb"[^\\]*+(?:\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})[^\\]*+)*+",
    re.DOTALL,
)
"""Matches the data up to the first unpaired surrogate."""
_CUT_OFF = re.compile(rb"\\u[0-9a-fA-F]{0,4}(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
"""Matches an escape at the end of the data, which the cut data might complete to a pair."""
_TOKEN = re.compile(
    rb'"(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)(?:"|(?P<broken>\Z))|(?P<open>[\[{])|(?P<close>[\]}])|[^"\[\]{}]++',
    re.DOTALL,
)
_TEXT, _BROKEN, _OPEN, _CLOSE = range(1, 5)
_LOOKED_AT = 512 << 10
"""Bytes that are searched. Longer data is a list, whose items are searched one by one."""
_SHOWN = 100
"""Characters of a name that are shown."""
_DEEPEST = 32
"""The most levels of a pointer; if the fault is deeper, the pointer leads to the value that contains it."""
_STEPS = 100_000
"""Tokens (texts, brackets and the parts between them) on the way to a fault, some hundredths of a second. If the fault
is farther off, the pointer is that of the whole."""

ALONE = "it has half of a surrogate pair that stands alone (\\ud800 to \\udfff), which is no character"

_Level = tuple[bool, int, bytes]
"""Whether it is an object; the number of commas so far in an array; the last name in an object, as written."""


def may_be_lone(data: bytes) -> bool:
    """Whether there is an escape of a surrogate beyond the bytes that are searched."""
    return _ESCAPE.search(data, _LOOKED_AT) is not None


def pointer_to_lone(data: bytes) -> str | None:
    """The JSON pointer of the first text with an unpaired surrogate; of the object, if it is in a name. None if there
    is no such text, or the JSON is malformed otherwise."""
    if _ESCAPE.search(data, 0, _LOOKED_AT) is None or (sound := _SOUND.match(data, 0, _LOOKED_AT)) is None:
        return None
    end = sound.end()
    if _ESCAPE.match(data, end) is None or _CUT_OFF.match(data, end) is not None:
        return None
    return _pointer_to_end(data[:end])


def _pointer_to_end(begun: bytes) -> str | None:
    """The pointer of the text in the middle of which `begun` ends."""
    levels: list[_Level] = []
    is_object, place, name, at_name = False, 0, b"", False
    tokens = _TOKEN.finditer(begun)
    for token in islice(tokens, _STEPS):
        kind = token.lastindex
        if kind == _TEXT:
            if at_name:
                name = token[_TEXT]
        elif kind == _OPEN:
            levels.append((is_object, place, name))
            is_object = at_name = token[0] == b"{"
            place, name = 0, b""
        elif kind == _CLOSE:
            if not levels:
                return None
            is_object, place, name = levels.pop()
            at_name = False
        elif kind == _BROKEN:
            levels.append((is_object, place, name))
            if not _is_json(begun[: token.start()] + (b'"":0' if at_name else b'""'), levels[1:]):
                return None
            return "".join(map(_step, levels[1 : len(levels) - at_name][:_DEEPEST]))
        elif is_object:
            at_name = not token[0].rstrip().endswith(b":")
        else:
            place += token[0].count(b",")
    return None if next(tokens, None) is None else ""


def _is_json(begun: bytes, levels: list[_Level]) -> bool:
    """Whether it is JSON once the open levels are closed."""
    ends = b"".join(b"}" if is_object else b"]" for is_object, _, _ in reversed(levels))
    try:
        msgspec.json.decode(begun + ends, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _step(level: _Level) -> str:
    is_object, place, name = level
    if not is_object:
        return f"/{place}"
    text = msgspec.json.decode(b'"' + name + b'"', type=str)
    return "/" + text[:_SHOWN].replace("~", "~0").replace("/", "~1")
