"""Checks the form of names, keys, ids and headers; each check returns what is wrong, or None."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from .problems import bad_field

MAX_HEADERS = 16 << 10
MAX_CONTENT_TYPE = 255
_MAX_ID = (1 << 63) - 1

# Patterns match the whole text; /openapi.json shows them.
NAME_PATTERN = "[A-Za-z0-9._-]{1,249}"
"""For topics and groups: at most as long as fits into the name of a folder, `topic=NAME`."""
NO_NAMES = (".", "..")
"""Names that are refused: most clients would shorten a path with one of them, and address the topic instead of its
group."""
ID_PATTERN = "0|[1-9][0-9]{0,18}"
CONTENT_TYPE_PATTERN = f"[!-~][ -~]{{0,{MAX_CONTENT_TYPE - 1}}}"
_NAME, _ID, _CONTENT_TYPE = (re.compile(text) for text in (NAME_PATTERN, ID_PATTERN, CONTENT_TYPE_PATTERN))


def wrong_name(name: str) -> str | None:
    if name in NO_NAMES:
        return "a name is more than one dot or two"
    if _NAME.fullmatch(name) is None:
        return "a name is 1 to 249 letters, digits, dots, underscores and hyphens"
    return None


def wrong_client(name: str) -> str | None:
    if name.isprintable() and 0 < len(name.encode()) <= 255:
        return None
    return "a client's name is 1 to 255 bytes, all of them printable"


def wrong_label(label: str, limit: int) -> str | None:
    """Checks a key, an ordering key, a tag or an idempotency key."""
    size = len(label.encode())
    if 0 < size <= limit:
        return None
    return f"it has {size} bytes, and may have 1 to {limit}"


def wrong_headers(headers: Mapping[str, str]) -> str | None:
    if "" in headers:
        return "a header needs a name"
    if len(msgspec.json.encode(headers)) > MAX_HEADERS:
        return f"together they may have {MAX_HEADERS} bytes as JSON"
    return None


def wrong_content_type(content_type: str) -> str | None:
    """Checks the content type of a body in base64."""
    if _CONTENT_TYPE.fullmatch(content_type):
        return None
    return f"it is 1 to {MAX_CONTENT_TYPE} printable ASCII characters, such as image/png"


def parse_id(text: str) -> int | None:
    """The id, or None if the text cannot be one."""
    id_ = int(text) if _ID.fullmatch(text) else None
    return id_ if id_ is not None and id_ <= _MAX_ID else None


def parse_ids(texts: Sequence[str] | None, pointer: str = "/ids") -> tuple[int, ...] | None:
    """The ids of a settlement, each once; None means all, and no ids means none."""
    if texts is None:
        return None
    ids: dict[int, None] = {}
    for index, text in enumerate(texts):
        id_ = parse_id(text)
        if id_ is None:
            raise bad_field(f"{pointer}/{index}", "it is no message's id")
        ids[id_] = None
    return tuple(ids)
