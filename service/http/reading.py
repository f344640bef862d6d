"""Reading a request's body: no more of it than its limit, and JSON into structs with faults that point to the field."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import msgspec
import msgspec.inspect

from ...client.bodies import TOO_DEEP, is_too_deep
from .asgi import Request
from .problems import Problem, bad_field
from .surrogates import ALONE, pointer_to_lone
from .wording import rule_of

_AT = re.compile(r" - at `(?:key in )?(?P<path>\$[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_CHARSET = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_SHOWN = 100
_LONGER = 4
"""Characters by which a misspelt name may be longer or shorter than the one that is meant."""
_NOTHING_AT_MOST = 1_000
"""Bytes in which somebody may say nothing."""
JSON = "application/json"
_read_any = msgspec.json.Decoder().decode


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request's body."""

    limit: ClassVar[int] = 64 << 10
    """Bytes that a request may have."""
    together: ClassVar[Mapping[str, Any]] = {}
    """JSON Schema of what the types of its fields do not say: which go with which."""


B = TypeVar("B", bound=Body)


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. One that is said to be over the limit is not read at all, and one that turns out to be is cut."""
    _check_headers(request)
    length = request.header(b"content-length") or ""
    if length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > limit):
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limit:
            raise _too_large(limit)
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def refuse_body(request: Request) -> None:
    """Raises a `Problem`, 400, where a body came to a call that takes none: what it says would go unheard. An empty
    object says nothing."""
    if request.header(b"transfer-encoding") is None and (request.header(b"content-length") or "0") == "0":
        return
    came = b""
    more = True
    while more and len(came) <= _NOTHING_AT_MOST:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        came += message.get("body", b"")
        more = message.get("more_body", False)
    if more or came.strip() not in (b"", b"{}"):
        raise Problem("bad-request", "this call takes no body: leave it out, what it says would change nothing")


class ClientGone(Exception):
    """The client closed the connection before it was answered."""


def media_type(request: Request) -> str:
    """What its body is said to be, in lower case and without parameters; JSON unless it is said."""
    return _content_type(request.header(b"content-type") or JSON)[0]


@lru_cache(maxsize=100)
def _content_type(said: str) -> tuple[str, str]:
    """The type and the charset, in lower case; the same few are said all the time."""
    media, _, parameters = said.partition(";")
    charset = _CHARSET.search(parameters)
    return media.strip().lower(), charset[1].lower() if charset else "utf-8"


def _check_headers(request: Request) -> None:
    media = media_type(request)
    if media != JSON and not (media.startswith("application/") and media.endswith("+json")):
        raise Problem("unsupported-media-type", f"send JSON as application/json, not as {media[:_SHOWN]!r}")
    check_coding(request)


def check_coding(request: Request) -> None:
    """Its body is sent as it is, in UTF-8. Raises a `Problem`."""
    if _content_type(request.header(b"content-type") or JSON)[1] not in ("utf-8", "utf8", "us-ascii"):
        raise Problem("unsupported-media-type", "send JSON in UTF-8")
    coding = request.header(b"content-encoding")
    if coding and coding.strip().lower() != "identity":
        raise Problem("unsupported-media-type", "send the body as it is, without Content-Encoding")


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"the request may have {limit} bytes at most", executed=False)


def decode(data: bytes, type_: type[B]) -> B:
    """The struct; an empty body is an empty object."""
    try:
        return msgspec.json.decode(data or b"{}", type=type_)
    except msgspec.ValidationError as error:
        raise _wrong_field(str(error), type_) from None
    except RecursionError:
        raise Problem("bad-request", "the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (pointer := pointer_to_lone(data)) is not None:
            raise bad_field(pointer, ALONE) from None
        raise Problem("bad-request", _malformed(error)) from None


def wrong_json(raw: bytes) -> tuple[str, str] | None:
    """Where and what is wrong with JSON that is passed on as it came: every reader of it must be able to read it."""
    try:
        _read_any(raw)
    except RecursionError:
        return "", TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (pointer := pointer_to_lone(raw)) is not None:
            return pointer, ALONE
        return "", _malformed(error)
    return ("", TOO_DEEP) if is_too_deep(raw) else None


def _malformed(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "the JSON is not UTF-8"
    # Which data, it does not say.
    return "the JSON is truncated" if str(error) == "Input data was truncated" else str(error)


def _wrong_field(text: str, type_: type[Body]) -> Problem:
    at = _AT.search(text)
    path = at["path"] if at else "$"
    pointer = re.sub(r"\.|\[", "/", path[1:].replace("[...]", "").replace("]", ""))
    said = text[: at.start()] if at else text
    if missing := _MISSING.match(said):
        return bad_field(f"{pointer}/{missing['name']}", "it is required")
    if unknown := _UNKNOWN.match(said):
        return _unknown_field(pointer, unknown["name"], _struct_at(path, type_))
    rule = rule_of(said, _types_at(path, type_)) or said[:1].lower() + said[1:]
    return bad_field(pointer, f"of one of its members: {rule}" if path.endswith("[...]") else rule)


def _types_at(path: str, type_: type[Any]) -> list[msgspec.inspect.Type]:
    """What the field may be that a path such as `$.messages[3].queue` leads to; nothing where that is not plain."""
    outer, _, name = path.rpartition(".")
    return _types_of(name, _struct_at(outer, type_))


def _types_of(name: str, struct: type[Any]) -> list[msgspec.inspect.Type]:
    info = msgspec.inspect.type_info(struct)
    fields = info.fields if isinstance(info, msgspec.inspect.StructType) else ()
    waiting = [field.type for field in fields if field.encode_name == name]
    found: list[msgspec.inspect.Type] = []
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.inspect.UnionType):
            waiting += one.types
        elif isinstance(one, msgspec.inspect.Metadata):
            waiting.append(one.type)
        else:
            found.append(one)
    return found


def _unknown_field(pointer: str, name: str, struct: type[Any]) -> Problem:
    shown = f"{pointer}/{name[:_SHOWN].replace('~', '~0').replace('/', '~1')}"
    known = [field.encode_name for field in msgspec.structs.fields(struct)]
    near = get_close_matches(name[:_SHOWN], [one for one in known if abs(len(one) - len(name)) <= _LONGER], 1)
    hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}" if known else "there are none"
    return bad_field(shown, f"unknown field; {hint}")


def _struct_at(path: str, type_: type[Any]) -> type[Any]:
    """The struct that a path such as `$.messages[3]` leads to, by structs and lists of them."""
    for name in re.findall(r"\.([A-Za-z_]+)", path):
        for inner in _types_of(name, type_):
            one = inner.item_type if isinstance(inner, msgspec.inspect.ListType) else inner
            if isinstance(one, msgspec.inspect.StructType):
                type_ = one.cls
    return type_
