"""Writes requests as JSON. A user's own `json` writes bodies only, and its output is checked before it is sent.

For a request holds many messages, and so does a claim: one body that cannot be read would spoil its neighbours.
"""

import json as json_
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time
from decimal import Decimal
from itertools import accumulate
from typing import Any, cast
from uuid import UUID

import msgspec
from attrs import evolve

from .records import Draft, Receipt

_ENCODER = json_.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

_read_any = msgspec.json.Decoder().decode
_BOM = b"\xef\xbb\xbf"
_NO_NUMBER = re.compile(rb"\b(NaN|Infinity)\b")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_TEXT = re.compile(rb'"(?:[^"\\]+|\\.)*"', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")

MAX_DEPTH = 500
"""Levels of lists and objects in each other. With deeper nesting some readers, such as `json` of Python 3.11, cannot
read the body, nor anything else in the same answer."""

TOO_DEEP = f"it is nested too deeply: {MAX_DEPTH} levels are the most"

Dumps = Callable[[Any], str | bytes]
"""Writes a body as JSON: `orjson.dumps`, `msgspec.json.encode`, `partial(json.dumps, default=str)`."""


def written(draft: Draft, json: Dumps | None, **more: Any) -> bytes:
    """The message as the server takes it, and `more` members beside it."""
    if json is None or isinstance(draft.body, bytes | bytearray) or draft.content_type is not None:
        return encode(draft.wire() | more)
    rest = evolve(draft, body=None).wire() | more
    del rest["body"]
    return b'{"body":%b%b' % (body_text(draft.body, json), b"," + encode(rest)[1:] if rest else b"}")


def body_text(body: Any, json: Dumps | None) -> bytes:
    """A body other than bytes, as JSON that the server takes. Raises `TypeError` and `ValueError`."""
    text = encode(body, "body") if json is None else _given(body, json)
    if (wrong := wrong_json(text)) is not None:
        raise ValueError(f"{'body' if json is None else 'json: what it gave for the body is no JSON'}: {wrong}")
    return text


def _given(body: Any, json: Dumps) -> bytes:
    """The body as JSON by the user's own function. Raises `TypeError` and `ValueError`."""
    text = cast("object", json(body))  # users are not all typed
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"json: it gave an object of type {type(text).__name__}, and gives JSON as str or bytes")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"json: what it gave for the body has half a character in it ({half!r})") from error


def wrong_json(text: bytes) -> str | None:
    """Why this is not one JSON value in UTF-8, as the server reads it; None if it is."""
    try:
        _read_any(text)
    except RecursionError:
        return TOO_DEEP
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except msgspec.DecodeError as error:
        if not text.strip():
            return "it is empty"
        if text.startswith(_BOM):
            return "it begins with a byte order mark: write UTF-8 without one"
        if (found := _NO_NUMBER.search(text)) is not None:
            return f"JSON has no {found[1].decode()}: write null or a text for it"
        if _HALF.search(text) is not None:
            return "it has half of a surrogate pair that stands alone (\\ud800 to \\udfff), which is no character"
        # msgspec does not say which data.
        return "it is cut off" if str(error) == "Input data was truncated" else str(error)
    return TOO_DEEP if is_too_deep(text) else None


def is_too_deep(text: bytes) -> bool:
    """Whether JSON is nested more deeply than `MAX_DEPTH`; levels are counted only if there are so many brackets."""
    if len(text) <= MAX_DEPTH or text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    steps = _TEXT.sub(b"", text).translate(_STEPS, _OTHERS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH


def encode(document: Any, name: str = "") -> bytes:
    """A document as JSON in UTF-8.

    Raises ValueError for NaN, infinities and lone surrogates, and TypeError for values that JSON does not have. Errors
    give the path of the wrong value, which begins with `name`; those for NaN and infinities do not.
    """
    try:
        text = _ENCODER.encode(document)
    except TypeError as error:
        raise TypeError(_foreign(document, name) or str(error)) from error
    except RecursionError as error:
        raise ValueError(f"{name or 'the document'}: it is nested too deeply") from error
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{_torn(document, name) or 'the text'} has half a character in it ({error.object[error.start]!r}): "
            'surrogates come in pairs. Take bytes, or .encode("utf-8", "replace")'
        ) from error


def _torn(value: Any, path: str = "") -> str | None:
    """The path of the first text in a document that has a lone surrogate."""
    if isinstance(value, str):
        return path if any("\ud800" <= letter <= "\udfff" for letter in value) else None
    if isinstance(value, dict) and any(_torn(name, "x") for name in cast("Mapping[Any, Any]", value)):
        return f"a name in {path or 'the document'}"
    return next((found for name, member in _members(value, path) if (found := _torn(member, name)) is not None), None)


def _foreign(value: Any, path: str) -> str | None:
    """Names the path of the first value that JSON does not have, and what to write instead."""
    if value is None or isinstance(value, str | int | float):
        return None
    if isinstance(value, dict | list | tuple):
        return next((found for name, member in _members(value, path) if (found := _foreign(member, name))), None)
    remedy = next((text for kind, text in _REMEDIES if isinstance(value, kind)), "make it of what JSON has")
    return (
        f"{path or 'the document'}: an object of type {type(value).__name__} is not JSON serializable: {remedy}, "
        "or give Tarry(json=...) a function that writes bodies"
    )


_REMEDIES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (Decimal, "send str() or float() of it"),
    (UUID, "send str() of it"),
    ((date, time), "send its .isoformat()"),
    ((bytes, bytearray), "bytes are a body of their own, or base64 in one"),
    ((set, frozenset), "send a list of it"),
    (Receipt, "send its .document()"),
)


def _members(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    """The members of a dict or list, with their paths."""
    if isinstance(value, dict):
        members = cast("Mapping[Any, Any]", value).items()
        return ((f"{path}.{name}" if path else str(name), member) for name, member in members)
    if isinstance(value, list | tuple):
        return ((f"{path}[{index}]", item) for index, item in enumerate(cast("Iterable[Any]", value)))
    return ()
