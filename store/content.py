"""A message's content: what it may have beside its body, declared once; and what of it is kept as JSON, read.

`Attributes` is the declaration. Drafts, rows and what is handed out inherit it; SQL, columns and checks are made of its
names when they are imported. What others spell (requests, answers, the client, options) is held against it by
tests/acceptance/test_attributes.py.

Every door checks what comes in. What lies in a table all the same, by somebody's own SQL or from a program of before,
must not spoil the answer that it is a part of: there it goes as bytes, or not at all.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final, TypeVar, get_args, get_type_hints

import msgspec

R = TypeVar("R")
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
"""The migrations that brought those that were not there from the first."""
LATER: Final = tuple(SINCE)
FIRST: Final = tuple(name for name in ATTRIBUTES if name not in SINCE)
"""Those that were; in the tables of a lake they stand before the others."""


def _written_out(function: str, **known: Any) -> Any:
    """As if it were written out for each attribute: it is asked for each message, and a loop takes three times as
    long."""
    return eval(f"lambda {function}", known)  # noqa: S307  # of declared names


def any_of(*names: str) -> Callable[[object], bool]:
    """Whether something has one of these."""
    return _written_out("of: " + (" or ".join(f"of.{name} is not None" for name in names) or "False"))  # type: ignore[no-any-return]


def all_fit(*labels: str) -> Callable[[object, Callable[[str, int], str | None], int], bool]:
    """Whether nothing is wrong with those of these labels that something has."""
    fit = [f"of.{name} is None or wrong(of.{name}, limit) is None" for name in labels]
    return _written_out("of, wrong, limit: " + " and ".join(f"({one})" for one in fit))  # type: ignore[no-any-return]


_HAS_ONE: Final = " or ".join(f"of.{name} is not None" for name in ATTRIBUTES)
are_bare: Callable[[Iterable[Attributes]], bool] = _written_out(f"some: not [1 for of in some if {_HAS_ONE}]")
"""Whether they have none of them."""
_VALUES: Final = ", ".join(
    f"None if of.{name} is None else of.{name}.encode()" if name in TEXTS else f"of.{name}" for name in ATTRIBUTES
)
columns: Callable[[Attributes], tuple[bytes | int | None, ...]] = _written_out(f"of: ({_VALUES})")
"""The values of their columns."""


def builder(record: Callable[..., R], copied: Iterable[str], given: Iterable[str]) -> Callable[..., R]:
    """Makes one out of a thing, of which these fields are copied, and what is given beside, in this order."""
    fields = ", ".join([*(f"{name}=of.{name}" for name in copied), *(f"{name}={name}" for name in given)])
    return _written_out(f"of, {', '.join(given)}: record({fields})", record=record)  # type: ignore[no-any-return]


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
