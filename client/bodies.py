"""Requests as JSON. A user's own `json` writes bodies, and nothing else."""

import json as json_
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from attrs import evolve

from .records import Draft, Receipt

_ENCODER = json_.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

Dumps = Callable[[Any], str | bytes]
"""From a body to JSON: `orjson.dumps`, `msgspec.json.encode`, `partial(json.dumps, default=str)`."""


def written(draft: Draft, json: Dumps | None, **more: Any) -> bytes:
    """The message as the server takes it, and `more` members beside it."""
    if json is None or isinstance(draft.body, bytes | bytearray) or draft.content_type is not None:
        return encode(draft.wire() | more)
    rest = evolve(draft, body=None).wire() | more
    del rest["body"]
    return b'{"body":%b%b' % (body_text(draft.body, json), b"," + encode(rest)[1:] if rest else b"}")


def body_text(body: Any, json: Dumps | None) -> bytes:
    """A body that is no bytes, as JSON."""
    if json is None:
        return encode(body, "body")
    text = cast("object", json(body))  # users are not all typed
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes):
        return text
    raise TypeError(f"json: it gave an object of type {type(text).__name__}, and gives JSON as str or bytes")


def encode(document: Any, name: str = "") -> bytes:
    """JSON in UTF-8. Errors name the part that is wrong, which begins with `name`.

    NaN, infinities and lone surrogates have no place in it: ValueError. What is no JSON value: TypeError.
    """
    try:
        text = _ENCODER.encode(document)
    except TypeError as error:
        raise TypeError(_foreign(document, name) or str(error)) from error
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{_torn(document) or 'the text'} has half a character in it ({error.object[error.start]!r}): surrogates "
            'come in pairs. Take bytes, or .encode("utf-8", "replace")'
        ) from error


def _torn(value: Any, path: str = "") -> str | None:
    """The path of the first text in a document that is not Unicode."""
    if isinstance(value, str):
        return path if any("\ud800" <= letter <= "\udfff" for letter in value) else None
    if isinstance(value, dict) and any(_torn(name, "x") for name in cast("Mapping[Any, Any]", value)):
        return f"a name in {path or 'the document'}"
    return next((found for name, member in _members(value, path) if (found := _torn(member, name)) is not None), None)


def _foreign(value: Any, path: str) -> str | None:
    """The first value in a document that JSON does not have, by its path, and what to write for it."""
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
    """Its members, with their paths."""
    if isinstance(value, dict):
        members = cast("Mapping[Any, Any]", value).items()
        return ((f"{path}.{name}" if path else str(name), member) for name, member in members)
    if isinstance(value, list | tuple):
        return ((f"{path}[{index}]", item) for index, item in enumerate(cast("Iterable[Any]", value)))
    return ()
