"""Reads a request's body up to its limit, and decodes JSON into structs, with faults that point to the field."""

import re
from collections.abc import AsyncIterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import msgspec
import msgspec.inspect
import trio

from .asgi import Request
from .depth import MAX_DEPTH, TOO_DEEP, is_too_deep
from .problems import Fault, Problem, bad_field
from .surrogates import ALONE, may_be_lone, pointer_to_lone
from .wording import rule_of

_AT = re.compile(r" - at `(?:key in )?(?P<path>\$[^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_CHARSET = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_SHOWN = 100
_SAID = 200
"""Characters that are kept at the beginning and at the end of msgspec's message, which repeats the input at any
length."""
_FEW = 50_000
"""Commas of a body that is still decoded at once: each but the first item of a list and member of an object has one,
and each may take forty times its bytes in memory."""
_AT_ONCE = 256 << 10
"""Bytes of a list that are decoded before other tasks have their turn."""
_LONGER = 4
"""Characters by which a misspelt name may be longer or shorter than the right one."""
_NOTHING_AT_MOST = 1_000
"""The most bytes of a body that is allowed because it says nothing, such as blanks or an empty object."""
JSON = "application/json"
_read_any = msgspec.json.Decoder().decode


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request's body."""

    limit: ClassVar[int] = 64 << 10
    """The most bytes of the request."""
    together: ClassVar[Mapping[str, Any]] = {}
    """JSON Schema of the rules that the field types do not express: which fields go together."""


B = TypeVar("B", bound=Body)


async def read_body(request: Request, limit: int) -> bytes:
    """Reads the whole body, which must be JSON; see `read_bytes`."""
    _check_headers(request)
    return await read_bytes(request, limit)


async def read_bytes(request: Request, limit: int) -> bytes:
    """Reads the whole body. If its stated length is over the limit, nothing is read; else reading stops at the
    limit."""
    length = request.header(b"content-length") or ""
    if length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > limit):
        raise _too_large(limit)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return b"".join([*pieces, piece]) if pieces else piece
        pieces.append(piece)


def has_body(request: Request) -> bool:
    return request.header(b"transfer-encoding") is not None or (request.header(b"content-length") or "0") != "0"


async def refuse_body(request: Request) -> None:
    """Raises a `Problem`, 400, if the request has a body though the call takes none: it would be ignored. Blanks and an
    empty object are allowed."""
    if not has_body(request):
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


GONE = 499
"""The status under which an answer is counted that the client does not read."""


class ClientGone(Exception):
    """The client closed the connection before it was answered."""


def media_type(request: Request) -> str:
    """The media type of its body, in lower case and without parameters; JSON if none is given."""
    return _content_type(request.header(b"content-type") or JSON)[0]


@lru_cache(maxsize=100)
def _content_type(said: str) -> tuple[str, str]:
    """The type and the charset, in lower case; cached, since the same few values recur."""
    media, _, parameters = said.partition(";")
    charset = _CHARSET.search(parameters)
    return media.strip().lower(), charset[1].lower() if charset else "utf-8"


def _check_headers(request: Request) -> None:
    media = media_type(request)
    if media != JSON and not (media.startswith("application/") and media.endswith("+json")):
        raise Problem("unsupported-media-type", f"send JSON as application/json, not as {media[:_SHOWN]!r}")
    check_coding(request)


def check_coding(request: Request) -> None:
    """Checks that the body is in UTF-8 and has no content encoding. Raises a `Problem`."""
    if _content_type(request.header(b"content-type") or JSON)[1] not in ("utf-8", "utf8", "us-ascii"):
        raise Problem("unsupported-media-type", "send JSON in UTF-8")
    coding = request.header(b"content-encoding")
    if coding and coding.strip().lower() != "identity":
        raise Problem("unsupported-media-type", "send the body as it is, without Content-Encoding")


def _too_large(limit: int) -> Problem:
    return Problem("too-large", f"the request may have {limit} bytes at most", executed=False)


