"""Keeps idle connections to an endpoint for its next post: the handshake of a new one is most of the cost of a post.

They belong to the pusher of one group. A connection is reused only for the same name, port and TLS, and only while its
address is among those that a lookup has just returned and that were checked.
"""

import select
from collections.abc import Collection
from math import inf

import trio
from attrs import define, field

from .addresses import Address
from .endpoint import Endpoint

_MOST = 100
"""The most idle connections that are kept."""
_IDLE = 4.0
"""The most seconds that a connection is idle: common servers close theirs after 5, and a post just then would be
lost."""
_LIFE = 300.0
"""The most seconds that a connection is used, so that certificates are verified anew."""


@define(eq=False)
class Connection:
    """An open connection to an address that was checked. Times are trio's."""

    stream: trio.abc.Stream
    socket: trio.SocketStream
    """The stream below TLS, or the stream itself."""
    address: Address
    _of: tuple[bool, str, int]
    _opened_at: float
    used: bool = field(default=False, init=False)
    """Whether it was used for a post before."""
    heard: bool = field(default=False, init=False)
    """Whether any byte of the answer to this post has come."""
    idle_since: float = field(default=inf, init=False)

    @property
    def fresh(self) -> bool:
        """Whether it may be kept or reused: it is not too old, and neither unexpected data nor an end has come."""
        now = trio.current_time()
        if now - self._opened_at > _LIFE or now - self.idle_since > _IDLE:
            return False
        poll = select.poll()  # not select, which is limited to descriptors below 1024
        poll.register(self.socket.socket.fileno(), select.POLLIN)
        return not poll.poll(0)

    def leads(self, endpoint: Endpoint, addresses: Collection[Address]) -> bool:
        return self._of == place_of(endpoint) and self.address in addresses

    def close(self) -> None:
        """Closes the socket at once, without a TLS shutdown."""
        self.socket.socket.close()


def place_of(endpoint: Endpoint) -> tuple[bool, str, int]:
    """What must match for a connection to be reused, beside its address."""
    return endpoint.tls, endpoint.host, endpoint.port


class Connections:
    """The idle connections: `take` one for a post and `keep` it afterwards; `run` closes those idle for too long, and
    all at its end."""

    def __init__(self) -> None:
        self._idle: list[Connection] = []
        """The last used is at the end and is taken first, so that surplus connections become too old."""
        self._kept = trio.Event()
        self._running = False

    def take(self, endpoint: Endpoint, addresses: Collection[Address]) -> Connection | None:
        """A connection that may be used now, or None."""
        for connection in reversed(self._idle.copy()):
            if connection.leads(endpoint, addresses):
                self._idle.remove(connection)
                if connection.fresh:
                    connection.used, connection.heard, connection.idle_since = True, False, inf
                    return connection
                connection.close()
        return None

    def keep(self, connection: Connection) -> None:
        """Keeps the connection for the next post, if there is room; else closes it."""
        connection.idle_since = trio.current_time()
        if self._running and len(self._idle) < _MOST and connection.fresh:
            self._idle.append(connection)
            self._kept.set()
        else:
            connection.close()

    async def run(self) -> None:
        """Closes idle connections in time, until cancelled. Connections are kept only while this runs."""
        self._running = True
        try:
            while True:
                await self._kept.wait()
                await trio.sleep_until(self._idle[0].idle_since + _IDLE if self._idle else -inf)
                self._drop_old()
        finally:
            self._running = False
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _drop_old(self) -> None:
        old = [one for one in self._idle if trio.current_time() - one.idle_since >= _IDLE]
        for connection in old:
            self._idle.remove(connection)
            connection.close()
        if not self._idle:
            self._kept = trio.Event()
