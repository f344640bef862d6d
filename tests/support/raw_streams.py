"""Sends malformed raw bytes to a front door; seeded, so that a stream can be repeated by its number.

Some have shapes that once crashed a whole server: bytes after an HTTP/1.0 request, upgrades to HTTP/2 with broken
settings, HTTP/2 prefaces with odd paths and long bodies, WebSockets; and clients that half-close and reset. To a TLS
server most are sent after a handshake, without a closing alert; the others replace the handshake or the rest of it.
(The random parts of a handshake are not seeded.)
"""

import random
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import trio
from attrs import define, field
from hpack import Encoder

Dice = random.Random

PUBLISH = b"/v1/topics/raw/messages"
CLAIM = b"/v1/topics/raw/groups/raw/claim"
PATHS = (b"/livez", b"/v1/topics", PUBLISH, CLAIM, b"/v1/messages/7", b"/nowhere", b"*", b"http://x/livez", b"/%ff%00")
METHODS = (b"GET", b"POST", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"CONNECT", b"TRACE", b"BREW")
BODIES = (
    b"",
    b"{}",
    b'{"body": "raw"}',
    b'{"client": "raw"}',
    b'{"client": "raw", "wait": "30s"}',
    b'{"body": ' + b"7" * 70_000 + b"}",
    b"\xff\xfe",
)
_AT_ONCE = 40
_GRACE = 4.0
"""Seconds that a server may take to close a connection that its client has half-closed."""


def _head(method: bytes, path: bytes, *headers: bytes, version: bytes = b"1.1") -> bytes:
    host = () if version == b"1.0" else (b"Host: localhost",)
    return b"\r\n".join([method + b" " + path + b" HTTP/" + version, *host, *headers, b"", b""])


def _request(dice: Dice, *headers: bytes, version: bytes = b"1.1") -> bytes:
    body = dice.choice(BODIES)
    path, method = dice.choice(PATHS), dice.choice(METHODS)
    if dice.random() < 0.5:
        path, method = dice.choice((PUBLISH, CLAIM)), b"POST"
    length = (b"Content-Length: %d" % len(body),) if body or dice.random() < 0.5 else ()
    return _head(method, path, *length, *headers, version=version) + body


def _noise(dice: Dice) -> bytes:
    return dice.randbytes(dice.choice((1, 9, 100, 5000)))


def _old_and_more(dice: Dice) -> bytes:
    """An HTTP/1.0 request with bytes after it."""
    behind = dice.choice((b"\r\n", b"x", b"\x00" * 9, _noise(dice), _request(dice), _request(dice, version=b"1.0")))
    return _request(dice, version=b"1.0") + behind


def _last_and_more(dice: Dice) -> bytes:
    return _request(dice, b"Connection: close") + dice.choice((_noise(dice), _request(dice)))


def _upgrade(dice: Dice) -> bytes:
    """An upgrade to HTTP/2 without TLS."""
    settings = dice.choice((b"AAMAAABkAAQAoAAAAAIAAAAA", b"", b"!", b"AAAA", b"A", b"\xe4", b"AAAAAAAA" * 99))
    head = _head(
        dice.choice(METHODS),
        dice.choice(PATHS),
        b"Connection: Upgrade, HTTP2-Settings",
        b"Upgrade: h2c",
        b"HTTP2-Settings: " + settings,
    )
    return head + dice.choice((b"", _preface(dice), _noise(dice)))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _preface(dice: Dice) -> bytes:
    """HTTP/2 without negotiation, with headers that HTTP/1 could not carry."""
    odd = dice.choice((b"/livez", b"/\xff\xfe", b"", b"/a b", b"//[", b"/\x00", b"x" * 9000))
    headers = [(b":method", dice.choice(METHODS)), (b":path", odd), (b":scheme", b"http"), (b":authority", b"h")]
    dice.shuffle(headers)
    block = Encoder().encode(headers[: dice.choice((3, 4, 4, 4))])
    frames = [_frame(4, 0, 0, b""), _frame(1, dice.choice((4, 5)), 1, block)]
    frames += [_frame(0, 0, 1, b"x" * 16_000) for _ in range(dice.choice((0, 1, 8)))]
    frames += [_frame(dice.randrange(256), dice.randrange(256), dice.randrange(9), dice.randbytes(dice.randrange(20)))]
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(frames[: dice.randrange(len(frames) + 1)])


def _websocket(dice: Dice) -> bytes:
    headers = [
        b"Connection: Upgrade",
        b"Upgrade: websocket",
        b"Sec-WebSocket-Key: " + dice.choice((b"dGhlIHNhbXBsZSBub25jZQ==", b"short", b"")),
        b"Sec-WebSocket-Version: " + dice.choice((b"13", b"8", b"x")),
        b"Sec-WebSocket-Protocol: a, b",
    ]
    head = _head(b"GET", dice.choice(PATHS), *dice.sample(headers, dice.choice((2, 4, 5, 5))))
    return head + dice.choice((b"", b"\x81\x85\x00\x00\x00\x00hello", b"\x88\x80\x00\x00\x00\x00", _noise(dice)))


def _pipeline(dice: Dice) -> bytes:
    return b"".join(_request(dice) for _ in range(dice.choice((2, 3, 20))))


