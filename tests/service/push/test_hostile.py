"""Endpoints and names that mean no good: none holds up its post for longer than its time, nor anybody else."""

import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from support.posting import NAME, Resolver, post, serving
from support.receiver import OK, Receiver, head
from tarry.service.push.lookups import Lookups
from tarry.service.push.posting import Unreached


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


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_it_does_not_accept(scheme: str) -> None:
    with never_accepting() as port, pytest.raises(Unreached, match=r"within 0\.3 s|no answer"):
        await post(f"{scheme}://127.0.0.1:{port}/", timeout=0.3)


async def forever(stream: trio.SocketStream) -> None:
    """Takes what comes, and says nothing."""
    async for _ in stream:
        pass


async def trickle(stream: trio.SocketStream) -> None:
    """A byte at a time is not time for ever."""
    await stream.receive_some()
    for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000:
        await stream.send_all(bytes([byte]))
        await trio.sleep(0.01)


@pytest.mark.parametrize(("scheme", "talk"), [("http", forever), ("https", forever), ("http", trickle)])
async def test_it_accepts_and_says_nothing_or_little(
    scheme: str, talk: Callable[[trio.SocketStream], Awaitable[None]]
) -> None:
    async with serving(talk) as place:
        with pytest.raises(Unreached, match=r"within 0\.3 s"):
            await post(f"{scheme}://{place}", timeout=0.3)


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

    async with serving(talk) as place:
        assert (await post(f"http://{place}", timeout=0.3)).status == 200


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

    async with serving(talk) as place:
        assert (await post(f"http://{place}", timeout=20)).status == 200
        await trio.sleep(0.1)
        assert sent < 20_000_000, "the rest found nobody"


async def test_a_public_address_beside_a_private_one_is_the_one_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    async def connect(host: str, port: int) -> trio.SocketStream:
        tried.append(host)
        raise OSError("not in a test")

    monkeypatch.setattr(trio, "open_tcp_stream", connect)
    with pytest.raises(Unreached, match="cannot be reached"):
        await post(f"https://{NAME}/", Resolver("10.0.0.1", "8.8.8.8", "::ffff:127.0.0.2", "2606:4700::1111"))
    assert tried == ["8.8.8.8", "2606:4700::1111"]


async def refuse(stream: trio.SocketStream) -> None:
    await stream.receive_some(1000)
    await stream.send_all(head(413))


async def test_it_answers_before_it_has_read_all_and_closes() -> None:
    async with serving(refuse) as place:
        try:
            assert (await post(f"http://{place}", body=b"x" * (8 << 20))).status == 413
        except Unreached as error:  # the answer was swept away by the reset of the connection
            assert "closed" in str(error)  # noqa: PT017


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
            await post(f"http://hangs.example.com:{there.port}/", lookups, timeout=0.3)
        assert asked.count("hangs.example.com") == 4, "also when those that asked have gone"
    finally:
        gate.set()
