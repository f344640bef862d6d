"""Connections to an endpoint that wait for its next post: a new one costs a handshake, which is most of a post.

They are of one group's pusher alone. One is used again only for the same name, port and TLS, and only while its address
is among those that a lookup of just now gave and that were judged.
"""

import select
from collections.abc import Collection
from math import inf

import trio
from attrs import define, field

from .addresses import Address
from .endpoint import Endpoint

_MOST = 100
"""Connections that wait."""
_IDLE = 4.0
"""Seconds that one waits at most: common servers close theirs after 5, and what is posted meanwhile would be lost."""
_LIFE = 300.0
"""Seconds that one is used at most: then certificates are looked at anew."""


@define(eq=False)
class Connection:
    """An open one, to an address that was judged. Times are trio's."""

    stream: trio.abc.Stream
    socket: trio.SocketStream
    """What is below TLS, or the stream itself."""
    address: Address
    _of: tuple[bool, str, int]
    _opened_at: float
    used: bool = field(default=False, init=False)
    """A post has gone over it before."""
    heard: bool = field(default=False, init=False)
    """Something of the answer to this post has come."""
    idle_since: float = field(default=inf, init=False)

    @property
    def fresh(self) -> bool:
        """Whether it may wait, or be used again: not too old, and nothing has come that nobody asked for, an end
        neither."""
        now = trio.current_time()
        if now - self._opened_at > _LIFE or now - self.idle_since > _IDLE:
            return False
        poll = select.poll()  # not select, which knows no descriptor above 1023
        poll.register(self.socket.socket.fileno(), select.POLLIN)
        return not poll.poll(0)

    def leads(self, endpoint: Endpoint, addresses: Collection[Address]) -> bool:
        """Whether it leads to the endpoint, by one of the addresses."""
        return self._of == place_of(endpoint) and self.address in addresses

    def close(self) -> None:
        """At once, without a farewell."""
        self.socket.socket.close()


def place_of(endpoint: Endpoint) -> tuple[bool, str, int]:
    """What a connection is good for, beside its address."""
    return endpoint.tls, endpoint.host, endpoint.port


class Connections:
    """`take` one for a post and `keep` it after; `run` closes those that wait too long, and all at its end."""

    def __init__(self) -> None:
        self._idle: list[Connection] = []
        """The last used at the end, which is taken first, so that those that are too many grow old."""
        self._kept = trio.Event()
        self._running = False

    def take(self, endpoint: Endpoint, addresses: Collection[Address]) -> Connection | None:
        """One that may be used now; None when there is none."""
        for connection in reversed(self._idle.copy()):
            if connection.leads(endpoint, addresses):
                self._idle.remove(connection)
                if connection.fresh:
                    connection.used, connection.heard, connection.idle_since = True, False, inf
                    return connection
                connection.close()
        return None

    def keep(self, connection: Connection) -> None:
        """It waits for the next post, if there is room."""
        connection.idle_since = trio.current_time()
        if self._running and len(self._idle) < _MOST and connection.fresh:
            self._idle.append(connection)
            self._kept.set()
        else:
            connection.close()

    async def run(self) -> None:
        """Until it is cancelled. Before and after, none is kept."""
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
