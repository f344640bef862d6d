"""What is too large is refused before it is read, and a client that goes away leaves nothing behind."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
import trio

from support.doors import front_door
from support.nodes import name_of
from support.spied import SpiedServer
from tarry.service.http.server.ports import PRESENCE, Message, Presence
from tarry.service.http.server.ports import App as ASGIApp
from tarry.service.metrics import Metrics

ORDERS = "/v1/topics/orders/messages"
DEAD = "/v1/topics/orders/groups/billing/dead"
CLAIM = "/v1/topics/orders/groups/billing/claim"
WAITING_CLAIM = b'{"client": "c1", "wait": "30s"}'
WAITING_PULL = "/v1/topics/orders/queues/0/messages"


class Endless(httpx.AsyncByteStream):
    """A body without an end; it counts what was taken of it."""

    def __init__(self, chunk: bytes = b"x" * 4096) -> None:
        self.chunk = chunk
        self.taken = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self.taken += len(self.chunk)
        return self.chunk

    async def post(self, client: httpx.AsyncClient, path: str, headers: dict[str, str]) -> httpx.Response:
        """As a request's body."""
        request = client.build_request("POST", path, content=self, headers=headers)
        request.stream = self  # httpx's own is a generator, which it does not close
        return await client.send(request)


@pytest.mark.parametrize(("path", "limit"), [(ORDERS, 8192 + 65536), (CLAIM, 65536)])
@pytest.mark.parametrize("length", [10**9, 10**30])
async def test_a_length_over_the_limit_is_refused_unread(
    client: httpx.AsyncClient, server: SpiedServer, path: str, limit: int, length: int
) -> None:
    body = Endless()
    response = await body.post(client, path, {"Content-Length": str(length)})
    assert (response.status_code, response.json()["type"]) == (413, "/problems/too-large")
    assert str(limit) in response.json()["detail"]
    assert body.taken == 0
    assert server.asked == []


@pytest.mark.parametrize(("path", "limit"), [(ORDERS, 8192 + 65536), (CLAIM, 65536)])
@pytest.mark.parametrize("headers", [{}, {"Content-Length": "5"}, {"Content-Length": "many"}])
async def test_an_endless_body_is_cut_at_the_limit(
    client: httpx.AsyncClient, path: str, limit: int, headers: dict[str, str]
) -> None:
    body = Endless()
    response = await body.post(client, path, headers)
    assert response.status_code == 413
    assert limit < body.taken <= limit + 2 * len(body.chunk)


TEN_THOUSAND = 10_000


@pytest.mark.parametrize("call", [DEAD + "/redrive", DEAD + "/purge"])
async def test_ten_thousand_ids_have_room(client: httpx.AsyncClient, server: SpiedServer, call: str) -> None:
    """Written widely, too."""
    await server.group(await server.topic())
    ids = [str(10**18 + place) for place in range(TEN_THOUSAND)]
    for indent in (None, 8):
        response = await client.post(call, content=json.dumps({"ids": ids}, indent=indent))
        assert response.status_code == 200, response.text
    await one_too_many(client, call, ids)


@pytest.mark.parametrize(
    ("verb", "answer"), [("ack", {"acked": TEN_THOUSAND}), ("fail", {"retried": TEN_THOUSAND, "dead": 0})]
)
async def test_ten_thousand_messages_have_room(
    client: httpx.AsyncClient, server: SpiedServer, verb: str, answer: dict[str, int]
) -> None:
    """Written widely, too."""
    topic = await server.topic()
    ids = [str(receipt.id) for receipt in await server.publish(topic, *[b"1"] * TEN_THOUSAND)]
    call = ""
    for indent in (None, 8):
        claim = await server.claim(await server.group(topic, f"indented-{indent}"), size=TEN_THOUSAND)
        call = f"/v1/claims/{name_of(claim)}/{verb}"
        response = await client.post(call, content=json.dumps({"ids": ids}, indent=indent))
        assert (response.status_code, response.json()) == (200, answer)
    await one_too_many(client, call, ids)


async def one_too_many(client: httpx.AsyncClient, call: str, ids: list[str]) -> None:
    response = await client.post(call, json={"ids": [*ids, "1"]})
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "/ids"


