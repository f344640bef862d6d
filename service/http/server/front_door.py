"""The front door: accepts connections, contains the failures of each, and stops without cutting off answers under
way."""

import select
from functools import partial
from typing import Any

import structlog
import trio
from attrs import Factory, define, field

from .connection import Address, Connection
from .entrance import Alone, Entrance, Sharing, room
from .pace import ROUND, Line
from .ports import App
from .terms import Limits, Terms
from .tls import HANDSHAKE, Certificate

log = structlog.get_logger()


def _entrance(door: "FrontDoor") -> Entrance:
    return Entrance(door.most, None if door.certificate is None else door.certificate.seal, door.sharing)


@define(eq=False)
class FrontDoor:
    """`serve` runs until `stopped`, and then while answers are under way, for `grace` seconds at most."""

    app: App
    grace: float
    """Seconds after `stopped` in which requests under way may finish."""
    _max_incoming: int
    """The most bytes of bodies of unanswered requests, and as many of answers not taken yet."""
    _body_time: float
    """Seconds for the body of a request."""
    most: int = field(factory=room)
    """The most connections."""
    certificate: Certificate | None = None
    """The certificate of a server that speaks TLS only; None for plain HTTP."""
    sharing: Sharing = field(factory=Alone)
    """The other processes that accept from the same listeners."""
    _entrance: Entrance = field(init=False, default=Factory(_entrance, takes_self=True))
    _terms: Terms = field(init=False)
    _open: dict[int, Connection] = field(factory=dict[int, Connection], init=False)
    """Connections by their descriptors."""
    _greeting: set[trio.CancelScope] = field(factory=set[trio.CancelScope], init=False)
    """The scopes of TLS handshakes under way."""

    def __attrs_post_init__(self) -> None:
        self._terms = Terms(self.app, Limits(self._max_incoming), self._body_time)

    async def serve(self, listeners: list[trio.SocketListener], stopped: trio.Event) -> None:
        """Serves on these listeners, and closes them."""
        with select.epoll() as leaving:
            async with trio.open_nursery() as watching:
                watching.start_soon(self._watch, leaving)
                watching.start_soon(self._terms.pace.run)
                watching.start_soon(self._terms.rests.run)
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
        self._terms.closing = True
        for connection in self._open.values():
            connection.finish()
        for handshake in self._greeting:
            handshake.cancel()

    async def _contain(self, leaving: select.epoll, stream: trio.SocketStream) -> None:
        descriptor = stream.socket.fileno()
        try:
            client, server = _address(stream.socket.getpeername()), _address(stream.socket.getsockname())
            sealed = await self._sealed(stream)
            if sealed is None:
                return
            plain = sealed is stream
            connection = Connection(
                self._terms,
                sealed,
                descriptor if plain else None,
                "http" if plain else "https",
                client=client,
                server=server,
            )
            self._open[descriptor] = connection
            # The kernel reports a closed side even while nobody reads from the socket.
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
        """The stream of plain bytes over the connection, after the handshake with TLS; None if that does not finish in
        time."""
        if self.certificate is None:
            return stream
        if self._terms.closing:
            return None
        await self._terms.pace.turn(Line.NEW)
        sealed = self.certificate.seal(stream)
        with trio.move_on_after(HANDSHAKE) as handshake:
            self._greeting.add(handshake)
            try:
                await sealed.do_handshake()
            finally:
                self._greeting.discard(handshake)
        return None if handshake.cancelled_caught else sealed

    async def _watch(self, leaving: select.epoll) -> None:
        """Tells connections when their clients close their side."""
        while True:
            await trio.lowlevel.wait_readable(leaving.fileno())
            for descriptor, _ in leaving.poll(0, ROUND):  # if thousands leave, the rest follow in the next round
                if connection := self._open.get(descriptor):
                    connection.left()


def _address(name: Any) -> Address:
    """An internet address; None for a Unix socket, which has no host."""
    return None if isinstance(name, str) else (name[0], name[1])
