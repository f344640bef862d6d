"""One client's connection: Hypercorn's HTTP/1 over a stream, and everything that may end it.

HTTP/1.0 and 1.1, nothing else: who asks for HTTP/2 or a WebSocket in an upgrade is answered as if it had not, which the
standard allows, and HTTP/2 without asking is 505. What goes wrong here is raised, and `FrontDoor` contains it.
"""

from contextlib import suppress
from math import inf
from typing import Any, cast

import h11
import trio
from attrs import define, field
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .pace import ARRIVED, Pace

AFTER_LEAVING = 1.5
"""Seconds for the answer to a client that has left, or that only says that it sends no more: which, nobody can tell."""
LINGER = 1.0
"""Seconds to read on after an answer that came before the request's end: a close at once would take the answer away."""
_LINGER_BYTES = 16 << 20
SENDING = 30.0
"""Seconds for a piece of an answer; who takes none of it so long is gone."""
ON_ITS_WAY = 0.1
"""Seconds in which a resting connection may still bring a request, when the server stops."""
_PIECE = 64 << 10

Address = tuple[str, int] | None


class _Wire(h11.Connection):
    """Reads nothing behind a client's last request, so that it cannot turn that one's answer into another."""

    over = False
    """Whether something came that was not read."""

    def receive_data(self, data: bytes) -> None:
        if self.their_state is h11.MUST_CLOSE:
            self.over = self.over or bool(data)
        else:
            super().receive_data(data)

    def next_event(self) -> Any:
        return h11.NEED_DATA if self.their_state is h11.MUST_CLOSE else super().next_event()


class _Http1(H11Protocol):
    """Hypercorn's HTTP/1 without what it would become in the middle of a connection."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.connection = self._wire = _Wire(h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size)

    async def _check_protocol(self, event: h11.Request) -> None:
        """No upgrade to HTTP/2."""

    async def _create_stream(self, request: h11.Request) -> None:
        if not request.http_version.startswith(b"1."):
            await self._send_error_response(505)
            await self.send(Closed())
            return
        if any(name == b"upgrade" for name, _ in request.headers):
            request = h11.Request(
                method=request.method,
                target=request.target,
                headers=[(name, value) for name, value in request.headers if name != b"upgrade"],
                http_version=request.http_version,
            )
        await super()._create_stream(request)

    @property
    def has_unread(self) -> bool:
        """Whether the client may be sending still, or has sent more than was read."""
        wire = self._wire
        done = (h11.IDLE, h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
        return wire.over or wire.their_state not in done or bool(wire.trailing_data[0])


@define(eq=False)
class Connection:
    """`run` serves until the client has enough, or the server has."""

    _app: ASGIApp
    _stream: trio.abc.HalfCloseableStream
    _config: Config
    _context: WorkerContext
    _pace: Pace
    client: Address = None
    server: Address = None

    _nursery: trio.Nursery = field(init=False)
    _protocol: _Http1 = field(init=False)
    _reading: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _waiting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    """Around each wait for bytes; its deadline is `_until`."""
    _until: float = field(default=inf, init=False)
    _arrived: float = field(default=0.0, init=False)
    """When the last bytes came."""
    _sending: trio.Lock = field(factory=trio.Lock, init=False)
    _lost: bool = field(default=False, init=False)
    """Nothing can be sent any more."""

    async def run(self) -> None:
        """To the end; the stream is left to the caller to close."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._protocol = _Http1(
                # Of the app and of the tasks it only passes on what `spawn_app` takes.
                *(self._app, self._config, self._context, self, ConnectionState(LifespanState({})), False),
                *(self.client, self.server, self._send),
            )
            self._rest(idle=True)
            with self._reading:
                await self._read()
            await self._protocol.handle(Closed())
        if not nursery.cancel_scope.cancelled_caught and not self._lost and self._protocol.has_unread:
            await self._linger()

    def left(self) -> None:
        """The client has closed its side. What waits for it sees the end of its bytes, and has little time."""
        self._nursery.cancel_scope.deadline = min(
            self._nursery.cancel_scope.deadline, trio.current_time() + AFTER_LEAVING
        )

    def finish(self) -> None:
        """The server stops: the answer under way is the last, and a connection that rests is over."""
        if self._until < inf:
            self._until = self._waiting.deadline = min(self._until, trio.current_time() + ON_ITS_WAY)

    async def _read(self) -> None:
        while True:
            data: bytes | bytearray = b""
            with trio.CancelScope(deadline=self._until) as self._waiting, suppress(trio.BrokenResourceError):
                data = await self._stream.receive_some(_PIECE)
            if self._waiting.cancelled_caught:
                return
            self._arrived = trio.current_time()
            await self._pace.turn()
            await self._protocol.handle(RawData(bytes(data)))
            if not data:
                return

    async def _linger(self) -> None:
        with trio.move_on_after(LINGER), suppress(trio.BrokenResourceError):
            await self._stream.send_eof()
            left = _LINGER_BYTES
            while left > 0 and (data := await self._stream.receive_some(_PIECE)):
                left -= len(data)

    # What the protocol asks for

    async def _send(self, event: Event) -> None:
        if isinstance(event, RawData):
            async with self._sending:
                await self._write(event.data)
        elif isinstance(event, Updated):
            self._rest(idle=event.idle)
        if isinstance(event, Closed) or self._lost:
            self._reading.cancel()
            await self._protocol.handle(Closed())

    async def _write(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            if not self._lost:
                self._lost = True
                with trio.move_on_after(SENDING), suppress(trio.BrokenResourceError):
                    await self._stream.send_all(data[start : start + _PIECE] if len(data) > _PIECE else data)
                    self._lost = False

    def _rest(self, *, idle: bool) -> None:
        self._until = self._waiting.deadline = trio.current_time() + self._config.keep_alive_timeout if idle else inf
        if idle and self._context.terminated.is_set():
            self.finish()

    async def spawn_app(self, app: Any, _config: Config, scope: Any, send: Any) -> Any:
        """The app has a task of its own, and takes the request piece by piece; returns what puts one there."""
        scope[ARRIVED] = self._arrived
        put, take = trio.open_memory_channel[Message](1)
        self._nursery.start_soon(self._serve, app, cast(Scope, scope), take, cast(Send, send))

        async def pass_on(message: Message) -> None:
            if message["type"] == "http.disconnect":
                put.close()  # it may come from the app's own task, which must not wait for itself
                return
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the app wants no more, or the end came
                await put.send(message)

        return pass_on

    async def _serve(self, app: ASGIApp, scope: Scope, take: "trio.MemoryReceiveChannel[Message]", send: Any) -> None:
        async def receive() -> Message:
            try:
                return await take.receive()
            except trio.EndOfChannel:
                return {"type": "http.disconnect"}

        async def send_in_turn(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._pace.turn()
            await send(message)

        with take:
            await app(scope, cast(Receive, receive), send_in_turn)
        await send(None)
