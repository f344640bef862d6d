"""The client's own connections: kept, given up, and never one caller's answer to another. For threads and tasks."""

import functools
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpcore
import httpx
import pytest

from support.blocking import KINDS, Blocking, client_of
from support.certificates import write_certificates
from support.raw_peer import RawPeer, Said, answer, raw_peer
from support.scripted_server import Answer, ScriptedServer
from support.waiting import wait_until
from tarry.client import AsyncTarry, Tarry, TarryError, TooLarge, Unavailable
from tarry.client.connections import EXPIRY, MAX_IDLE, Connections
from tarry.client.coroutines import drive
from tarry.client.http11 import Request
from tarry.client.networks import ThreadNetwork

OK = answer(b'{"document": 1}')


@pytest.fixture
def peer() -> Iterator[RawPeer]:
    with raw_peer() as peer:
        yield peer


@pytest.fixture(params=KINDS)
def to(request: pytest.FixtureRequest) -> Callable[..., Tarry]:
    """A client of an address, which tries once."""
    return functools.partial(client_of, request.param, deadline=0)


def call(tarry: Tarry) -> dict[str, Any]:
    """A call that goes alone, whatever it is called."""
    return tarry.topic("orders")


def test_a_connection_is_kept(peer: RawPeer, to: Callable[[str], Tarry]) -> None:
    peer.say(OK, OK, OK)
    with to(peer.url) as tarry:
        assert [call(tarry) for _ in range(3)] == [{"document": 1}] * 3
    assert [number for number, _ in peer.asked] == [0, 0, 0]
    wait_until(lambda: peer.ended == [0])


def test_what_a_request_says(peer: RawPeer, to: Callable[[str], Tarry]) -> None:
    peer.say(OK)
    with to(f"{peer.url}/behind/a%20proxy/") as tarry:
        call(tarry)
    ((_, asked),) = peer.asked
    line, *headers = asked.decode().split("\r\n")
    assert line == "GET /behind/a%20proxy/v1/topics/orders HTTP/1.1"
    assert f"Host: {peer.url.removeprefix('http://')}" in headers
    assert any(header.startswith("User-Agent: tarry-client/") for header in headers)


@pytest.mark.parametrize(
    "said",
    [
        Said(OK, ends=True),
        Said(answer(b'{"document": 1}', b"Connection: close")),
        Said(OK + b"HTTP/1.1 200 OK\r\n"),
        Said(OK.replace(b"Content-Length: 15\r\n", b""), ends=True),
    ],
)
def test_one_that_is_over_is_not_used_again(peer: RawPeer, to: Callable[[str], Tarry], said: Said) -> None:
    """A server that was restarted, or has closed what was idle: no try is lost."""
    peer.say(said, OK)
    with to(peer.url) as tarry:
        assert call(tarry) == {"document": 1}
        if said.data is OK:
            wait_until(lambda: idle(tarry)[0].stream.get_extra_info("is_readable"))
        assert call(tarry) == {"document": 1}
    assert [number for number, _ in peer.asked] == [0, 1]


def idle(tarry: Tarry) -> list[Any]:
    client: Any = tarry.front if isinstance(tarry, Blocking) else tarry
    return list(client._transport._http.get()._idle)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (Said(b"", ends=True), httpx.RemoteProtocolError),
        (Said(OK[:-1], ends=True), httpx.RemoteProtocolError),
        (Said(b"220 mail.example.org ESMTP\r\n"), httpx.RemoteProtocolError),
    ],
)
def test_what_is_no_answer_is_in_doubt(
    peer: RawPeer, to: Callable[[str], Tarry], said: Said, cause: type[Exception]
) -> None:
    peer.say(said, OK)
    with to(peer.url) as tarry:
        with pytest.raises(Unavailable, match="does not answer") as error:
            call(tarry)
        assert type(error.value.__cause__) is cause
        assert error.value.in_doubt
        assert call(tarry) == {"document": 1}
    assert [number for number, _ in peer.asked] == [0, 1]


def test_a_late_answer_is_nobody_s(peer: RawPeer, to: Callable[..., Tarry]) -> None:
    """Who has waited for `timeout` gives the connection up with the answer that is still to come on it.

    On a busy machine more can be late than the answer that is held: each call may be made again.
    """
    held = threading.Event()
    peer.say(Said(answer(b'{"of": "the first"}'), held=held), *[answer(b'{"of": "the second"}')] * _BUSY)
    with to(peer.url, timeout=0.05) as tarry:
        first = next(error for error in _failures(tarry) if type(error.__cause__) is not httpx.ConnectTimeout)
        assert type(first.__cause__) is httpx.ReadTimeout
        assert first.in_doubt
        wait_until(lambda: len(peer.asked) == 1)
        assert _answered(tarry) == {"of": "the second"}
    held.set()
    late = peer.asked[0][0]
    wait_until(lambda: late in peer.ended)
    assert [number for number, _ in peer.asked].count(late) == 1


