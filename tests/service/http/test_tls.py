"""TLS at the front door: handshakes that succeed, fail and never end, and a certificate that is renewed."""

import os
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
import trio.testing
from cryptography.hazmat.primitives import serialization as form

from support.certificates import write_certificates
from support.doors import front_door
from tarry.service.http.server import front_door as door_module
from tarry.service.http.server.ports import Receive, Scope, Send
from tarry.service.http.server.tls import BadCertificate, Certificate, SealedStream

GET = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says by which scheme it was asked, and how long the body was."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{scope['scheme']} {size} ".encode() + b"x" * 200_000})


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    write_certificates(tmp_path)
    return tmp_path / "server.pem", tmp_path / "server-key.pem"


@pytest.fixture
def trusting(files: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=files[0].parent / "ca.pem")


class Door:
    def __init__(self, certificate: Certificate) -> None:
        self.certificate = certificate
        self.stopped = trio.Event()
        self.port = 0
        self.clients: list[trio.SocketStream] = []

    async def plain(self) -> trio.SocketStream:
        self.clients.append(await trio.open_tcp_stream("127.0.0.1", self.port))
        return self.clients[-1]

    async def sealed(self, context: ssl.SSLContext) -> SealedStream:
        stream = trio.SSLStream(await self.plain(), context, server_hostname="127.0.0.1", https_compatible=True)
        await stream.do_handshake()
        return stream


@asynccontextmanager
async def opened(files: tuple[Path, Path], **own: Any) -> AsyncIterator[Door]:
    door = Door(Certificate(*files))
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    door.port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(front_door(app, certificate=door.certificate, **own).serve, [listener], door.stopped)
        try:
            yield door
        finally:
            door.stopped.set()
    for client in door.clients:
        await trio.aclose_forcefully(client)


async def answer(stream: trio.abc.Stream, request: bytes = GET) -> bytes:
    await stream.send_all(request)
    data = b""
    while len(data) < 200_000:
        piece = await stream.receive_some()
        assert piece
        data += piece
    return data


async def test_requests_on_one_connection(files: tuple[Path, Path], trusting: ssl.SSLContext) -> None:
    async with opened(files) as door:
        stream = await door.sealed(trusting)
        for _ in range(3):
            assert b"\r\n\r\nhttps 0 xxx" in await answer(stream)
        body = b"POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n" + b"y" * 300_000
        assert b"\r\n\r\nhttps 300000 xxx" in await answer(stream, body)
        await stream.aclose()


async def test_old_versions_are_refused(files: tuple[Path, Path], trusting: ssl.SSLContext) -> None:
    trusting.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    trusting.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        trusting.maximum_version = ssl.TLSVersion.TLSv1_1
    async with opened(files) as door:
        with pytest.raises(trio.BrokenResourceError):
            await door.sealed(trusting)


async def test_one_bad_handshake_hurts_nobody(files: tuple[Path, Path], trusting: ssl.SSLContext) -> None:
    async with opened(files) as door:
        good = await door.sealed(trusting)
        with structlog.testing.capture_logs() as logs:
            for start in (GET, b"\x16\x03\x01\x02\x00" + os.urandom(600), b"\x16", b""):
                bad = await door.plain()
                await bad.send_all(start)
                await bad.send_eof()
                with trio.fail_after(5):
                    while await bad.receive_some():
                        pass
                await bad.aclose()
                assert b"https" in await answer(good)
        with pytest.raises(trio.BrokenResourceError):
            await door.sealed(ssl.create_default_context())  # it does not trust us
        assert b"https" in await answer(await door.sealed(trusting))
    assert [entry for entry in logs if entry["log_level"] == "error"] == []


async def test_a_handshake_has_its_time(
    files: tuple[Path, Path], trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "HANDSHAKE", 0.1)
    async with opened(files) as door:
        slow = await door.plain()
        with trio.fail_after(5):
            assert await slow.receive_some() == b""
        assert b"https" in await answer(await door.sealed(trusting))


async def test_one_too_many_is_told_so(files: tuple[Path, Path], trusting: ssl.SSLContext) -> None:
    async with opened(files, most=1) as door:
        inside = await door.sealed(trusting)
        for _ in range(3):
            outside = await door.sealed(trusting)
            with trio.fail_after(5):
                assert (await outside.receive_some()).startswith(b"HTTP/1.1 503 ")
                assert await outside.receive_some() == b""
        assert b"https" in await answer(inside)


async def test_of_very_many_a_few_are_told(
    files: tuple[Path, Path], trusting: ssl.SSLContext, mock_clock: trio.testing.MockClock
) -> None:
    """A handshake costs a millisecond or more, of which those inside would feel it."""
    heard: Counter[bytes] = Counter()

    async def come(door: Door) -> None:
        try:
            stream = await door.sealed(trusting)
            heard[bytes(await stream.receive_some(12))] += 1
        except trio.BrokenResourceError:
            heard[b""] += 1

    async with opened(files, most=1) as door:
        inside = await door.sealed(trusting)
        for _ in range(2):
            async with trio.open_nursery() as coming:
                for _ in range(30):
                    coming.start_soon(come, door)
            mock_clock.jump(1)
        assert heard == {b"HTTP/1.1 503": 40, b"": 20}
        assert b"https" in await answer(inside)
        mock_clock.rate = 1.0  # the door's end has its time


async def test_who_shakes_hands_does_not_hold_up_the_end(files: tuple[Path, Path]) -> None:
    with trio.fail_after(0.9):
        async with opened(files) as door:
            await door.plain()
            await trio.sleep(0.1)


async def test_a_renewed_certificate(files: tuple[Path, Path], trusting: ssl.SSLContext) -> None:
    async with opened(files) as door:
        old = await door.sealed(trusting)
        write_certificates(files[0].parent)
        door.certificate.reload()
        with pytest.raises(trio.BrokenResourceError):
            await door.sealed(trusting)
        trusting.load_verify_locations(files[0].parent / "ca.pem")
        new = await door.sealed(trusting)
        files[1].write_text("no key")
        with structlog.testing.capture_logs() as logs:
            door.certificate.reload()
        assert [entry["event"] for entry in logs] == ["certificate_not_renewed"]
        for stream in (old, new, await door.sealed(trusting)):
            assert b"https" in await answer(stream)


@pytest.fixture
def locked(files: tuple[Path, Path]) -> Path:
    key = form.load_pem_private_key(files[1].read_bytes(), None)
    sealed = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"secret"))
    files[1].write_bytes(sealed)
    return files[1]


def test_what_is_no_certificate(files: tuple[Path, Path]) -> None:
    cert, key = files
    with pytest.raises(BadCertificate, match=r"missing\.pem: No such file"):
        Certificate(cert.parent / "missing.pem", key)
    with pytest.raises(BadCertificate, match="no certificate and its key"):
        Certificate(key, cert)


def test_a_key_with_a_password_asks_nobody(files: tuple[Path, Path], locked: Path) -> None:
    with pytest.raises(BadCertificate, match="store it without"):
        Certificate(files[0], locked)
