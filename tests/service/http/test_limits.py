"""Limits of a topic: what is beyond them is 429 with Retry-After, and nothing of it is written."""

import json
from typing import Any

import httpx
import pytest
import trio

from support.spied import SpiedServer

ORDERS = "/v1/topics/orders"
MESSAGES = f"{ORDERS}/messages"
LATER = {"body": 1, "delay": "1h"}


async def pending(client: httpx.AsyncClient) -> tuple[int, int]:
    topic = (await client.get(ORDERS)).json()
    return topic["pending"], topic["accepted"]


def refused(response: httpx.Response) -> None:
    assert (response.status_code, response.json()["type"]) == (429, "/problems/too-many")
    assert response.json()["executed"] is False
    assert int(response.headers["Retry-After"]) > 0


async def test_no_more_wait_than_may(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put(ORDERS, json={"max_pending": 3})
    assert (await client.post(MESSAGES, json={"messages": [LATER, LATER]})).status_code == 201
    refused(await client.post(MESSAGES, json={"messages": [LATER, LATER]}))
    assert await pending(client) == (2, 2), "all of a batch or nothing"
    first = await client.post(MESSAGES, json=LATER)
    assert first.status_code == 201
    refused(await client.post(MESSAGES, json=LATER))
    assert (await client.post(MESSAGES, json={"body": 1})).status_code == 201, "one for now does not wait"
    assert await pending(client) == (3, 4)
    await client.delete(f"/v1/messages/{first.json()['id']}")
    server.ms += 1_000
    assert (await client.post(MESSAGES, json=LATER)).status_code == 201
    refused(await client.post(MESSAGES, json=LATER))
    await client.put(ORDERS, json={"max_pending": None})
    assert (await client.post(MESSAGES, json=LATER)).status_code == 201


async def test_other_topics_feel_nothing(client: httpx.AsyncClient) -> None:
    await client.put(ORDERS, json={"max_pending": 0, "max_rate": 1})
    refused(await client.post(MESSAGES, json=LATER))
    for _ in range(5):
        assert (await client.post("/v1/topics/mails/messages", json=LATER)).status_code == 201


async def test_no_more_are_accepted_a_second(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put(ORDERS, json={"max_rate": 2})
    for _ in range(2):
        assert (await client.post(MESSAGES, json={"body": 1})).status_code == 201
    answer = await client.post(MESSAGES, json={"body": 1})
    refused(answer)
    server.ms += 1_000 * int(answer.headers["Retry-After"])
    assert (await client.post(MESSAGES, json={"body": 1})).status_code == 201
    server.ms += 10_000
    assert (await client.post(MESSAGES, json={"messages": [{"body": 1}] * 3})).status_code == 201
    await client.put(ORDERS, json={"max_rate": 1})
    server.ms += 10_000
    assert (await client.post(MESSAGES, json={"messages": [{"body": 1}] * 3})).status_code == 201, "who has rested"
    answer = await client.post(MESSAGES, json={"body": 1})
    refused(answer)
    assert answer.headers["Retry-After"] == "3"
    server.ms += 2_999
    refused(await client.post(MESSAGES, json={"body": 1}))
    server.ms += 1
    assert (await client.post(MESSAGES, json={"messages": [{"body": 1}] * 3})).status_code == 201
    assert (await pending(client))[1] == 12


async def test_a_replay_takes_nothing(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put(ORDERS, json={"max_rate": 1})
    for number in range(4):
        answer = await client.post(MESSAGES, json={"body": 1}, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 201
        assert answer.json().get("replayed", False) == (number > 0)
        server.ms += 0 if number else 1_001
    assert (await client.post(MESSAGES, json={"body": 1})).status_code == 201


async def test_of_lines_each_has_its_verdict(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put(ORDERS, json={"max_pending": 2, "queues": 2})
    lines: list[dict[str, Any]] = [
        LATER,
        LATER,
        LATER | {"ordering_key": "a"},
        {"body": 2},
        {"body": 3, "ordering_key": "a"},
    ]
    lines.append({"body": 4, "ordering_key": "b"})
    text = "\n".join(map(json.dumps, lines))
    answer = await client.post(MESSAGES, content=text, headers={"content-type": "application/x-ndjson"})
    verdicts = [json.loads(line) for line in answer.text.splitlines()]
    kinds = [one["error"]["type"] if "error" in one else one["state"] for one in verdicts]
    no = "/problems/too-many"
    assert kinds == ["scheduled", "scheduled", no, "published", no, "published"], "nothing passes one of its key"
    assert await pending(client) == (2, 4)


async def test_a_timer_that_replaces_another_makes_no_more_that_wait(client: httpx.AsyncClient) -> None:
    await client.put(ORDERS, json={"max_pending": 1})
    for status in (201, 200, 200):
        assert (await client.put(f"{ORDERS}/timers/a", json=LATER)).status_code == status
    refused(await client.put(f"{ORDERS}/timers/b", json=LATER))
    assert (await client.delete(f"{ORDERS}/timers/a")).status_code == 200, "a cancel is no message"
    assert (await client.get(f"{ORDERS}/timers/b")).status_code == 404


@pytest.mark.parametrize("nodes", [1, 4])
async def test_each_node_has_its_share(
    client: httpx.AsyncClient, server: SpiedServer, monkeypatch: pytest.MonkeyPatch, nodes: int
) -> None:
    monkeypatch.setattr(server.node.nodes, "_place", (0, nodes))
    await client.put(ORDERS, json={"max_rate": 8})
    answers = [(await client.post(MESSAGES, json={"body": 1})).status_code for _ in range(10)]
    assert answers.count(201) == 8 // nodes


async def test_many_at_once_are_counted_while_they_are_written(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await client.put(ORDERS, json={"max_pending": 5})
    answers: list[int] = []

    async def publish() -> None:
        answers.append((await client.post(MESSAGES, json=LATER)).status_code)

    async with trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(publish)
    assert sorted(answers) == [201] * 5 + [429] * 7
    assert (await pending(client))[0] == 5
