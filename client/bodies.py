"""A draft as the bytes of a request. Whoever gives a `json` of their own writes bodies with it, and nothing else."""

from collections.abc import Callable
from typing import Any, cast

from attrs import evolve

from .records import Draft
from .transport import encode

Dumps = Callable[[Any], str | bytes]
"""From a body to JSON: `orjson.dumps`, `msgspec.json.encode`, `partial(json.dumps, default=str)`."""


def written(draft: Draft, json: Dumps | None, **more: str) -> bytes:
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