def decode(data: bytes, type_: type[B], within: str = "") -> B:
    """Decodes the struct; `within` is its pointer in the body. An empty body counts as an empty object."""
    try:
        return msgspec.json.decode(data or b"{}", type=type_)
    except msgspec.ValidationError as error:
        raise _wrong_field(str(error), type_, within) from None
    except RecursionError:
        raise Problem("bad-request", "the JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (pointer := pointer_to_lone(data)) is not None:
            raise bad_field(within + pointer, ALONE) from None
        raise Problem("bad-request", _malformed(error, data)) from None


class _Item(msgspec.Struct):
    """An item of a list that is counted while the list is decoded; nothing of it is kept."""

    left: ClassVar[int] = 0
    """How many more items there may be. A class variable is safe: the list is decoded in one go, in the event loop's
    thread."""

    def __post_init__(self) -> None:
        _Item.left -= 1
        if _Item.left < 0:
            raise ValueError("too many")


def is_large(data: bytes) -> bool:
    """Whether a body must be decoded item by item: at once it might take long, and forty times its bytes."""
    return len(data) > _FEW and data.count(b",") > _FEW


def has_more(data: bytes, name: str, most: int) -> bool:
    """Whether the list of this name has more than `most` items; other faults are left to the caller to report."""
    outline = msgspec.defstruct("Outline", [(name, list[_Item])])
    _Item.left = most
    try:
        msgspec.json.decode(data, type=outline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Item.left < 0
    return False


async def decode_each(items: list[msgspec.Raw], type_: type[B], name: str, limit: int) -> AsyncIterator[B]:
    """Decodes the items of the list of this name, each of `limit` bytes at most. Other tasks have their turn in
    between."""
    read = 0
    for index, item in enumerate(items):
        data = bytes(item)
        if len(data) > limit:
            raise too_long(f"/{name}/{index}", len(data), limit)
        yield decode(data, type_, f"/{name}/{index}")
        read += len(data)
        if read > _AT_ONCE:
            read = 0
            await trio.lowlevel.checkpoint()


def too_long(pointer: str, size: int, limit: int) -> Problem:
    """413 for a field."""
    detail = f"it has {size} bytes, and may have {limit}"
    faults = [Fault(detail, pointer=pointer)]
    return Problem("too-large", f"{pointer}: {detail}", faults=faults, executed=False)


def wrong_json(raw: bytes) -> tuple[str, str] | None:
    """The pointer and the fault of JSON that is passed on unchanged, or None: every reader must be able to parse it."""
    try:
        _read_any(raw)
    except RecursionError:
        return "", TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (pointer := pointer_to_lone(raw)) is not None:
            return pointer, ALONE
        return "", _malformed(error, raw)
    # Most bodies are too short to be too deep; saving the call matters with thousands of lines.
    return ("", TOO_DEEP) if len(raw) > MAX_DEPTH and is_too_deep(raw) else None


def _malformed(error: Exception, data: bytes) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "the JSON is not UTF-8"
    # That message does not say which data it means.
    said = "the JSON is truncated" if str(error) == "Input data was truncated" else str(error)
    return f"{said}; or somewhere {ALONE}" if may_be_lone(data) else said


def _wrong_field(text: str, type_: type[Body], within: str) -> Problem:
    if len(text) > 2 * _SAID:
        text = text[:_SAID] + text[-_SAID:]
    at = _AT.search(text)
    path = at["path"] if at else "$"
    pointer = within + re.sub(r"\.|\[", "/", path[1:].replace("[...]", "").replace("]", ""))
    said = text[: at.start()] if at else text
    if missing := _MISSING.match(said):
        return bad_field(f"{pointer}/{missing['name']}", "it is required")
    if unknown := _UNKNOWN.match(said):
        return _unknown_field(pointer, unknown["name"], _struct_at(path, type_))
    rule = rule_of(said, _types_at(path, type_)) or said[:1].lower() + said[1:]
    return bad_field(pointer, f"of one of its members: {rule}" if path.endswith("[...]") else rule)


def _types_at(path: str, type_: type[Any]) -> list[msgspec.inspect.Type]:
    """The types of the field at a path such as `$.messages[3].queue`; empty if that is not clear."""
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
    """The struct at a path such as `$.messages[3]`, which leads through structs and lists of structs."""
    for name in re.findall(r"\.([A-Za-z_]+)", path):
        for inner in _types_of(name, type_):
            one = inner.item_type if isinstance(inner, msgspec.inspect.ListType) else inner
            if isinstance(one, msgspec.inspect.StructType):
                type_ = one.cls
    return type_
