"""The front door: takes connections, lets none of them harm another, and shuts without cutting anybody off.

Hypercorn's own server runs all connections in one nursery, where the fault of one ends them all, and hears only of
clients that it reads from: one that leaves while a request of its waits is not seen. So it is asked for HTTP/1 alone.
"""

import select
from functools import partial

import h11
import structlog
import trio
from attrs import Factory, define, field
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from starlette.types import ASGIApp

from .connection import Connection
from .entrance import Entrance, room
from .pace import Pace

KEEP_ALIVE = 75.0
"""Seconds that a connection may rest between two requests, or take for the head of one."""
_ENDLESS = 1_000_000_000

log = structlog.get_logger()


def make_config() -> Config:
    """How Hypercorn's part is to behave."""
    config = Config()
    config.accesslog = config.errorlog = None
    config.keep_alive_timeout = KEEP_ALIVE
    config.keep_alive_max_requests = _ENDLESS
    config.include_server_header = False
    return config


@define(eq=False)
class FrontDoor:
    """`serve` runs until `stopped`, and then as long as answers are under way."""

    _app: ASGIApp
    grace: float
    """Seconds after `stopped` in which requests under way may end."""
    _most: int = field(factory=room)
    """Connections."""
    _entrance: Entrance = field(init=False, default=Factory(lambda door: Entrance(door._most), takes_self=True))
    _config: Config = field(factory=make_config, init=False)
    _context: WorkerContext = field(factory=lambda: WorkerContext(None), init=False)
    _pace: Pace = field(factory=Pace, init=False)
    _open: dict[int, Connection] = field(factory=dict[int, Connection], init=False)
    """By descriptor."""

    async def serve(self, listeners: list[trio.SocketListener], stopped: trio.Event) -> None:
        """Serves on these, and closes them."""
        with select.epoll() as leaving:
            async with trio.open_nursery() as watching:
                watching.start_soon(self._watch, leaving)
                watching.start_soon(self._pace.run)
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
        self._config.keep_alive_max_requests = 0  # every answer says that it is the last
        await self._context.terminated.set()
        for connection in self._open.values():
            connection.finish()

    async def _contain(self, leaving: select.epoll, stream: trio.SocketStream) -> None:
        """A connection, whose faults are its own."""
        descriptor = stream.socket.fileno()
        try:
            client, server = stream.socket.getpeername(), stream.socket.getsockname()
            connection = Connection(
                *(self._app, stream, self._config, self._context, self._pace), client=client[:2], server=server[:2]
            )
            self._open[descriptor] = connection
            # The kernel says so even while nobody reads from it.
            leaving.register(descriptor, select.EPOLLRDHUP | select.EPOLLONESHOT)
            await connection.run()
        except* (OSError, trio.BrokenResourceError, h11.ProtocolError) as errors:
            log.debug("connection_broken", exc_info=errors)
        except* Exception as errors:
            log.error("connection_failed", exc_info=errors)
        finally:
            self._open.pop(descriptor, None)
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _watch(self, leaving: select.epoll) -> None:
        """Hears of clients that close their side."""
        while True:
            await trio.lowlevel.wait_readable(leaving.fileno())
            for descriptor, _ in leaving.poll(0):
                if connection := self._open.get(descriptor):
                    connection.left()
