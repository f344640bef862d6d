"""The byte stream of one client: reads requests from it and writes answers to it, with time limits."""

import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio
from attrs import define, field

from .parser import End, Head, RequestParser
from .ports import Presence

Turn = Callable[[], Awaitable[None]]
"""Returns when it is the caller's turn."""

LINGER = 1.0
"""Seconds to read on after an answer that was sent before the request's end: an immediate close would discard the
answer."""
_LINGER_BYTES = 16 << 20
SENDING = 30.0
"""Seconds for a piece of an answer; a client that takes none of it for so long counts as gone."""
_PIECE = 64 << 10


@define(eq=False)
class Channel:
    """`events` holds requests that have come and were not taken yet; `more` waits for more."""

    _stream: trio.abc.Stream
    _descriptor: int | None = None
    """The socket's descriptor, if the stream is not encrypted: direct system calls are a tenth cheaper than those by
    trio."""
    presence: Presence = field(factory=Presence, init=False)
    arrived: float = field(default=0.0, init=False)
    """When the last bytes arrived, in the event loop's time."""
    lost: bool = field(default=False, init=False)
    """Whether nothing can be sent any more."""
    ended: bool = field(default=False, init=False)
    """Whether the client has closed its side and sends no more."""
    parser: RequestParser = field(factory=RequestParser, init=False)
    events: deque[Head | bytes | End] = field(init=False)
    """Heads of requests, pieces of their bodies, and their ends."""
    _ahead: bytes = field(default=b"", init=False)
    """Bytes that were received and not parsed yet: they came while no request was wanted, or after one."""

    def __attrs_post_init__(self) -> None:
        self.events = self.parser.events

    def close(self) -> None:
        self.parser.close()
        self.events.clear()

    @property
    def goes_on(self) -> bool:
        """Whether the client has sent more than was taken yet."""
        return bool(self.events or self._ahead)

    async def more(self, turn: Turn | None = None) -> bool:
        """Waits for more bytes and parses them in its `turn`; False if the client has closed its side instead."""
        data = self._ahead
        self._ahead = b""
        if not data and not self.ended:
            data = await self._receive(turn)
        if data:
            self._ahead = self.parser.feed(data)
        return bool(data)

    async def until_gone(self) -> None:
        """Waits until the client closes its side. One piece of the next request may come meanwhile and is kept; from
        then on only `Presence` tells that the client has left."""
        if not self._ahead and not self.ended:
            self._ahead = await self._receive()
        if not self.ended and not self.presence.gone:
            with self.presence.waited_for():
                await trio.sleep_forever()

    async def _receive(self, turn: Turn | None = None) -> bytes:
        data = b""
        if self._descriptor is None:
            with suppress(trio.BrokenResourceError):
                data = bytes(await self._stream.receive_some(_PIECE))
            self.arrived = trio.current_time()
            if turn is not None:
                await turn()
        else:
            data = await self._read(self._descriptor, turn)
        self.ended = not data
        return data

    async def _read(self, descriptor: int, turn: Turn | None) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            self.arrived = trio.current_time()
            if turn is not None:
                await turn()
            try:
                return os.read(descriptor, _PIECE)
            except BlockingIOError:
                continue  # a spurious wake-up, not the client's end
            except OSError:
                return b""

    def write_now(self, data: bytes) -> memoryview | bytes:
        """Sends as much as goes without waiting, and returns the rest; no rest if nothing can be sent any more."""
        if self._descriptor is None or self.lost:
            return b"" if self.lost else data
        try:
            sent = os.write(self._descriptor, data)
        except BlockingIOError:
            return data
        except OSError:
            self.lost = True
            return b""
        return b"" if sent == len(data) else memoryview(data)[sent:]

    async def write(self, data: bytes) -> None:
        """Sends the data; a client that does not take it in time is sent nothing more."""
        if left := self.write_now(data):
            await self.write_rest(left)

    async def write_rest(self, data: memoryview | bytes) -> None:
        """Sends the rest that `write_now` has returned."""
        for start in range(0, len(data), _PIECE):
            if not self.lost:
                self.lost = True
                with trio.move_on_after(SENDING), suppress(trio.BrokenResourceError):
                    await self._stream.send_all(data[start : start + _PIECE])
                    self.lost = False

    async def linger(self) -> None:
        """Reads and drops unwanted bytes for a moment, so that the answer sent before still arrives."""
        if self.lost or not (self._ahead or self.parser.has_unread):
            return
        with trio.move_on_after(LINGER), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            left = _LINGER_BYTES
            while left > 0 and (data := await self._stream.receive_some(_PIECE)):
                left -= len(data)
