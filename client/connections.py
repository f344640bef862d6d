"""HTTP connections to one server, each kept for the next request; for threads and tasks alike.

A request over httpx costs several times the processor time of all the rest of a call, so a client uses these unless the
user gives it an httpx client, or the environment names a proxy. Sockets, TLS and time-outs are httpcore's, as in httpx.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

import httpcore
import httpx
from attrs import define, evolve, field

from .http11 import Request, Response, ResponseReader, written
from .networks import Network

MAX_IDLE = 64
"""Most idle connections that are kept."""
EXPIRY = 5.0
"""Seconds after which an idle connection is not used again: the server may close it just as a request is sent."""
_READ_BYTES = 1 << 16

Taker = Callable[[bytes], object]


class Exchanges(Protocol):
    """Sends requests to one server. Raises `httpx.RequestError`."""

    async def exchange(self, request: Request, begun: Callable[[Response], Taker] | None = None) -> Response:
        """Sends a request; returns the response. On success `begun` is given the head, and returns the function that
        takes the content as it comes."""
        ...

    async def close(self) -> None:
        """Closes the connections; no request can be made any more."""
        ...


@define(eq=False)
class _Connection:
    stream: httpcore.AsyncNetworkStream
    reader: ResponseReader = field(factory=ResponseReader, init=False)
    idle_since: float = field(default=0.0, init=False)
    last: bool = field(default=False, init=False)
    """The connection can take no further request."""

    def fresh(self, now: float) -> bool:
        """Whether it may be used again: an idle connection that is readable was closed by the server."""
        return now - self.idle_since < EXPIRY and not self.stream.get_extra_info("is_readable")


class Connections:
    """Connections to one server. Safe to share between threads, if the network is a `ThreadNetwork`."""

    def __init__(
        self,
        network: Network,
        url: str,
        *,
        timeout: float,
        headers: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        address = httpx.URL(url)
        self._network = network
        self._host = address.raw_host.decode()
        self._port = address.port or (443 if address.scheme == "https" else 80)
        self._tls = httpx.create_ssl_context() if address.scheme == "https" else None
        if self._tls is not None:
            self._tls.set_alpn_protocols(["http/1.1"])
        self._prefix = address.raw_path.rstrip(b"/")
        common = {"Host": address.netloc.decode(), "Accept": "*/*", "Accept-Encoding": "identity", **headers}
        self._common = b"".join(f"{name}: {value}\r\n".encode() for name, value in common.items())
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._open: set[_Connection] = set()
        self._idle: deque[_Connection] = deque()
        """Open connections that are idle; the last one was used last, and is used first."""
        self._closed = False

    async def exchange(self, request: Request, begun: Callable[[Response], Taker] | None = None) -> Response:
        """Sends a request over an idle connection, or a new one."""
        try:
            connection = await self._take()
            try:
                return await self._ask(connection, request, begun)
            finally:
                await self._give_back(connection)
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            known: type[httpx.RequestError] = getattr(httpx, type(error).__name__)
            raise known(str(error)) from error

    async def close(self) -> None:
        """Closes all connections, also those in use."""
        with self._lock:
            self._closed = True
            connections = list(self._open)
        for connection in connections:
            await self._drop(connection)

    async def _ask(
        self, connection: _Connection, request: Request, begun: Callable[[Response], Taker] | None
    ) -> Response:
        stream, reader = connection.stream, connection.reader
        patience = self._timeout + request.wait
        reader.begin()
        try:
            await stream.write(written(request, self._prefix, self._common), self._timeout)
        except httpcore.WriteError:  # the server may have answered, say that the request is too large
            connection.last = True
        pieces: list[bytes] = []
        while (head := reader.head) is None:
            pieces += reader.feed(await stream.read(_READ_BYTES, patience))
        content: list[bytes] = []
        take = content.append if begun is None or not head.is_success else begun(head)
        while True:
            for piece in pieces:
                take(piece)
            if reader.whole:
                return evolve(head, content=b"".join(content))
            pieces = reader.feed(await stream.read(_READ_BYTES, patience))

    async def _take(self) -> _Connection:
        while (kept := self._kept()) is not None:
            if kept.fresh(self._clock()):
                return kept
            await self._drop(kept)
        connection = _Connection(await self._network.connect(self._host, self._port, self._tls, self._timeout))
        with self._lock:
            self._open.add(connection)
        return connection

    def _kept(self) -> _Connection | None:
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed, and cannot send any more")
            return self._idle.pop() if self._idle else None

    async def _give_back(self, connection: _Connection) -> None:
        """Keeps a connection whose answer came whole. Drops those idle for too long, and the oldest of too many."""
        connection.idle_since = now = self._clock()
        gone: list[_Connection] = []
        with self._lock:
            if connection.reader.keeps and not connection.last and not self._closed:
                self._idle.append(connection)
            else:
                gone.append(connection)
            while self._idle and (len(self._idle) > MAX_IDLE or now - self._idle[0].idle_since > EXPIRY):
                gone.append(self._idle.popleft())
        for one in gone:
            await self._drop(one)

    async def _drop(self, connection: _Connection) -> None:
        with self._lock:
            self._open.discard(connection)
        await self._network.close(connection.stream)
