"""Parses bytes into requests: httptools (llhttp) parses strictly, and further violations of HTTP are refused here.

Every refusal ends the connection: after bytes that two parsers may read in two ways nothing can be trusted (RFC 9112,
11.2). `feed` raises nothing; a fault is reported after the requests that came before it.
"""

from collections import deque

import httptools
from attrs import define, field, frozen

from ..problems import Problem

MAX_HEAD = 16 << 10
"""The most bytes of a request line with its headers and trailers; also of the line before a chunk."""
_SLICE = 2 << 10
"""Bytes that are parsed at once unless they are certainly a body: they may be requests that wait behind the first, and
take thirty times as many bytes then. A body is taken whole: its chunks, however small, are joined."""


@frozen(eq=False)
class Head:
    method: str
    target: bytes
    version: str
    """The version of HTTP: 1.0 or 1.1."""
    headers: list[tuple[bytes, bytes]]
    """Headers, their names in lower case."""
    length: int | None
    """Bytes of the body; None if it is chunked."""
    keeps: bool
    """Whether another request may follow on its connection."""
    expects: bool
    """Whether the client waits for a 100 (Continue) before it sends the body."""


class End:
    """Marks the end of a request."""


END = End()


@define(eq=False)
class RequestParser:
    """`feed` turns bytes into `events`: each request is a `Head`, pieces of its body, and `END`."""

    events: deque[Head | bytes | End] = field(factory=deque[Head | bytes | End], init=False)
    refused: Problem | None = field(default=None, init=False)
    """Why nothing more is parsed; requests that came before are in `events`."""
    last: bool = field(default=False, init=False)
    """Whether the last request of the connection has come whole; nothing after it is parsed."""
    over: bool = field(default=False, init=False)
    """Whether bytes came that were not parsed."""

    _target: bytes = field(default=b"", init=False)
    _headers: list[tuple[bytes, bytes]] = field(factory=list[tuple[bytes, bytes]], init=False)
    _size: int = field(default=0, init=False)
    """Bytes of the head and the trailers so far, without an incomplete header."""
    _waiting: int = field(default=0, init=False)
    """Bytes of an unfinished request since the last slice that produced an event: this bounds what llhttp buffers of
    its head and trailers. In the line before a chunk, all its bytes so far."""
    _in_line: bool = field(default=False, init=False)
    """Whether the line before a chunk has begun; it contains no LF."""
    _lines: int = field(default=0, init=False)
    """Complete lines before chunks."""
    _slice: bytes = field(default=b"", init=False)
    """The slice that is being parsed."""
    _begun: int = field(default=0, init=False)
    """Heads that have begun."""
    _ended: int = field(default=0, init=False)
    """Heads that are complete."""
    _head: Head | None = field(default=None, init=False)
    _left: int = field(default=0, init=False)
    """Bytes of the body that have not come yet, if its length is known: so many bytes are certainly body."""
    _pieces: list[bytes] = field(factory=list[bytes], init=False)
    """Pieces of the body that are not in `events` yet."""
    _passes_on: bool = field(default=True, init=False)
    """False while a head is parsed that the client did not send."""
    _parser: httptools.HttpRequestParser = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    @property
    def in_head(self) -> bool:
        """Whether the head of a request has begun, and is not complete."""
        return self._begun > self._ended

    @property
    def has_unread(self) -> bool:
        """Whether the client may still be sending, or has sent more than was parsed."""
        return self.over or self.in_head or self.refused is not None or self._head is not None or bool(self.events)

    def feed(self, data: bytes) -> bytes:
        """Parses the next bytes of the connection; the returned rest must be fed again before later bytes."""
        if len(data) <= _SLICE:  # nearly all are
            self._feed_slice(data)
            if self._pieces:
                self._end_piece()
            return b""
        at, before = 0, self._ended
        while at < len(data) and (not at or (self._head is not None and self._ended - before < 2)):
            size = max(_SLICE, self._left)
            self._feed_slice(data[at : at + size])
            at += size
            if self.last or self.refused is not None:
                self.over = self.over or at < len(data)
                at = len(data)
        if self._pieces:
            self._end_piece()
        return data[at:]

    def close(self) -> None:
        """Ends parsing. The two parsers refer to each other: if the reference stayed, both and all that they have read
        would stay in memory until the garbage collector runs, which is seldom."""
        del self._parser

    def _feed_slice(self, data: bytes) -> None:
        if self.last or self.refused is not None:
            self.over = True
            return
        begun, under_way, self._slice = self._begun, self._head is not None or self._begun > self._ended, data
        told = self._told() if under_way else 0
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if self.last:
                self.over = True
            elif self.refused is None:
                self.refused = _fault(error)
        else:
            if self._in_line:
                self._waiting += len(data) - data.rfind(b"\n") - 1
            elif under_way and self._begun == begun and self._told() == told:  # no event
                self._waiting += len(data)
            else:
                self._waiting = 0
            if self._waiting > MAX_HEAD:
                self.refused = _too_long()

    def _told(self) -> int:
        return len(self.events) + len(self._pieces) + self._lines

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                # A request to upgrade is answered in HTTP/1 instead, as RFC 9110, 7.8 allows. llhttp takes its body for
                # data of the other protocol; fed again as it is, it would be parsed as the next request.
                data = data[upgrade.args[0] :]
                if self._head is not None:
                    self._read_body_of(self._head)
                if not data:
                    return

    def _read_body_of(self, head: Head) -> None:
        framing = b"transfer-encoding: chunked" if head.length is None else b"content-length: %d" % head.length
        self._parser = httptools.HttpRequestParser(self)
        self._passes_on = False
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")
        self._passes_on = True

    # Callbacks of httptools. Errors raised here come out of its feed_data.

    def on_message_begin(self) -> None:
        if self._passes_on:
            self._target, self._headers, self._size = b"", [], 0
            self._begun += 1

    def on_url(self, url: bytes) -> None:
        if self._passes_on:
            self._target += url
            self._size += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header, or ignores a trailer except for its size."""
        if not self._passes_on:
            return
        self._size += len(name) + len(value) + 4
        if self._begun > self._ended:
            self._headers.append((name.lower(), value.rstrip(b" \t")))
        elif self._size > MAX_HEAD:
            self._refuse(_too_long())

    def on_headers_complete(self) -> None:
        """Checks the complete head, and adds it to `events`."""
        if not self._passes_on:
            return
        self._ended += 1
        if self._size > MAX_HEAD:
            self._refuse(_too_long())
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            self._refuse(_wrong_version())
        length: int | None = 0
        expects = False
        hosts = 0
        for name, value in self._headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                if version == "1.0" or length is None:
                    self._refuse(_malformed("Transfer-Encoding is given twice, or in HTTP/1.0"))
                if value.lower() != b"chunked":
                    self._refuse(Problem("not-implemented", "send the body as it is, or chunked", executed=False))
                length = None
            elif name == b"host":
                hosts += 1
            elif name == b"expect":
                expects = version == "1.1" and value.lower() == b"100-continue"
        if hosts != 1 and not (hosts == 0 and version == "1.0"):
            self._refuse(_malformed("there must be one header Host"))
        keeps = version == "1.1" and self._parser.should_keep_alive()
        method = self._parser.get_method().decode("ascii")
        self._head = Head(method, self._target, version, self._headers, length, keeps, expects)
        self._left = length or 0
        self._in_line, self._waiting = length is None, 0
        self.events.append(self._head)

    def on_chunk_header(self) -> None:
        """Ends the line before a chunk."""
        if self._waiting and self._waiting + self._slice.index(b"\n") + 1 > MAX_HEAD:  # it began in an earlier slice
            self._refuse(_too_long())
        self._lines += 1
        self._in_line, self._waiting = False, 0

    def on_chunk_complete(self) -> None:
        """Ends a chunk; the line before the next one begins."""
        self._in_line, self._waiting = True, 0

    def on_body(self, body: bytes) -> None:
        self._left -= len(body)
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Ends the request, unless llhttp calls this because it takes the rest for another protocol."""
        head = self._head
        if head is None or (self._parser.should_upgrade() and head.length != 0):
            return
        if self._pieces:
            self._end_piece()
        self.events.append(END)
        self.last = not head.keeps
        self._head = None
        self._left = 0
        self._in_line = False

    def _end_piece(self) -> None:
        self.events.append(b"".join(self._pieces))
        self._pieces.clear()

    def _refuse(self, problem: Problem) -> None:
        self.refused = problem
        raise ValueError


def _fault(error: httptools.HttpParserError) -> Problem:
    text = str(error)
    if text in ("Invalid HTTP version", "Pause on PRI/Upgrade"):
        return _wrong_version()
    if text == "Content-Length overflow":
        return Problem("too-large", "Content-Length is a number beyond all limits", executed=False)
    return _malformed(text)


def _malformed(why: str) -> Problem:
    return Problem("bad-request", f"this is no request of HTTP/1.1: {why}", executed=False)


def _wrong_version() -> Problem:
    return Problem("http-version", "the server speaks HTTP/1.1 and HTTP/1.0", executed=False)


def _too_long() -> Problem:
    together = f"the request line, the headers and the trailers may have {MAX_HEAD} bytes together"
    detail = f"{together}, and as many what is said of a chunk"
    return Problem("head-too-large", detail, executed=False)
