"""Calls that take no body refuse one: what it says would go unheard."""

import itertools
from collections.abc import AsyncIterator

import httpx
import pytest

from support.in_one import in_one
from support.spied import SpiedServer
from tarry.service.http.asgi import Request
from tarry.service.http.problems import Problem
from tarry.service.http.reading import refuse_body
from tarry.service.http.routes import OPERATIONS, Operation
from tarry.service.http.server.ports import Message

BARE = [operation for operation in OPERATIONS if operation.method == "POST" and not operation.requests]


def path_of(operation: Operation) -> str:
    return operation.path.format(id="7", name="daily", topic="orders", group="billing", client="ann")


def test_there_are_such_calls() -> None:
    assert {operation.name for operation in BARE} >= {"erase", "pause", "resume", "pause_schedule", "run_schedule"}


@in_one(("operation", "body"), itertools.product(BARE, [b'{"until": "tomorrow"}', b"[]", b"null"]))
async def test_a_body_is_refused(
    client: httpx.AsyncClient, server: SpiedServer, operation: Operation, body: bytes
) -> None:
    response = await client.post(path_of(operation), content=body)
    assert response.status_code == 400
    assert "takes no body" in response.json()["detail"]
    assert not server.asked, "nothing was done"


async def test_of_an_endless_body_no_more_is_read_than_it_takes_to_refuse_it() -> None:
    read = 0

    async def receive() -> Message:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b" " * 600, "more_body": True}

    request = Request({"method": "POST", "path": "/", "headers": [(b"transfer-encoding", b"chunked")]}, receive)
    with pytest.raises(Problem, match="takes no body"):
        await refuse_body(request)
    assert read == 2


@pytest.mark.parametrize("body", [b"", b"{}", b" {} \n"])
async def test_nothing_may_be_said_in_words(client: httpx.AsyncClient, server: SpiedServer, body: bytes) -> None:
    topic = await server.topic()
    await server.group(topic)
    response = await client.post("/v1/topics/orders/groups/billing/pause", content=body)
    assert response.status_code == 200, response.text


async def test_a_sign_of_life_says_nothing_whatever_its_type(client: httpx.AsyncClient, server: SpiedServer) -> None:
    response = await client.post("/v1/clients/ann/renew", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert response.status_code == 200, response.text
    assert server.all("liveness.renew") == [("ann",)]


async def test_a_body_in_pieces_is_refused_too(client: httpx.AsyncClient, server: SpiedServer) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        yield b'"a": 1}'

    response = await client.post("/v1/topics/orders/groups/billing/pause", content=pieces())
    assert response.status_code == 400
    assert not server.asked
