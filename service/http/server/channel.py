"""One client's stream: bytes come in as requests, answers go out, and each has its time."""

import os
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio
from attrs import define, field

from .parser import End, Head, RequestParser
from .ports import Presence

Turn = Callable[[], Awaitable[None]]
"""Returns when it is one's turn."""

LINGER = 1.0
"""Seconds to read on after an answer that came before the request's end: a close at once would take the answer away."""
_LINGER_BYTES = 16 << 20
SENDING = 30.0
"""Seconds for a piece of an answer; who takes none of it so long is gone."""
_PIECE = 64 << 10


@define(eq=False)
class Channel:
    """`events` holds what has come and was not taken; `more` waits for more."""

    _stream: trio.abc.Stream
    _descriptor: int | None = None
    """The socket's, when bytes go over it as they are: asking the kernel at once is a tenth cheaper than by trio."""
    presence: Presence = field(factory=Presence, init=False)
    arrived: float = field(default=0.0, init=False)
    """When the last bytes came."""
    lost: bool = field(default=False, init=False)
    """Nothing can be sent any more."""
    ended: bool = field(default=False, init=False)
    """The client sends no more."""
    parser: RequestParser = field(factory=RequestParser, init=False)
    events: deque[Head | bytes | End] = field(init=False)
    """Requests, and pieces of them."""
    _ahead: bytes = field(default=b"", init=False)
    """What came while nobody wanted a request, or behind one."""

    def __attrs_post_init__(self) -> None:
        self.events = self.parser.events

    def close(self) -> None:
        """Nothing more is read."""
        self.parser.close()
        self.events.clear()

    @property
    def goes_on(self) -> bool:
        """Whether the client has sent more than was taken."""
        return bool(self.events or self._ahead)

    async def more(self, turn: Turn | None = None) -> bool:
        """Whether more has come before the client's end. What has come is read in its `turn`."""
        data = self._ahead
        self._ahead = b""
        if not data and not self.ended:
            data = await self._receive(turn)
        if data:
            self._ahead = self.parser.feed(data)
        return bool(data)

    async def until_gone(self) -> None:
        """Waits until the client sends no more. It may send one piece ahead, which is kept; its leaving is told then
        by `Presence` alone."""
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
                continue  # woken for nothing, which is not the client's end
            except OSError:
                return b""

    def write_now(self, data: bytes) -> memoryview | bytes:
        """Sends what goes at once; what is left. Nothing is, where nothing can be sent any more."""
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
        """Sends it; to who does not take it for long, nothing more."""
        if left := self.write_now(data):
            await self.write_rest(left)

    async def write_rest(self, data: memoryview | bytes) -> None:
        """Sends what did not go at once."""
        for start in range(0, len(data), _PIECE):
            if not self.lost:
                self.lost = True
                with trio.move_on_after(SENDING), suppress(trio.BrokenResourceError):
                    await self._stream.send_all(data[start : start + _PIECE])
                    self.lost = False

    async def linger(self) -> None:
        """Reads on for a moment what nobody wants, so that the answer before it arrives."""
        if self.lost or not (self._ahead or self.parser.has_unread):
            return
        with trio.move_on_after(LINGER), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            left = _LINGER_BYTES
            while left > 0 and (data := await self._stream.receive_some(_PIECE)):
                left -= len(data)
