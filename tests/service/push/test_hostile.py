"""Endpoints and names that mean no good: none holds up its post for longer than its time, nor anybody else."""

import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address
from typing import Any

import pytest
import trio

from support.receiver import OK, Receiver
from tarry.client.http11 import Response
from tarry.service.push.addresses import Address, read_networks
from tarry.service.push.connections import Connections
from tarry.service.push.endpoint import read_endpoint
from tarry.service.push.lookups import Lookups
from tarry.service.push.posting import Post, Poster, Unreached

LOOPBACK = read_networks(["127.0.0.1/32"])
NAME = "hooks.example.com"
TRUSTED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

Resolve = Callable[[str], Awaitable[Sequence[Address]]]


def leads_to(*addresses: str) -> Resolve:
    async def resolve(_: str) -> Sequence[Address]:
        return [ip_address(address) for address in addresses]

    return resolve


async def post(url: str, resolve: Resolve | None = None, timeout: float = 0.3) -> Response:
    poster = Poster(LOOPBACK, resolve or leads_to("127.0.0.1"), TRUSTED)
    endpoint = read_endpoint(url, LOOPBACK)
    given = Post(endpoint, {"Host": endpoint.netloc}, b"{}", "text/plain")
    began = trio.current_time()
    try:
        return await poster.post(given, timeout, Connections())
    finally:
        assert trio.current_time() - began < timeout + 2


@asynccontextmanager
async def serving(talk: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncGenerator[int, None]:
    """Its port."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def each(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await talk(stream)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, each, [listener])
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@contextmanager
def never_accepting() -> Iterator[int]:
    """Its queue is full, so that further connections are not even begun."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(listener.getsockname())
            yield listener.getsockname()[1]
        finally:
            for one in waiting:
                one.close()


async def forever(stream: trio.SocketStream) -> None:
    """Takes what comes, and says nothing."""
    async for _ in stream:
        pass


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_it_does_not_accept(scheme: str) -> None:
    with never_accepting() as port, pytest.raises(Unreached, match=r"within 0\.3 s|no answer"):
        await post(f"{scheme}://127.0.0.1:{port}/")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_it_accepts_and_says_nothing(scheme: str) -> None:
    async with serving(forever) as port:
        with pytest.raises(Unreached, match=r"within 0\.3 s"):
            await post(f"{scheme}://127.0.0.1:{port}/")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"


@pytest.mark.parametrize("piece", [b"", b"x"])
async def test_its_body_does_not_end(piece: bytes) -> None:
    """The head is what counts, once the time is over."""

    async def talk(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(HEAD)
        while True:
            await stream.send_all(piece)
            await trio.sleep(0.01)

    async with serving(talk) as port:
        assert (await post(f"http://127.0.0.1:{port}/")).status == 200


async def test_its_body_is_very_long() -> None:
    """Of 100 MB a few are taken off the wire, and it is cut."""
    sent = 0

    async def talk(stream: trio.SocketStream) -> None:
        nonlocal sent
        await stream.receive_some()
        await stream.send_all(HEAD)
        for _ in range(1000):
            await stream.send_all(b"x" * 100_000)
            sent += 100_000

    async with serving(talk) as port:
        assert (await post(f"http://127.0.0.1:{port}/", timeout=20)).status == 200
        await trio.sleep(0.1)
        assert sent < 20_000_000, "the rest found nobody"


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "127.0.0.2",
        "169.254.169.254",
        "192.168.0.1",
        "::",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "::ffff:0.0.0.0",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:a00:1::1",
        "2001::1",
        "::10.0.0.1",
        "ff02::1",
        "fec0::1",
    ],
)
async def test_a_name_that_leads_inside(address: str) -> None:
    with pytest.raises(Unreached, match="not of the public internet"):
        await post(f"https://{NAME}/", leads_to(address))


async def test_a_public_address_beside_a_private_one_is_the_one_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    async def connect(host: str, port: int) -> trio.SocketStream:
        tried.append(host)
        raise OSError("not in a test")

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    with pytest.raises(Unreached, match="cannot be reached"):
        await post(f"https://{NAME}/", leads_to("10.0.0.1", "8.8.8.8", "::ffff:127.0.0.2", "2606:4700::1111"))
    assert tried == ["8.8.8.8", "2606:4700::1111"]


async def test_a_name_that_hangs_keeps_no_thread_of_others(there: Receiver) -> None:
    """As many posts as the server has threads wait for it; another name is looked up all the same."""
    gate = threading.Event()
    asked: list[str] = []

    def getaddrinfo(host: str, *_: object, **__: object) -> Sequence[tuple[Any, ...]]:
        asked.append(host)
        if host == "hangs.example.com":
            gate.wait(20)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    lookups = Lookups(getaddrinfo)

    async def hang() -> None:
        with pytest.raises(Unreached, match="within"):
            await post(f"http://hangs.example.com:{there.port}/", lookups, timeout=1)

    there.answer = lambda _: OK
    try:
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(hang)
            await trio.sleep(0.1)
            assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
            answer = await post(f"http://{NAME}:{there.port}/", lookups, timeout=5)
        assert answer.status == 200
        with pytest.raises(Unreached, match="within"):
            await post(f"http://hangs.example.com:{there.port}/", lookups)
        assert asked.count("hangs.example.com") == 4, "also when those that asked have gone"
    finally:
        gate.set()
