"""Requests and responses of HTTP/1.1, as plain values and as bytes; httptools (llhttp) parses them. Pure."""

from collections.abc import Mapping
from urllib.parse import urlencode

import httptools
from attrs import field, frozen
from httpcore import RemoteProtocolError

_LONGEST_HEAD = 256 << 10
"""Bytes."""
_WITH_CONTENT = ("POST", "PUT", "PATCH")
"""Methods whose requests give a length even if they have no content."""


@frozen
class Request:
    """A request to a server."""

    method: str
    path: str
    """Quoted, relative to the server's address."""
    content: bytes | None = None
    media_type: str | None = None
    params: Mapping[str, str | int] | None = field(default=None, kw_only=True)
    headers: Mapping[str, str] | None = field(default=None, kw_only=True)
    """Headers beside those of every request, in ASCII."""
    wait: float = field(default=0.0, kw_only=True)
    """Seconds that the answer may take, on top of the time-out."""


@frozen
class Response:
    """The response of a server."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case, or regardless of case."""
    content: bytes = b""

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


def written(request: Request, prefix: bytes, common: bytes) -> bytes:
    """A request as bytes. `prefix` is the path of the server's address, `common` are the headers of every request."""
    target = request.path if not request.params else f"{request.path}?{urlencode(request.params)}"
    content = request.content
    kind = b"" if request.media_type is None else b"Content-Type: %b\r\n" % request.media_type.encode()
    length = b"" if content is None and request.method not in _WITH_CONTENT else b"%d" % len(content or b"")
    if length:
        length = b"Content-Length: %b\r\n" % length
    own = b"".join([b"%b: %b\r\n" % (n.encode(), value.encode()) for n, value in (request.headers or {}).items()])
    head = b"%b %b%b HTTP/1.1\r\n%b%b%b%b\r\n"
    return head % (request.method.encode(), prefix, target.encode(), common, kind, own, length) + (content or b"")


class ResponseReader:
    """The responses on one connection, one after the other. `begin` each, `feed` it until it is `whole`."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Prepares for the next response."""
        self.head: Response | None = None
        """The response without its content."""
        self.whole = False
        self.keeps = False
        """Whether another request may follow on the connection; known when the response is whole."""
        self._before = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Takes the next bytes of the connection, none at its end; returns the pieces of content that came with them.

        Raises `RemoteProtocolError` if they are no response, or if one is cut off.
        """
        if data:
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                if not self.whole:
                    raise RemoteProtocolError(f"the answer is not HTTP: {error}") from error
                self.keeps = False  # bytes after a whole response belong to no request
            self._bound(len(data))
        else:
            self._end()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _bound(self, more: int) -> None:
        """Limits what comes before a response's content, and is kept in memory: headers and interim responses."""
        if self.head is None:
            self._before += more
            if self._before > _LONGEST_HEAD:
                raise RemoteProtocolError(f"the answer has more than {_LONGEST_HEAD >> 10} KiB before its content")

    def _end(self) -> None:
        if self.head is None:
            raise RemoteProtocolError("Server disconnected without sending a response.")
        if "content-length" in self._headers or "transfer-encoding" in self._headers:
            raise RemoteProtocolError("the connection was closed within the answer")
        self.whole = True

    # Called by httptools

    def on_message_begin(self) -> None:
        # A response after this one was not asked for.
        self.keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if not self.whole:
            self.head = Response(self._parser.get_status_code(), self._headers)

    def on_body(self, body: bytes) -> None:
        if not self.whole:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self.whole:
            return
        if self.head is not None and self.head.status < 200:  # 100 Continue, 103 Early Hints: it is interim
            before = self._before
            self.begin()
            self._before = before
            return
        self.whole = True
        self.keeps = self._parser.should_keep_alive()
