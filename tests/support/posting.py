"""One post to an endpoint under test, by a resolver that knows what the test says."""

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from ipaddress import ip_address

import trio

from tarry.client.http11 import Response
from tarry.service.push.addresses import Address, read_networks
from tarry.service.push.connections import Connections
from tarry.service.push.endpoint import read_endpoint
from tarry.service.push.posting import Post, Poster

LOOPBACK = read_networks(["127.0.0.1/32"])
NAME = "hooks.example.com"


class Resolver:
    """Every name leads to these addresses."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        return [ip_address(address) for address in self.addresses]


@cache
def _as_the_machine() -> ssl.SSLContext:
    """It takes a while to read."""
    return ssl.create_default_context()


async def post(
    url: str,
    to: Callable[[str], Awaitable[Sequence[Address]]] | None = None,
    *,
    timeout: float = 5,
    trusted: ssl.SSLContext | None = None,
    body: bytes = b"{}",
    connections: Connections | None = None,
    allowed: Sequence[str] = ("127.0.0.1/32",),
) -> Response:
    """Posts once; it takes no longer than it may."""
    poster = Poster(read_networks(allowed), to or Resolver(), trusted or _as_the_machine())
    endpoint = read_endpoint(url, LOOPBACK)
    given = Post(endpoint, {"Host": endpoint.netloc, "X-One": "1"}, body, "text/plain")
    began = trio.current_time()
    try:
        return await poster.post(given, timeout, connections or Connections())
    finally:
        assert trio.current_time() - began < timeout + 2


@asynccontextmanager
async def serving(talk: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncGenerator[str, None]:
    """An endpoint that talks so to each connection: its address, without a scheme."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def each(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await talk(stream)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, each, [listener])
        yield f"127.0.0.1:{listener.socket.getsockname()[1]}/"
        nursery.cancel_scope.cancel()