async def test_a_body_of_many_small_pieces_is_read(client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for byte in b'{"body": "in pieces"}':
            yield bytes([byte])

    assert (await client.post(ORDERS, content=pieces())).status_code == 201
    assert b'"body":"in pieces"' in (await client.get(WAITING_PULL)).content


@pytest.mark.parametrize("size", [1024, 1025])
@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("field", ["body", "body_base64"])
async def test_each_body_has_its_limit(client: httpx.AsyncClient, size: int, batch: bool, field: str) -> None:
    encoded = base64.b64encode(bytes(size)).decode()
    message = {"body": "x" * (size - 2)} if field == "body" else {"body_base64": encoded}
    request: dict[str, Any] = {"messages": [{"body": 1}] * 3 + [message]} if batch else message
    response = await client.post(ORDERS, json=request)
    assert response.status_code == (201 if size == 1024 else 413), response.text
    if size > 1024:
        assert response.json()["errors"][0]["pointer"] == ("/messages/3/" if batch else "/") + field
        assert response.json()["executed"] is False


async def test_too_large_and_wrong_is_wrong(client: httpx.AsyncClient) -> None:
    messages: list[dict[str, Any]] = [{"body": "x" * 2000}, {"body": 1, "key": ""}]
    response = await client.post(ORDERS, json={"messages": messages})
    assert response.status_code == 400
    assert [error["pointer"] for error in response.json()["errors"]] == ["/messages/0/body", "/messages/1/key"]


def scope(method: str, path: str, query: bytes = b"") -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": [(b"host", b"localhost")],
        "scheme": "http",
        "root_path": "",
    }


def awaited(server: SpiedServer) -> set[int]:
    growth = server.node.growth
    return growth.groups.awaited | growth.listeners.awaited


async def somebody_waits(server: SpiedServer) -> None:
    while not awaited(server):
        await trio.sleep(0.001)


@pytest.mark.parametrize(
    ("method", "path", "query", "body"),
    [("POST", CLAIM, b"", WAITING_CLAIM), ("GET", WAITING_PULL, b"wait=30s", b"")],
)
async def test_a_client_that_goes_away_ends_its_long_poll(
    app: ASGIApp, server: SpiedServer, method: str, path: str, query: bytes, body: bytes
) -> None:
    await server.topic()
    presence = Presence()
    incoming: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(app, {**scope(method, path, query), PRESENCE: presence}, receive, send)
            await somebody_waits(server)
            presence.leave()
    assert not awaited(server)
    assert [message["status"] for message in sent if "status" in message] == [499]


async def test_a_client_that_goes_away_in_its_body_asks_for_nothing(app: ASGIApp, server: SpiedServer) -> None:
    incoming: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b'{"client": "c1"', "more_body": True},
    ]

    async def receive() -> Message:
        return incoming.pop()

    async def send(message: Message) -> None:
        pass

    await app(scope("POST", CLAIM), receive, send)
    assert server.asked == []


@pytest.fixture
async def address(app: ASGIApp, nursery: trio.Nursery) -> tuple[str, int]:
    """Of the front door, with the app behind it."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(front_door(app).serve, [listener], trio.Event())
    port: int = listener.socket.getsockname()[1]
    return "127.0.0.1", port


async def answered(stream: trio.SocketStream) -> bytes:
    return b"".join([piece async for piece in stream])


def head(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


async def test_the_door_refuses_a_length_over_the_limit_and_hangs_up(address: tuple[str, int]) -> None:
    with trio.fail_after(10):
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(head(ORDERS, "Content-Length: 10000000000"))
            answer = await answered(stream)
            assert answer.startswith(b"HTTP/1.1 413")
            assert b"connection: close" in answer


async def test_the_door_cuts_an_endless_body(address: tuple[str, int]) -> None:
    with trio.fail_after(10):
        sent = 0
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(head(ORDERS, "Transfer-Encoding: chunked"))
            with suppress(trio.BrokenResourceError):
                while sent < 100 << 20:
                    await stream.send_all(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                    sent += 65536
        # What lies in the sockets' buffers is not ours to count, but the stream did not go on for ever.
        assert sent < 50 << 20


async def test_the_door_tells_of_a_client_that_goes_away(
    address: tuple[str, int], server: SpiedServer, metrics: Metrics
) -> None:
    with trio.fail_after(10):
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(head(CLAIM, f"Content-Length: {len(WAITING_CLAIM)}") + WAITING_CLAIM)
        await somebody_waits(server)
        await stream.aclose()
        while b'status="499"' not in metrics.text():
            await trio.sleep(0.005)
        assert not awaited(server)
        await server.publish(await server.topic(), b"1")
        async with await trio.open_tcp_stream(*address) as another:
            length = f"Content-Length: {len(WAITING_CLAIM)}"
            await another.send_all(head(CLAIM, length, "Connection: close") + WAITING_CLAIM)
            answer = await answered(another)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b'"body":1' in answer
