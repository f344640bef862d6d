"""One request and its answer: translates between the app's ASGI messages and HTTP/1.

An answer in pieces may begin before the whole request has come; the app goes on receiving meanwhile in another task.
"""

import trio
from attrs import define, field

from ...errors import Overloaded, Stopping
from ..problems import Problem
from .channel import Channel
from .heads import CONTINUE, head
from .parser import End, Head
from .ports import Kept, Message
from .terms import Limits, Terms

BODY_PACE = 64 << 10
"""Bytes for which a body is given another second: a client that sends byte by byte must not hold its connection and
memory."""
_LITTLE = 64 << 10
"""The most bytes of an unwanted body that are read and dropped, so that the connection can be kept."""
LITTLE_TIME = 1.0
"""Seconds to read them."""
_NO_BODY = (204, 304)
_TOGETHER = 64 << 10
"""The longest body that is sent in one piece with the head; joining a longer one would copy it."""
_NO_MORE = "the server is stopping: it has read no more than this"


class AppFault(RuntimeError):
    """The app violates ASGI, or the length that it has stated."""


@define(eq=False)
class Exchange:
    """`receive` and `send` are for the app; `end` is called when it has returned."""

    _channel: Channel
    _head: Head
    _terms: Terms
    _address: tuple[str, int] | None = None
    """The client's address."""
    keeps: bool = field(init=False)
    """Whether another request may follow on the connection."""

    # Its client
    _limits: Limits = field(init=False)
    _client: str = field(default="", init=False)
    """Its name among the clients that share limits: that of its key, or its address."""
    _untaken: int = field(default=0, init=False)
    """Bytes of its answer that are counted as held."""

    # The request
    _complete: bool = field(default=False, init=False)
    """Whether the whole request has come."""
    _read: bool = field(default=False, init=False)
    """Whether the app has received the end of the request."""
    _expects: bool = field(init=False)
    """Whether the client waits for a 100 (Continue)."""
    _until: float = field(default=0.0, init=False)
    """When the body must have come; 0 until the app waits for it."""
    _asked: bool = field(default=False, init=False)
    """Whether the app has asked for the body."""
    _size: int = field(default=0, init=False)
    """Bytes of the body so far that count as held: until the answer, unless the app has said that it is done with
    them."""
    _by_pieces: bool = field(default=False, init=False)
    """Whether the app takes the body in pieces, and keeps little of it."""
    _receiving: trio.CancelScope | None = field(default=None, init=False)
    """The scope of the last wait for a piece."""

    # The answer
    _status: int = field(default=0, init=False)
    _headers: list[tuple[bytes, bytes]] = field(factory=list[tuple[bytes, bytes]], init=False)
    _sent: bool = field(default=False, init=False)
    """Whether the head of the answer has been sent."""
    _left: int | None = field(default=None, init=False)
    """Bytes of the answer's body that are still to be sent; None if chunks or the end of the connection delimit it."""
    _chunked: bool = field(default=False, init=False)
    _ended: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.keeps, self._expects = self._head.keeps, self._head.expects
        self._limits = self._terms.keyless
        if self._head.length == 0:  # the request ends with its head
            self._channel.events.popleft()
            self._complete = True

    # The client's credit: see `ports.Credit`

    def know(self, client: str) -> None:
        if self._limits is self._terms.keyless:
            size = self._size
            if size:
                self._keep(0)
            self._limits = self._terms.keyed
            if size:
                self._keep(size)
            # The blank tells addresses from names of keys, which have none.
            self._client = client or (f" {self._address[0]}" if self._address else " ")

    def check(self) -> None:
        self._limits.untaken.check(self._client)

    def hold(self, size: int) -> None:
        self._limits.untaken.check(self._client, size)
        self._hold(size)

    def _hold(self, size: int) -> None:
        self._limits.untaken.hold(self._client, size)
        self._untaken += size

    def free(self, size: int) -> None:
        self._limits.untaken.free(self._client, size)
        self._untaken -= size

    # The request

    async def receive(self) -> Message:
        """Receives the next piece of the body; after the last, waits for the client to leave. Raises `Problem`,
        `Stopping` and `Overloaded`."""
        if self._read:
            await self._channel.until_gone()
            return {"type": "http.disconnect"}
        piece = b"" if self._complete else await self._piece()
        if piece is None:
            return {"type": "http.disconnect"}
        self._read = self._complete
        return {"type": "http.request", "body": piece, "more_body": not self._complete}

    def taken(self, kept: int) -> None:
        """See `ports.Taken`."""
        self._by_pieces = True
        self._keep(kept)
        self._until = trio.current_time() + self._terms.body_time + kept / BODY_PACE

    def _keep(self, size: int) -> None:
        self._limits.incoming.held += size - self._size
        self._size = size

    def finish(self, by: float) -> None:
        """Stops reading, at the time `by`, a body that the app takes in pieces, because the server stops."""
        if self._by_pieces and self._receiving is not None:
            self._receiving.deadline = min(self._receiving.deadline, by)

    async def _piece(self) -> bytes | None:
        """The next piece of an incomplete body, waiting for it if needed; None if the client is gone."""
        if not self._asked:
            self._asked = True
            self._limits.incoming.check(self._size, self._head.length or 0)
        events = self._channel.events
        if not events:
            if self._expects and not self._sent:
                self._expects = False
                await self._channel.write(CONTINUE)
            if not await self._more():
                return None
        self._expects = False
        piece = b""
        if isinstance(events[0], bytes):
            piece = events[0]
            events.popleft()
        if events and isinstance(events[0], End):
            events.popleft()
            self._complete = True
        self._limits.incoming.check(self._size, len(piece))
        self._keep(self._size + len(piece))
        if self._until:
            self._until += len(piece) / BODY_PACE
        return piece

    async def _more(self) -> bool:
        """Waits for an event of the body; False if the client has closed its side. Bytes may come without an event,
        such as the size of a chunk."""
        if self._by_pieces and self._terms.closing:
            raise Stopping(_NO_MORE)
        if not self._until:
            self._until = trio.current_time() + self._terms.body_time + self._size / BODY_PACE
        with trio.CancelScope(deadline=self._until) as self._receiving:
            while not self._channel.events:
                if self._channel.parser.refused is not None:  # the refused bytes may have come with the head
                    raise self._channel.parser.refused
                if not await self._channel.more():
                    return False
            return True
        if self._by_pieces and self._terms.closing:
            raise Stopping(_NO_MORE)
        seconds, kib = f"{self._terms.body_time:g} s", BODY_PACE >> 10
        detail = f"the body did not come within {seconds} and a second for each {kib} KiB of it"
        raise Problem("too-slow", detail, executed=False, headers={"Connection": "close"})

    async def _drop_rest(self) -> None:
        """Reads and drops the rest of the body if it is short; else the connection ends with the answer."""
        left = _LITTLE - (self._head.length or 0)
        self._keep(0)
        with trio.move_on_after(LITTLE_TIME):
            while not self._complete and left >= 0 and (not self._expects or self._channel.events):
                if self._head.length is None and not self._channel.events:
                    break  # nobody knows how many chunks will come
                piece = await self._piece()
                self._keep(0)
                if piece is None:
                    break
        self.keeps = self.keeps and self._complete

    # The answer

    async def send(self, message: Message) -> None:
        """Sends a part of the answer. Raises `AppFault` or `ValueError` rather than send a malformed answer."""
        if message["type"] == "http.response.start":
            if self._status:
                raise AppFault("a second answer to one request")
            self._status, self._headers = message["status"], list(message.get("headers", ()))
            await self._terms.pace.turn()
        elif message["type"] == "http.response.body":
            if not self._status or self._ended:
                raise AppFault("a body before the answer's head, or behind its end")
            await self._send_body(message.get("body", b""), more=message.get("more_body", False))

    async def _send_body(self, piece: bytes, *, more: bool) -> None:
        data = b""
        if not self._complete and not more:
            await self._drop_rest_of_body()
        if not self._sent:
            data = self._answer_head(len(piece), more=more)
        if self._left is not None:
            self._left -= len(piece)
            if self._left < 0 or (self._left and not more):
                raise AppFault("the answer's body has another length than its head says")
        self._ended = not more
        if self._head.method == "HEAD" or self._status in _NO_BODY:
            piece = b""
        elif self._chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            piece += b"" if more else b"0\r\n\r\n"
        size = 0 if isinstance(piece, Kept) else len(piece)
        if data and len(piece) > _TOGETHER:
            left = self._channel.write_now(data)
            if left:
                await self._write_rest(size, left, piece)
                piece = b""
        elif data:
            piece = data + piece
        if left := self._channel.write_now(piece):
            await self._write_rest(size, left)
        if more and self._channel.lost:
            raise trio.BrokenResourceError("the client takes nothing of the answer")

    async def _write_rest(self, size: int, *left: memoryview | bytes) -> None:
        """Sends the rest of a piece that the client does not take at once; the whole piece counts as held until it
        does."""
        more = max(0, size - self._untaken)
        try:
            if self._limits is self._terms.keyless:
                self.hold(more)
            else:
                self._hold(more)
        except Overloaded:
            self._channel.lost = True
            return
        for some in left:
            await self._channel.write_rest(some)
        self.free(more)

    def _answer_head(self, size: int, *, more: bool) -> bytes:
        headers = self._headers
        said = closes = False
        for name, value in headers:
            name = name.lower()
            if name == b"content-length":
                said, self._left = True, int(value)
            elif name == b"connection":
                closes = value.lower() == b"close"
                self.keeps = self.keeps and not closes
        if not said and self._status not in _NO_BODY:
            if not more:
                headers.append((b"content-length", b"%d" % size))
            elif self._head.version == "1.1":
                self._chunked = True
                headers.append((b"transfer-encoding", b"chunked"))
            else:
                self.keeps = False
        if self._terms.closing:
            self.keeps = False
        if not self.keeps and not closes:
            headers.append((b"connection", b"close"))
        self._sent = True
        return head(self._status, headers)

    async def _drop_rest_of_body(self) -> None:
        if any(name.lower() == b"connection" for name, _ in self._headers):
            self.keeps = False
        else:
            try:
                await self._drop_rest()
            except (Problem, Overloaded, Stopping):
                self.keeps = False  # the rest is malformed, came too late, or is too much

    def release(self) -> None:
        """Frees all bytes that the body and the answer count as held."""
        if self._size:
            self._keep(0)
        if self._untaken:
            self.free(self._untaken)

    def end(self) -> None:
        """Ends the exchange after the app has returned. Raises `AppFault` if the app has not answered completely."""
        if not self._ended:
            self.keeps = False
            if not (self._channel.presence.gone or self._channel.ended or self._channel.lost):
                raise AppFault("the app did not answer, or not to the end")
        if not self._complete:
            self.keeps = False