_BUSY = 100


def _failures(tarry: Tarry) -> Iterator[Unavailable]:
    for _ in range(_BUSY):
        with pytest.raises(Unavailable) as error:
            call(tarry)
        yield error.value


def _answered(tarry: Tarry) -> dict[str, Any]:
    for _ in range(_BUSY - 1):
        with suppress(Unavailable):
            return call(tarry)
    return call(tarry)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_call_takes_its_connection_along(peer: RawPeer, backend: str) -> None:
    held = threading.Event()
    peer.say(Said(answer(b'{"of": "the first"}'), held=held), answer(b'{"of": "the second"}'))

    async def ask() -> None:
        async with AsyncTarry(peer.url) as tarry:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tarry.topic, "orders")
                while not peer.asked:
                    await anyio.sleep(0.001)
                tasks.cancel_scope.cancel()
            assert await tarry.topic("orders") == {"of": "the second"}

    anyio.run(ask, backend=backend)
    held.set()
    assert [number for number, _ in peer.asked] == [0, 1]


def test_many_at_once_have_a_connection_each(peer: RawPeer) -> None:
    held = threading.Event()
    peer.say(*[Said(answer(b'{"of": %d}' % number), held=held) for number in range(70)])
    with Tarry(peer.url) as tarry, ThreadPoolExecutor(70) as pool:
        futures = [pool.submit(call, tarry) for _ in range(70)]
        wait_until(lambda: len(peer.asked) == 70)
        held.set()
        assert sorted(future.result(10)["of"] for future in futures) == list(range(70))
        assert len({number for number, _ in peer.asked}) == 70
        assert len(idle(tarry)) == MAX_IDLE
    wait_until(lambda: len(peer.ended) == 70)


def test_one_that_was_idle_for_too_long_is_closed(peer: RawPeer) -> None:
    """Whether it is the next, or lies below one that is always used."""
    now = 0.0
    both = threading.Barrier(2)
    connections = Connections(ThreadNetwork(), peer.url, timeout=10, headers={}, clock=lambda: now)
    ask = Request("GET", "/")

    def together() -> None:
        both.wait(10)
        drive(connections.exchange(ask))

    held = threading.Event()
    peer.say(*[Said(OK, held=held)] * 2, OK, OK, OK)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(together) for _ in range(2)]
        wait_until(lambda: len(peer.asked) == 2)
        held.set()
        for future in futures:
            future.result(10)
    now = EXPIRY / 2
    drive(connections.exchange(ask))
    used = peer.asked[-1][0]
    now = EXPIRY * 1.25
    drive(connections.exchange(ask))
    assert peer.asked[-1][0] == used
    wait_until(lambda: peer.ended == [1 - used])
    now = EXPIRY * 3
    drive(connections.exchange(ask))
    assert peer.asked[-1][0] == 2
    drive(connections.close())
    wait_until(lambda: sorted(peer.ended) == [0, 1, 2])


def test_a_refusal_before_all_was_sent_is_heard(peer: RawPeer, to: Callable[[str], Tarry]) -> None:
    """Of a body that is too large the server may not read the rest."""
    peer.patience = 1
    refusal = json.dumps({"detail": "too large", "status": 413}).encode()
    peer.say(Said(answer(refusal, b"Content-Type: application/problem+json", status=413), ends=True), OK)
    with to(peer.url) as tarry:
        # On asyncio what was said may be lost with the connection, which is reset; that is in doubt then.
        lost = Unavailable if isinstance(tarry, Blocking) and tarry._backend == "asyncio" else TooLarge
        with pytest.raises((TooLarge, lost)) as error:
            tarry.publish("orders", "x" * 20_000_000)
        assert isinstance(error.value, TooLarge) or error.value.in_doubt
        peer.patience = None
        assert call(tarry) == {"document": 1}
    assert [number for number, _ in peer.asked] == [0, 1]