def _chunks(dice: Dice) -> bytes:
    sizes = dice.choice(((1,) * 2000, (5, 70_000, 70_000), (0,), (3, 0), (15, 0)))
    lines = b"".join(b"%x\r\n" % size + b"x" * size + b"\r\n" for size in sizes)
    odd = dice.choice(
        (b"", b"\r\n", b"zz\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"0\r\nTrailer: x\r\n\r\n", b"5\r\nab")
    )
    return _head(b"POST", dice.choice((PUBLISH, CLAIM)), b"Transfer-Encoding: chunked") + lines + odd


def _lengths(dice: Dice) -> bytes:
    """A request with a wrong length of the body."""
    said = dice.choice((b"5", b"99", b"9999999999", b"-1", b"+5", b"5, 6", b"x", b"\xb2", b"9" * 400))
    also = dice.choice(((), (b"Transfer-Encoding: chunked",), (b"Content-Length: 3",), (b"Expect: 100-continue",)))
    return _head(b"POST", dice.choice((PUBLISH, CLAIM)), b"Content-Length: " + said, *also) + b'{"body": 1}'


def _headers(dice: Dice) -> bytes:
    odd = dice.choice(
        (b"X:" + b"y" * 20_000, b"X", b": x", b"X y: z", b"X: \x00", b"Host: b", b"Origin: http://[", b"Cookie: \xff")
    )
    return _head(dice.choice(METHODS), dice.choice(PATHS), odd) + dice.choice((b"", _noise(dice)))


def _damaged(dice: Dice) -> bytes:
    text = bytearray(_request(dice, version=dice.choice((b"1.1", b"1.0", b"0.9", b"1.2", b"2.0", b"3"))))
    for _ in range(dice.randint(1, 5)):
        start = dice.randrange(len(text) + 1)
        text[start : start + dice.randrange(4)] = dice.randbytes(dice.randrange(4))
    return bytes(text)


def _other(dice: Dice) -> bytes:
    """Another protocol."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + dice.randbytes(500)
    return dice.choice((hello, _noise(dice), b"\r\n" * 50, b"GET / \r\n\r\n", b"SSH-2.0-x\r\n", b"\x05\x01\x00", b""))


def _cut(dice: Dice) -> bytes:
    whole = dice.choice((_request, _chunks, _websocket, _pipeline))(dice)
    return whole[: dice.randrange(len(whole) + 1)]


SHAPES: tuple[Callable[[Dice], bytes], ...] = (
    _old_and_more,
    _old_and_more,
    _last_and_more,
    _upgrade,
    _upgrade,
    _preface,
    _preface,
    _websocket,
    _websocket,
    _pipeline,
    _chunks,
    _lengths,
    _headers,
    _damaged,
    _other,
    _cut,
)


@define
class Heard:
    """The results of the streams."""

    answers: Counter[str] = field(factory=Counter[str])
    """Answers by the status of the first line; "" is no answer."""
    refused: int = 0
    """Connections that were refused."""
    stuck: list[int] = field(factory=list[int])
    """Numbers of half-closed streams whose connection the server kept open."""


async def send_streams(port: int, seed: int, count: int, trusting: ssl.SSLContext | None = None) -> Heard:
    """Sends the first `count` streams of the seed to a server on this machine; ends early when the server is gone.

    `trusting`: the TLS context, if the server speaks TLS.
    """
    heard = Heard()
    numbers = iter(range(count))

    async def send_some() -> None:
        for number in numbers:
            if heard.refused < 100:
                await _send(port, seed, number, heard, trusting)

    async with trio.open_nursery() as nursery:
        for _ in range(_AT_ONCE):
            nursery.start_soon(send_some)
    return heard


async def _send(port: int, seed: int, number: int, heard: Heard, trusting: ssl.SSLContext | None) -> None:
    dice = Dice(f"{seed}-{number}")
    data = dice.choice(SHAPES)(dice)
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        heard.refused += 1
        return
    end = dice.choice(("close", "reset", "half-close", "half-close", "answer"))
    got = b""
    async with stream:
        with suppress(trio.BrokenResourceError):
            talk = stream if trusting is None else await _begin_tls(dice, stream, trusting)
            for piece in _pieces(dice, data):
                await talk.send_all(piece)
                await trio.lowlevel.checkpoint()
            if end == "half-close":
                await stream.send_eof()
                with trio.move_on_after(_GRACE) as waiting:
                    async for came in talk:
                        got += bytes(came[:20])
                if waiting.cancelled_caught:
                    heard.stuck.append(number)
            elif end == "answer":
                with trio.move_on_after(0.05):
                    got = bytes(await talk.receive_some(20))
            elif end == "reset":
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    heard.answers[got[9:12].decode("ascii", "replace")] += 1


async def _begin_tls(dice: Dice, stream: trio.SocketStream, trusting: ssl.SSLContext) -> trio.abc.Stream:
    """The stream to send the rest over: after a TLS handshake, or in clear text although the server expects TLS."""
    begins = dice.choice((*["handshake"] * 6, "broken after it", "broken in it", "half a hello", "damaged", "nothing"))
    if begins in ("handshake", "broken after it"):
        sealed = trio.SSLStream(stream, trusting, server_hostname="127.0.0.1", https_compatible=True)
        await sealed.do_handshake()
        return sealed if begins == "handshake" else stream
    hello = bytearray(_hello(trusting))
    if begins == "half a hello":
        del hello[dice.randrange(len(hello)) :]
    elif begins == "damaged":
        hello[dice.randrange(len(hello))] = dice.randrange(256)
    if begins != "nothing":
        await stream.send_all(hello)
    if begins == "broken in it":
        await stream.receive_some(1 << 16)
    return stream


def _hello(trusting: ssl.SSLContext) -> bytes:
    """The bytes with which a TLS client begins."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        trusting.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1").do_handshake()
    return sent.read()


def _pieces(dice: Dice, data: bytes) -> list[bytes]:
    if dice.random() < 0.6:
        return [data]
    cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice((1, 3, 10))))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
