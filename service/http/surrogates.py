"""Halves of surrogate pairs in JSON: escapes such as `\\ud800` that stand alone, and are no character.

msgspec refuses them as truncated or malformed data, and does not say where. Looked for only in what it has refused.
"""

import json
import re
from typing import cast

_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE = re.compile("[\ud800-\udfff]")
_SHOWN = 100
"""Characters of a name."""

ALONE = "it has half of a surrogate pair that stands alone (\\ud800 to \\udfff), which is no character"


def pointer_to_lone(data: bytes) -> str | None:
    """The JSON pointer of the first text with one; of the object, if it is in a name. None where all is well with them,
    or the JSON is wrong otherwise."""
    if _ESCAPE.search(data) is None:
        return None
    try:
        waiting: list[tuple[str, object]] = [("", json.loads(data))]
    except (ValueError, RecursionError):
        return None
    while waiting:
        pointer, value = waiting.pop()
        if isinstance(value, str):
            if _is_lone(value):
                return pointer
        elif isinstance(value, list):
            items = cast("list[object]", value)
            waiting += [(f"{pointer}/{index}", item) for index, item in reversed([*enumerate(items)])]
        elif isinstance(value, dict):
            fields = cast("dict[str, object]", value)
            if any(map(_is_lone, fields)):
                return pointer
            waiting += [(f"{pointer}/{_escaped(name)}", field) for name, field in reversed(fields.items())]
    return None


def _is_lone(text: str) -> bool:
    return _LONE.search(text) is not None


def _escaped(name: str) -> str:
    return name[:_SHOWN].replace("~", "~0").replace("/", "~1")
