"""One client's connection: serves its requests, one after the other, and ends it.

It speaks HTTP/1.0 and 1.1, nothing else: an upgrade to HTTP/2 or WebSocket is ignored and the request is answered, as
the standard allows. The app runs in the connection's own task; meanwhile only the parts of a body that it takes are
read. Errors here are raised, and `FrontDoor` contains them.
"""

import re
from math import inf
from urllib.parse import unquote

import trio
from attrs import define, field

from ..problems import Problem
from .channel import Channel
from .exchange import Exchange
from .heads import refusal
from .pace import Line
from .parser import Head
from .ports import ARRIVED, CREDIT, PRESENCE, TAKEN, Scope
from .terms import KEEP_ALIVE, Terms

AFTER_LEAVING = 1.5
"""Seconds for the answer to a client that has closed its side: it may have left, or only send no more; nobody can
tell."""
ON_ITS_WAY = 0.1
"""Seconds in which an idle connection may still bring a request when the server stops."""

_HOST_AND_PATH = re.compile(rb"^([^/?]*)(.*)", re.DOTALL)

Address = tuple[str, int] | None


@define(eq=False)
class Connection:
    """`run` serves until the client or the server ends the connection."""

    _terms: Terms
    _stream: trio.abc.Stream
    descriptor: int | None = None
    """The socket's descriptor, if the stream is the plain socket."""
    _scheme: str = "http"
    client: Address = None
    server: Address = None
    _channel: Channel = field(init=False)
    _serving: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _gone_by: float = field(default=inf, init=False)
    """When the connection ends, if the client has closed its side."""
    _rests: bool = field(default=True, init=False)
    """Whether no request is under way."""
    _had_turn: bool = field(default=False, init=False)
    """Whether the next request was in a crowd, and has had its turn."""
    _line: Line = field(default=Line.NEW, init=False)
    """The line in which the next request waits for its turn."""
    _exchange: Exchange | None = field(default=None, init=False)
    """The request under way."""

    def __attrs_post_init__(self) -> None:
        self._channel = Channel(self._stream, self.descriptor)

    async def run(self) -> None:
        """Serves to the end; the caller closes the stream."""
        try:
            try:
                with self._serving:
                    while (request := await self._next()) is not None and await self._answer(request):
                        pass
            finally:
                self._terms.rests.end(self._serving)
            if self._serving.cancelled_caught and self._rests and self._channel.parser.in_head:
                detail = f"the request's head did not come within {KEEP_ALIVE:g} s"
                await self._channel.write(refusal(Problem("too-slow", detail, executed=False)))
            elif self._serving.cancelled_caught:
                return
            with trio.CancelScope(deadline=self._gone_by):
                await self._channel.linger()
        finally:
            self._channel.close()

    def left(self) -> None:
        """Notes that the client has closed its side: cancels work that waits for it, and gives the rest little time."""
        self._channel.presence.leave()
        self._gone_by = trio.current_time() + AFTER_LEAVING
        self._end_by(self._serving.deadline)

    def finish(self) -> None:
        """Ends the connection as the server stops: the answer under way is the last, and an idle connection is closed.
        Of a body that the app takes in pieces, no more is read than has come."""
        by = trio.current_time() + ON_ITS_WAY
        if self._rests:
            self._end_by(by)
        elif self._exchange is not None:
            self._exchange.finish(by)

    def _end_by(self, time: float) -> None:
        self._serving.deadline = min(time, self._gone_by)

    async def _next(self) -> Head | None:
        channel, self._rests, self._had_turn = self._channel, True, False
        if not channel.events:
            if self._terms.closing:
                self._end_by(trio.current_time() + ON_ITS_WAY)
            else:
                self._terms.rests.begin(self._serving)
        while not channel.events:
            if channel.parser.refused is not None:
                await channel.write(refusal(channel.parser.refused))
                return None
            if channel.parser.last:
                return None
            if not await channel.more(self._turn):
                return None
        self._rests = False
        self._terms.rests.end(self._serving)
        if self._terms.closing:
            self._end_by(inf)
        if not self._had_turn:
            await self._terms.pace.turn(self._line)
        event = channel.events.popleft()
        return event if isinstance(event, Head) else None

    async def _turn(self) -> None:
        """Waits for the turn of bytes that have come, if there is a crowd; the connection does not count as idle
        meanwhile."""
        if not self._terms.pace.has_crowd:
            return  # `_next` waits for its turn before it begins
        self._rests = False
        await self._terms.pace.turn(self._line)
        self._rests = self._had_turn = True
        if self._terms.closing and self._serving.deadline == inf:
            self._end_by(trio.current_time() + ON_ITS_WAY)

    async def _answer(self, request: Head) -> bool:
        """Has the app answer the request; returns whether another request may follow."""
        exchange = self._exchange = Exchange(self._channel, request, self._terms, self.client)
        try:
            await self._terms.app(self._scope(request, exchange), exchange.receive, exchange.send)
        finally:
            exchange.release()
            self._exchange = None
        exchange.end()
        self._line = Line.BEHIND if self._channel.goes_on else Line.KNOWN
        return exchange.keeps and not self._channel.lost

    def _scope(self, request: Head, exchange: Exchange) -> Scope:
        target, headers = request.target, request.headers
        if not target.startswith(b"/"):
            target, headers = _origin_form(target, headers)
        path, _, query = target.partition(b"?")
        text = path.decode("latin-1")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.version,
            "method": request.method,
            "scheme": self._scheme,
            "path": unquote(text) if "%" in text else text,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "client": self.client,
            "server": self.server,
            ARRIVED: self._channel.arrived,
            PRESENCE: self._channel.presence,
            TAKEN: exchange.taken,
            CREDIT: exchange,
        }


def _origin_form(target: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Splits a target with scheme and host, as sent to a proxy: its host replaces the Host header (RFC 9112, 3.2.2)."""
    scheme, found, rest = target.partition(b"://")
    if not found or scheme.lower() not in (b"http", b"https"):
        return target, headers
    host, path = _HOST_AND_PATH.findall(rest)[0]
    path = path if path.startswith(b"/") else b"/" + path
    return path, [*[one for one in headers if one[0] != b"host"], (b"host", host)]
