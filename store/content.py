"""A message's content: what it may have beside its body, declared once; and what of it is kept as JSON, read.

`Attributes` is the declaration. Drafts, rows and what is handed out inherit it; SQL, columns and checks are made of its
names when they are imported. What others spell (requests, answers, the client, options) is held against it by
tests/acceptance/test_attributes.py.

Every door checks what comes in. What lies in a table all the same, by somebody's own SQL or from a program of before,
must not spoil the answer that it is a part of: there it goes as bytes, or not at all.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, Final, get_args, get_type_hints

import msgspec

Label = Annotated[str, "label"]
"""1 to 255 bytes of UTF-8."""


class Attributes(msgspec.Struct, frozen=True):
    """What a message may have beside its body. A new one stands last, is a column of the tables `delay`, `message` and
    `dead`, and is in `SINCE`."""

    key: Label | None = None
    ordering_key: Label | None = None
    tag: Label | None = None
    headers: bytes | None = None
    """A JSON object, or None."""
    content_type: str | None = None
    """None: the body is JSON text. Otherwise the type of the bytes."""
    expires_at: int | None = None
    """From then on it is not handed out any more, Unix milliseconds; None: always."""


class Content(Attributes, frozen=True):
    """What of a message is the same wherever it lies. In a record it takes the place of its columns."""

    # It has defaults since what comes after one has.
    body: bytes = b""
    accepted_at: int = 0
    deliver_at: int = 0


ATTRIBUTES: Final = Attributes.__struct_fields__
_KINDS: Final = {name: get_args(kind) for name, kind in get_type_hints(Attributes, include_extras=True).items()}
LABELS: Final = tuple(name for name, kinds in _KINDS.items() if Label in kinds)
TEXTS: Final = (*LABELS, *(name for name, kinds in _KINDS.items() if str in kinds))
NUMBERS: Final = tuple(name for name, kinds in _KINDS.items() if int in kinds)
SINCE: Final = {"expires_at": 16}
"""The migrations that brought those that were not there from the first. An older server loses them."""
LATER: Final = tuple(SINCE)
FIRST: Final = tuple(name for name in ATTRIBUTES if name not in SINCE)


def _made(expression: str) -> Callable[[Attributes], Any]:
    """As if it were written out for each attribute: it is asked for each message, and a loop takes three times as
    long."""
    return eval(f"lambda of: {expression}")  # type: ignore[no-any-return]  # noqa: S307  # of declared names


is_bare: Callable[[Attributes], bool] = _made(" and ".join(f"of.{name} is None" for name in ATTRIBUTES))
"""Whether it has none of them."""
_VALUES: Final = ", ".join(
    f"None if of.{name} is None else of.{name}.encode()" if name in TEXTS else f"of.{name}" for name in ATTRIBUTES
)
columns: Callable[[Attributes], tuple[bytes | int | None, ...]] = _made(f"({_VALUES})")
"""The values of their columns."""


def any_of(*names: str) -> Callable[[Attributes], bool]:
    """Whether something has one of these."""
    return _made(" or ".join(f"of.{name} is not None" for name in names) or "False")


def picker(*names: str) -> Callable[[object], dict[str, Any]]:
    """Of these fields of a thing, two at least, gives those that are not None, by their names."""
    get, none = attrgetter(*names), (None,) * len(names)

    def picked(of: object) -> dict[str, Any]:
        values = get(of)
        if values == none:
            return {}
        return {name: value for name, value in zip(names, values, strict=True) if value is not None}

    return picked


BYTES: Final = "application/octet-stream"
"""The type of bytes of which nothing else is known."""

_read = msgspec.json.Decoder(msgspec.Raw).decode
_read_headers = msgspec.json.Decoder(dict[str, str]).decode
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def as_json(body: bytes) -> msgspec.Raw | None:
    """As a part of an answer; None where it is not one JSON value in UTF-8.

    Of a body that is well a third of a microsecond: it is asked for each message that is handed out.
    """
    try:
        raw = _read(body)
        if not body.isascii():
            body.decode()
    except _WRONG:
        return None
    return raw


def headers_of(headers: bytes | None) -> dict[str, str] | None:
    """Names and values; None where there are none, or where they are no JSON object of texts."""
    if headers is None:
        return None
    try:
        return _read_headers(headers)
    except _WRONG:
        return None
