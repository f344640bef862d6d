"""A message's content: its attributes, declared once; and reading bodies and headers, which are kept as JSON.

`Attributes` is the declaration. Drafts, rows and delivered messages inherit it; SQL, columns and checks are made from
its names when they are imported. Where the names are written out (requests, answers, the client, options),
tests/acceptance/test_attributes.py checks them against it.

Every entrance checks its input. A table may hold invalid values all the same, written by SQL from outside or by an
older program. They must not spoil the answer that they are a part of: an invalid body goes out as bytes, invalid
headers are left out.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, TypeVar, get_args, get_type_hints

import msgspec

R = TypeVar("R")
Label = Annotated[str, "label"]
"""1 to 255 bytes of UTF-8."""


class Attributes(msgspec.Struct, frozen=True):
    """What a message may have beside its body. A new attribute comes last, is a column of the tables `delay`, `message`
    and `dead`, and is listed in `SINCE`."""

    key: Label | None = None
    ordering_key: Label | None = None
    tag: Label | None = None
    headers: bytes | None = None
    """A JSON object, or None."""
    content_type: str | None = None
    """None: the body is JSON text. Otherwise the type of the bytes."""
    expires_at: int | None = None
    """From this time on the message is not handed out any more, Unix milliseconds; None: it never expires."""


class Content(Attributes, frozen=True):
    """The part of a message that is the same in every table. In a type of rows, one field of this type stands for all
    its columns."""

    # Defaults are needed, since the inherited fields before these have defaults.
    body: bytes = b""
    accepted_at: int = 0
    deliver_at: int = 0


ATTRIBUTES: Final = Attributes.__struct_fields__
_KINDS: Final = {name: get_args(kind) for name, kind in get_type_hints(Attributes, include_extras=True).items()}
LABELS: Final = tuple(name for name, kinds in _KINDS.items() if Label in kinds)
TEXTS: Final = (*LABELS, *(name for name, kinds in _KINDS.items() if str in kinds))
NUMBERS: Final = tuple(name for name, kinds in _KINDS.items() if int in kinds)
SINCE: Final = {"expires_at": 16}
"""For each attribute that was added later, the migration that added it."""
LATER: Final = tuple(SINCE)
FIRST: Final = tuple(name for name in ATTRIBUTES if name not in SINCE)
"""Attributes that were there from the beginning; in the tables of a lake they come before the others."""


def _written_out(function: str, **known: Any) -> Any:
    """Compiles a function in which the attributes are written out: it runs for each message, and a loop takes three
    times as long."""
    return eval(f"lambda {function}", known)  # noqa: S307  # of declared names


def any_of(*names: str) -> Callable[[object], bool]:
    """A function that tells whether its argument has any of these attributes."""
    return _written_out("of: " + (" or ".join(f"of.{name} is not None" for name in names) or "False"))  # type: ignore[no-any-return]


def all_fit(*labels: str) -> Callable[[object, Callable[[str, int], str | None], int], bool]:
    """A function that tells whether all of these labels that its argument has are valid."""
    fit = [f"of.{name} is None or wrong(of.{name}, limit) is None" for name in labels]
    return _written_out("of, wrong, limit: " + " and ".join(f"({one})" for one in fit))  # type: ignore[no-any-return]


_HAS_ONE: Final = " or ".join(f"of.{name} is not None" for name in ATTRIBUTES)
are_bare: Callable[[Iterable[Attributes]], bool] = _written_out(f"some: not [1 for of in some if {_HAS_ONE}]")
"""Whether these messages have no attributes at all."""
_VALUES: Final = ", ".join(
    f"None if of.{name} is None else of.{name}.encode()" if name in TEXTS else f"of.{name}" for name in ATTRIBUTES
)
columns: Callable[[Attributes], tuple[bytes | int | None, ...]] = _written_out(f"of: ({_VALUES})")
"""The values of the attributes' columns."""


def builder(record: Callable[..., R], copied: Iterable[str], given: Iterable[str]) -> Callable[..., R]:
    """A function that makes a `record` from an object, whose fields `copied` are taken over, and from further arguments
    for the fields `given`, in this order."""
    fields = ", ".join([*(f"{name}=of.{name}" for name in copied), *(f"{name}={name}" for name in given)])
    return _written_out(f"of, {', '.join(given)}: record({fields})", record=record)  # type: ignore[no-any-return]


BYTES: Final = "application/octet-stream"
"""The content type of bytes of unknown type."""

_read = msgspec.json.Decoder(msgspec.Raw).decode
_read_headers = msgspec.json.Decoder(dict[str, str]).decode
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def as_json(body: bytes) -> msgspec.Raw | None:
    """The body as a part of a JSON answer; None if it is not one JSON value in UTF-8.

    A valid body takes a third of a microsecond, which matters since this runs for each message that is handed out.
    """
    try:
        raw = _read(body)
        if not body.isascii():
            body.decode()
    except _WRONG:
        return None
    return raw


def headers_of(headers: bytes | None) -> dict[str, str] | None:
    """The headers by name; None if there are none, or if they are not a JSON object of strings."""
    if headers is None:
        return None
    try:
        return _read_headers(headers)
    except _WRONG:
        return None
