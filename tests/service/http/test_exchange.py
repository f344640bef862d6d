"""An answer as HTTP/1 has it, whatever the app sends; what is no answer never reaches the client."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from tarry.service.http.server.connection import Connection
from tarry.service.http.server.exchange import AppFault
from tarry.service.http.server.heads import head
from tarry.service.http.server.ports import Message, Receive, Scope, Send
from tarry.service.http.server.terms import Limits, Terms

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
LENGTH = (b"content-length", b"4")


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(piece: bytes = b"", more: bool = False) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}


async def answers(asked: bytes, *messages: Message) -> tuple[bytes, Exception | None]:
    """What a client hears of an app that sends this to each request, and what became of the connection."""
    near, far = memory_stream_pair()
    raised: list[Exception] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    async def serve() -> None:
        async with far:
            try:
                await Connection(Terms(app, Limits(1 << 20), 20), far).run()
            except Exception as error:
                raised.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        await near.send_all(asked)
        await near.send_eof()
        heard = b"".join([bytes(piece) async for piece in near])
    return heard, raised[0] if raised else None


def head_and_body(answer: bytes) -> tuple[list[bytes], bytes]:
    """The lines of the head without its date, and what follows."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    return [line for line in head.split(b"\r\n") if not line.startswith(b"date: ")], rest


@pytest.mark.parametrize(
    ("messages", "head", "rest"),
    [
        ([start(200, LENGTH), body(b"four")], [b"HTTP/1.1 200 OK", b"content-length: 4"], b"four"),
        ([start(200), body(b"four")], [b"HTTP/1.1 200 OK", b"content-length: 4"], b"four"),
        ([start(200), body()], [b"HTTP/1.1 200 OK", b"content-length: 0"], b""),
        ([start(204), body()], [b"HTTP/1.1 204 No Content"], b""),
        ([start(304, LENGTH), body(b"four")], [b"HTTP/1.1 304 Not Modified", b"content-length: 4"], b""),
        ([start(299), body()], [b"HTTP/1.1 299 ", b"content-length: 0"], b""),
        ([start(799), body()], [b"HTTP/1.1 799 ", b"content-length: 0"], b""),
        (
            [start(), body(b"ab", True), body(b"", True), body(b"c" * 20, True), body()],
            [b"HTTP/1.1 200 OK", b"transfer-encoding: chunked"],
            b"2\r\nab\r\n14\r\n" + b"c" * 20 + b"\r\n0\r\n\r\n",
        ),
        (
            [start(), body(b"ab", True), body(b"c")],
            [b"HTTP/1.1 200 OK", b"transfer-encoding: chunked"],
            b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        ),
        ([start(200, LENGTH), body(b"fo", True), body(b"ur")], [b"HTTP/1.1 200 OK", b"content-length: 4"], b"four"),
    ],
)
async def test_each_answer_has_its_framing(
    messages: list[Message], head: list[bytes], rest: bytes, autojump_clock: MockClock
) -> None:
    heard, raised = await answers(GET, *messages)
    assert raised is None
    assert head_and_body(heard) == (head, rest)
    twice, _ = await answers(GET + GET, *messages)
    assert twice.count(b"HTTP/1.1") == 2


async def test_head_has_the_head_alone(autojump_clock: MockClock) -> None:
    for messages in ([start(200, LENGTH), body(b"four")], [start(200), body(b"fo", True), body(b"ur")]):
        heard, raised = await answers(GET.replace(b"GET", b"HEAD") + GET, *messages)
        assert raised is None
        assert heard.count(b"HTTP/1.1 200") == 2
        assert heard.count(b"\r\n\r\nHTTP/1.1") == 1


async def test_to_http_1_0_the_end_is_the_end_of_the_connection(autojump_clock: MockClock) -> None:
    heard, _ = await answers(GET.replace(b"1.1", b"1.0"), start(), body(b"ab", True), body(b"c"))
    assert head_and_body(heard) == ([b"HTTP/1.1 200 OK", b"connection: close"], b"abc")


@pytest.mark.parametrize("closes", [b"close", b"Close"])
async def test_the_app_may_end_the_connection(closes: bytes, autojump_clock: MockClock) -> None:
    heard, _ = await answers(GET + GET, start(200, (b"connection", closes)), body())
    assert (heard.count(b"HTTP/1.1"), heard.lower().count(b"connection: close")) == (1, 1)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb", b"a\0b"])
async def test_a_header_cannot_become_two(value: bytes, autojump_clock: MockClock) -> None:
    heard, raised = await answers(GET, start(200, (b"x", value)), body())
    assert heard == b""
    assert isinstance(raised, ValueError)


@pytest.mark.parametrize(
    ("messages", "heard_of"),
    [
        ([], b""),
        ([start()], b""),
        ([body(b"x")], b""),
        ([start(200, LENGTH), body(b"more than four")], b""),
        ([start(200, LENGTH), body(b"two")], b""),
        ([start(), start(), body()], b""),
        ([start(), body(b"a", True)], b"a"),
        ([start(), body(b"a"), body(b"b")], b"a"),
    ],
)
async def test_what_is_no_answer_ends_the_connection(
    messages: list[Message], heard_of: bytes, autojump_clock: MockClock
) -> None:
    heard, raised = await answers(GET + GET, *messages)
    assert isinstance(raised, AppFault)
    assert heard.count(b"HTTP/1.1") == (1 if heard_of else 0)
    assert not heard.endswith(b"0\r\n\r\n")


def test_a_status_is_never_looked_up_in_vain() -> None:
    for status in range(1000):
        line: Any = head(status, []).split(b"\r\n")[0]
        assert line.startswith(b"HTTP/1.1 %d " % status)
