"""JSON Schema of rules for requests that Python types cannot express: forms of texts, and fields that go together.

The handlers check all of this and answer in sentences; these rules are for readers of /openapi.json.
"""

from typing import Any

from ...wheel.ladder import MAX_REST_MS
from ..durations import DURATION_PATTERN, MAX_DURATION, TIME_PATTERN
from .names import CONTENT_TYPE_PATTERN, ID_PATTERN, NAME_PATTERN, NO_NAMES

Json = dict[str, Any]

MAX_OFFSET = (1 << 63) - 1


def text(form: str) -> Json:
    """A string that has this form as a whole."""
    return {"type": "string", "pattern": f"^(?:{form})$"}


NAME = text(NAME_PATTERN) | {"not": {"enum": list(NO_NAMES)}}
ID, CONTENT_TYPE = text(ID_PATTERN), text(CONTENT_TYPE_PATTERN)
DURATION, TIME = text(DURATION_PATTERN) | {"minLength": 1}, text(TIME_PATTERN)
START = text(f"earliest|latest|{TIME_PATTERN}")
AFTER = text("|[0-9]{1,5}-[0-9]{1,19}")
BASE64 = text("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
SECRET = text("whsec_[A-Za-z0-9+/]{32,86}={0,2}") | {"writeOnly": True}
LABEL = {"minLength": 1, "maxLength": 255}
GUARD = text("[a-z][a-z0-9_]{0,63}")
MILLISECONDS = {"minimum": 0, "maximum": MAX_DURATION}
REST = {"minimum": 0, "maximum": MAX_REST_MS}
POST = {"minimum": 100, "maximum": 300_000}
OFFSET = {"minimum": 0, "maximum": MAX_OFFSET}


def given(*names: str) -> Json:
    """These fields are present, and not null."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


def absent(name: str) -> Json:
    """This field is absent, or null."""
    return {"properties": {name: {"type": "null"}}}


def is_text(name: str) -> Json:
    """This field is present, and a string."""
    return {"required": [name], "properties": {name: {"type": "string"}}}


def one_of(first: str, second: str) -> Json:
    return {"oneOf": [given(first) | {"not": given(second)}, given(second) | {"not": given(first)}]}