class Told(ThreadNetwork, httpcore.AsyncNetworkStream):
    """A network that keeps the time-outs that it is told, and fails to send."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float | None]] = []

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None, timeout: float) -> Any:
        self.told.append(("connect", timeout))
        return self

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.told.append(("write", timeout))
        raise httpcore.WriteError

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.told.append(("read", timeout))
        return OK

    async def aclose(self) -> None:
        self.told.append(("close", None))


def test_each_step_has_its_time_and_what_could_not_be_sent_ends_the_connection() -> None:
    network = Told()
    connections = Connections(network, "http://h", timeout=3, headers={})
    drive(connections.exchange(Request("GET", "/", wait=20)))
    assert network.told == [("connect", 3), ("write", 3), ("read", 23), ("close", None)]


def test_a_closed_client_sends_nothing(peer: RawPeer) -> None:
    tarry = Tarry(peer.url)
    tarry.close()
    with pytest.raises(RuntimeError, match="closed"):
        call(tarry)
    assert peer.asked == []


def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: Callable[[str], Tarry]) -> None:
    ca = write_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server-key.pem")
    with raw_peer(context) as peer:
        with to(peer.url) as tarry, pytest.raises(Unavailable, match="is not trusted: ") as error:
            call(tarry)
        assert type(error.value.__cause__) is httpx.ConnectError
        assert not error.value.in_doubt
        sleeps: list[float] = []  # a second try would find the same
        with Tarry(peer.url, sleep=sleeps.append) as tarry, pytest.raises(Unavailable, match="is not trusted: "):
            call(tarry)
        assert (peer.asked, sleeps) == ([], [])
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        peer.say(OK, OK)
        with to(peer.url) as tarry:
            assert [call(tarry), call(tarry)] == [{"document": 1}] * 2
        assert len({number for number, _ in peer.asked}) == 1
        elsewhere = peer.url.replace("127.0.0.1", "localhost")
        with to(elsewhere) as tarry, pytest.raises(Unavailable, match=r"is not trusted: [Hh]ostname mismatch"):
            call(tarry)
        for file in tmp_path / "none.pem", Path(__file__):
            monkeypatch.setenv("SSL_CERT_FILE", str(file))
            with pytest.raises(ValueError, match=f"SSL_CERT_FILE: {file} is not a file of certificates"), to(peer.url):
                pass


def test_a_proxy_of_the_environment(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, to: Callable[[str], Tarry]
) -> None:
    script.respond = lambda _: Answer(200, {"topics": []})
    monkeypatch.setenv("HTTP_PROXY", script.url)
    with to("http://tarry.example.org:8277") as tarry:
        assert tarry.topics() == []
    monkeypatch.setenv("NO_PROXY", "somewhere.else, 127.0.0.1")
    with to(script.url) as tarry:
        assert tarry.topics() == []
    paths = [request.path.partition("?")[0] for request in script.requests]
    assert paths == ["http://tarry.example.org:8277/v1/topics", "/v1/topics"]


def test_credentials_in_the_address(script: ScriptedServer, to: Callable[[str], Tarry]) -> None:
    script.say(Answer(200, {"topics": []}))
    with to(script.url.replace("http://", "http://x:y@")) as tarry:
        assert tarry.topics() == []
    assert script.requests[0].headers["Authorization"] == "Basic eDp5"


def test_an_address_of_the_environment(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch, to: Callable[[str | None], Tarry]
) -> None:
    script.respond = lambda _: Answer(200, {"topics": []})
    monkeypatch.setenv("TARRY_URL", script.url + "/")
    for tarry in to(None), to(script.url):
        with tarry:
            assert tarry.topics() == []
    monkeypatch.setenv("TARRY_URL", "here:8277")
    with pytest.raises(ValueError, match='TARRY_URL: "here:8277" is not the address of a server'):
        Tarry()
    monkeypatch.setenv("TARRY_URL", "")
    with Tarry() as tarry:
        assert repr(tarry) == "Tarry('http://127.0.0.1:8277')"


@pytest.mark.parametrize("url", ["http://[::1", "http://h:port"])
def test_an_address_that_cannot_be(url: str) -> None:
    with pytest.raises(ValueError, match="address of a server"):
        Tarry(url)


def test_a_key_is_shown_nowhere(peer: RawPeer) -> None:
    tarry = Tarry(peer.url, key="tarry_secret", deadline=0)
    http: Any = tarry._transport._http.get()
    peer.say(Said(b"", ends=True))
    with pytest.raises(TarryError) as error:
        call(tarry)
    assert b"Authorization: Bearer tarry_secret\r\n" in peer.asked[0][1]
    assert "secret" not in repr(http) + repr(error.value) + str(error.value.__cause__)
