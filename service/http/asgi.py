"""A request and its answer over plain ASGI, without a framework."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from urllib.parse import parse_qsl, unquote

from .server.ports import CREDIT, Credit, Kept, Receive, Scope, Send, Unlimited

_UNLIMITED = Unlimited()


class BadAddress(ValueError):
    """The address of a request is not UTF-8. Its text is meant for the client."""

    def __init__(self, part: str) -> None:
        super().__init__(f"the {part} is not UTF-8: encode names and keys as UTF-8, and what is not ASCII as %XX")


class Request:
    """A request, except its body, which `receive` brings in pieces."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self._first: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        """The first header of each name."""
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        """The path, decoded, without the query."""
        self.route = ""
        """The path's template; empty until a route is found."""
        self.parts: Mapping[str, str] = {}
        """The variable parts of the path, by the names that the route gives them."""
        self.key: str | None = None
        """The name of the request's key, empty where none is required; None until it is known."""

    @property
    def segments(self) -> list[str]:
        """The segments of the path, decoded: an encoded slash is part of a name, such as a client's. Raises
        `BadAddress`."""
        raw: bytes = self.scope.get("raw_path") or b""
        if b"%" not in raw and raw.isascii():
            return self.path.split("/")[1:]
        try:
            return [unquote(part, errors="strict") for part in raw.decode("ascii").split("/")[1:]]
        except UnicodeDecodeError:
            raise BadAddress("path") from None

    @property
    def credit(self) -> Credit:
        """The share of the server's memory that its client may use."""
        return self.scope.get(CREDIT) or _UNLIMITED

    def header(self, name: bytes) -> str | None:
        """The first header of this name, which is in lower case."""
        value = self._first.get(name)
        return None if value is None else value.decode("latin-1")

    def headers(self, name: bytes) -> list[bytes]:
        """Every header of this name, which is in lower case."""
        return [value for own, value in self.scope["headers"] if own == name] if name in self._first else []

    @cached_property
    def parameters(self) -> list[tuple[str, str]]:
        """The query's parameters, in order. Raises `BadAddress`."""
        query: bytes = self.scope["query_string"]
        try:
            return parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict") if query else []
        except UnicodeDecodeError:
            raise BadAddress("query") from None

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The query's parameters by name; the last wins if a name occurs several times."""
        return dict(self.parameters)


class Response:
    """A whole answer, which is sent at once."""

    def __init__(
        self, body: bytes = b"", status: int = 200, media_type: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        self.body = body
        self.status = status
        self._headers: list[tuple[bytes, bytes]] = []
        if media_type:
            self._headers.append((b"content-type", media_type.encode()))
        for name, value in (headers or {}).items():
            self._headers.append((name.lower().encode(), value.encode("latin-1")))

    @property
    def size(self) -> int:
        """Bytes of its body that this answer alone keeps in memory: none if the body is shared."""
        return 0 if isinstance(self.body, Kept) else len(self.body)

    def add_header(self, name: str, value: str) -> None:
        self._headers.append((name.lower().encode(), value.encode("latin-1")))

    async def send(self, send: Send) -> None:
        headers = [(b"content-length", b"%d" % len(self.body)), *self._headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Stream(Response):
    """An answer in pieces, made while it is sent and while the request is still being read."""

    def __init__(self, make: Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]], media_type: str) -> None:
        """`make` is called with a function that sends a piece; the answer ends when `make` returns."""
        super().__init__(media_type=media_type)
        self._make = make

    async def send(self, send: Send) -> None:
        """Sends the pieces by ASGI. Raises `OSError` or `trio.BrokenResourceError` if the client does not take them."""

        async def send_piece(piece: bytes) -> None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})

        await send({"type": "http.response.start", "status": self.status, "headers": self._headers})
        await self._make(send_piece)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
