"""Calls of the API as plain values: the request, and how its answer is read; names as parts of paths. Pure.

`claims` and `operations` make them; `transport` sends them.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar, cast
from urllib.parse import quote

from attrs import field, frozen

from .errors import BadRequest, TarryError

T = TypeVar("T")


@frozen
class Reply:
    """A successful answer."""

    document: dict[str, Any]
    size: int
    """Bytes of the answer."""
    in_doubt: bool = False
    """An earlier try of this call, whose answer was lost, may have done what was asked."""
    text: str = ""
    """The answer, if it is text for Prometheus."""


@lru_cache
def part(name: str) -> str:
    """A name as a segment of a path.

    Raises `BadRequest` for one that leads elsewhere: HTTP turns `groups/..` into the topic above.
    """
    given = cast("object", name)  # users are not all typed
    if not isinstance(given, str):
        raise BadRequest(f"{given!r} cannot stand in an address: write text, such as {str(given)!r}")
    if name in ("", ".", ".."):
        raise BadRequest(f"{name!r} cannot stand in an address, and is the name of nothing")
    return quote(name, safe="")


def group_path(topic: str, group: str) -> str:
    """The path of a group."""
    return f"/v1/topics/{part(topic)}/groups/{part(group)}"


def document_of(reply: Reply) -> dict[str, Any]:
    """Reads an answer as it is."""
    return reply.document


class Answers(Protocol):
    """Reads the answer to a shared request as it comes in. Raises `ValueError` if it is malformed."""

    def feed(self, piece: bytes, /) -> Sequence[Reply | TarryError]:
        """The answers that this piece completes, in the order of what was asked."""
        ...

    def end(self) -> Sequence[Reply | TarryError]:
        """The answers that the end completes."""
        ...


@frozen
class Form:
    """How calls are combined into a shared request."""

    media_type: str
    """Of the request, and of its answer."""
    content: Callable[[Sequence[bytes]], bytes]
    """Makes the request's body."""
    answers: Callable[[], Answers]
    """Makes a reader for the answer to one request."""


@frozen
class Share:
    """The part of a call in a request that it shares with others."""

    place: Hashable
    """Calls for the same place go together."""
    path: str
    form: Form
    content: bytes
    size: int
    """Bytes that it counts for in the request."""


@frozen
class Call(Generic[T]):
    """One call, which may be sent again."""

    method: str
    path: str
    read: Callable[[Reply], T]
    content: bytes | None = None
    """JSON."""
    params: Mapping[str, str | int] | None = field(default=None, kw_only=True)
    wait: float = field(default=0.0, kw_only=True)
    """Seconds that the server may take to answer, on top of the time-out."""
    once: bool = field(default=False, kw_only=True)
    """The call is not tried again."""
    headers: Mapping[str, str] | None = field(default=None, kw_only=True)
    """Headers of this call alone, in ASCII."""
    share: Share | None = field(default=None, kw_only=True)
    """How the call may go together with others; None if it goes alone."""


@frozen
class Page(Generic[T]):
    """A part of an answer, and the call for the next; None after the last."""

    items: tuple[T, ...]
    next: Call["Page[T]"] | None


def paged(
    path: str, params: Mapping[str, str | int | None], read: Callable[[dict[str, Any]], Iterable[T]]
) -> Call[Page[T]]:
    """The call for the first page; params that are None are left out."""

    def page(reply: Reply) -> Page[T]:
        cursor: str | None = reply.document.get("cursor")
        items = tuple(read(reply.document))
        return Page(items, None if cursor is None else paged(path, {**params, "cursor": cursor}, read))

    return Call("GET", path, page, params={name: value for name, value in params.items() if value is not None})
