"""Halves of surrogate pairs in JSON: escapes such as `\\ud800` that stand alone, and are no character.

msgspec refuses them as truncated or malformed data, and does not say where. Looked for only in what it has refused:
first the fault, and then the way to it alone. What is beside that way is passed over, and nothing is made of it.
"""

import re
from itertools import islice

import msgspec

_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SOUND = re.compile(
    rb"[^\\]*+(?:\\(?:[^u]|u(?![dD][89a-fA-F])|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})[^\\]*+)*+",
    re.DOTALL,
)
"""Up to the first that stands alone."""
_CUT_OFF = re.compile(rb"\\u[0-9a-fA-F]{0,4}(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
"""What may become a pair."""
_TOKEN = re.compile(
    rb'"(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)(?:"|(?P<broken>\Z))|(?P<open>[\[{])|(?P<close>[\]}])|[^"\[\]{}]++',
    re.DOTALL,
)
_TEXT, _BROKEN, _OPEN, _CLOSE = range(1, 5)
_LOOKED_AT = 512 << 10
"""Bytes. What is longer comes in a list, and is looked at one by one."""
_SHOWN = 100
"""Characters of a name."""
_DEEPEST = 32
"""Levels of a pointer; deeper down it leads to what the fault is in."""
_STEPS = 100_000
"""Texts, brackets and what lies between them, on the way to a fault: some hundredths of a second. One that is farther
off is told of the whole."""

ALONE = "it has half of a surrogate pair that stands alone (\\ud800 to \\udfff), which is no character"

_Level = tuple[bool, int, bytes]
"""Whether it is an object; how many commas of an array came before; the last name of an object, as it is written."""


def may_be_lone(data: bytes) -> bool:
    """Whether there is an escape that wants another beside it, farther off than is looked for."""
    return _ESCAPE.search(data, _LOOKED_AT) is not None


def pointer_to_lone(data: bytes) -> str | None:
    """The JSON pointer of the first text with one; of the object, if it is in a name. None where all is well with them,
    or the JSON is wrong otherwise."""
    if _ESCAPE.search(data, 0, _LOOKED_AT) is None or (sound := _SOUND.match(data, 0, _LOOKED_AT)) is None:
        return None
    end = sound.end()
    if _ESCAPE.match(data, end) is None or _CUT_OFF.match(data, end) is not None:
        return None
    return _pointer_to_end(data[:end])


def _pointer_to_end(begun: bytes) -> str | None:
    """Of the text in whose midst it ends."""
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
    """Whether it is, with its ends."""
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
