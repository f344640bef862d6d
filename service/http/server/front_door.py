"""The front door: takes connections, lets none of them harm another, and shuts without cutting anybody off."""

import select
from functools import partial
from typing import Any

import structlog
import trio
from attrs import Factory, define, field

from .common import Common, Limits
from .connection import Address, Connection
from .entrance import Alone, Entrance, Sharing, room
from .pace import ROUND, Line
from .ports import App
from .tls import HANDSHAKE, Certificate

log = structlog.get_logger()


def _entrance(door: "FrontDoor") -> Entrance:
    return Entrance(door.most, None if door.certificate is None else door.certificate.seal, door.sharing)


@define(eq=False)
class FrontDoor:
    """`serve` runs until `stopped`, and then as long as answers are under way."""

    app: App
    grace: float
    """Seconds after `stopped` in which requests under way may end."""
    _max_incoming: int
    """Bytes of bodies of requests that are not answered yet; and as many of answers that are not taken yet."""
    _body_time: float
    """Seconds for the body of a request."""
    most: int = field(factory=room)
    """Connections."""
    certificate: Certificate | None = None
    """Of a server that speaks TLS, and nothing else."""
    sharing: Sharing = field(factory=Alone)
    """Others who take from the same listeners."""
    _entrance: Entrance = field(init=False, default=Factory(_entrance, takes_self=True))
    _common: Common = field(init=False)
    _open: dict[int, Connection] = field(factory=dict[int, Connection], init=False)
    """By descriptor."""
    _greeting: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """Handshakes."""

    def __attrs_post_init__(self) -> None:
        self._common = Common(self.app, Limits(self._max_incoming), self._body_time)

    async def serve(self, listeners: list[trio.SocketListener], stopped: trio.Event) -> None:
        """Serves on these, and closes them."""
        with select.epoll() as leaving:
            async with trio.open_nursery() as watching:
                watching.start_soon(self._watch, leaving)
                watching.start_soon(self._common.pace.run)
                watching.start_soon(self._common.rests.run)
                async with trio.open_nursery() as connections:
                    connections.start_soon(self._stop, stopped, connections.cancel_scope)
                    async with trio.open_nursery() as accepting:
                        for listener in listeners:
                            accepting.start_soon(
                                self._entrance.take, listener, connections, partial(self._contain, leaving)
                            )
                        await stopped.wait()
                        accepting.cancel_scope.cancel()
                watching.cancel_scope.cancel()

    async def _stop(self, stopped: trio.Event, connections: trio.CancelScope) -> None:
        await stopped.wait()
        connections.deadline = trio.current_time() + self.grace
        self._common.closing = True
        for connection in self._open.values():
            connection.finish()
        for handshake in self._greeting:
            handshake.cancel()

    async def _contain(self, leaving: select.epoll, stream: trio.SocketStream) -> None:
        """A connection, whose faults are its own."""
        descriptor = stream.socket.fileno()
        try:
            client, server = _address(stream.socket.getpeername()), _address(stream.socket.getsockname())
            sealed = await self._sealed(stream)
            if sealed is None:
                return
            plain = sealed is stream
            connection = Connection(
                self._common,
                sealed,
                descriptor if plain else None,
                "http" if plain else "https",
                client=client,
                server=server,
            )
            self._open[descriptor] = connection
            # The kernel says so even while nobody reads from it.
            leaving.register(descriptor, select.EPOLLRDHUP | select.EPOLLONESHOT)
            await connection.run()
        except* (OSError, trio.BrokenResourceError) as errors:
            log.debug("connection_broken", exc_info=errors)
        except* Exception as errors:
            log.error("connection_failed", exc_info=errors)
        finally:
            self._open.pop(descriptor, None)
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _sealed(self, stream: trio.SocketStream) -> trio.abc.Stream | None:
        """What is said over it; None when no handshake comes about in time."""
        if self.certificate is None:
            return stream
        if self._common.closing:
            return None
        await self._common.pace.turn(Line.NEW)
        sealed = self.certificate.seal(stream)
        with trio.move_on_after(HANDSHAKE) as handshake:
            self._greeting.add(handshake)
            try:
                await sealed.do_handshake()
            finally:
                self._greeting.discard(handshake)
        return None if handshake.cancelled_caught else sealed

    async def _watch(self, leaving: select.epoll) -> None:
        """Hears of clients that close their side."""
        while True:
            await trio.lowlevel.wait_readable(leaving.fileno())
            for descriptor, _ in leaving.poll(0, ROUND):  # of thousands that leave at once the rest in the next round
                if connection := self._open.get(descriptor):
                    connection.left()


def _address(name: Any) -> Address:
    """Of the internet; a Unix socket's has no host."""
    return None if isinstance(name, str) else (name[0], name[1])
