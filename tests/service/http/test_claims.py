"""Claims, their settlement, and pulling by offset."""

import json
from typing import Any

import httpx
import pytest
import trio

from support.in_one import in_one
from support.nodes import name_of
from support.spied import NOW, SpiedServer
from support.wrong_input import faults, in_turn
from tarry.service.http.server.ports import ARRIVED, Receive, Scope, Send
from tarry.service.http.server.ports import App as ASGIApp
from tarry.store.groups import holdings
from tarry.store.groups.claim_ids import parse_claim
from tarry.store.records import ClaimRequest, ReadRequest, Topic
from tarry.wheel.ladder import Ladder

CLAIM = "/v1/topics/orders/groups/billing/claim"
HELD = "/v1/claims/1-1-1-41-63"
HOUR = 3_600_000


def claims_asked(server: SpiedServer) -> list[tuple[Any, ...]]:
    """The group's name, the wish and the wait of each claim."""
    return [(group.name, *asked) for group, *asked in server.all("groups.claim")]


async def hold(server: SpiedServer, *, lease: int = 60_000, **topic: Any) -> tuple[str, list[str]]:
    """The path of a claim of three messages, and their ids."""
    made = await server.topic(**topic)
    receipts = await server.publish(made, b"1", b"2", b"3")
    name = name_of(await server.claim(await server.group(made), lease=lease))
    return f"/v1/claims/{name}", [str(receipt.id) for receipt in receipts]


async def test_a_claim_gives_messages_as_they_came(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    server.ms = NOW - 5000
    labels = {"key": "order-7", "headers": b'{"a":"b"}'}
    (receipt,) = await server.publish(topic, b'{"order":  7}', **labels, deliver_at=NOW - 5001)
    await server.publish(topic, b"\x00", content_type="image/png")
    server.ms = NOW
    response = await client.post(CLAIM, json={"client": "c1"})
    assert response.status_code == 200
    assert b'"body":{"order":  7}' in response.content
    answer = response.json()
    assert list(parse_claim(answer["claim"])) == await server.store.read(holdings.open_claims, ["c1"])
    assert answer["lease_until"] == "2026-11-21T10:01:00.000Z"
    assert answer["messages"][0] == {
        "id": str(receipt.id),
        "topic": "orders",
        "queue": 0,
        "offset": 0,
        "key": "order-7",
        "ordering_key": None,
        "tag": None,
        "body": {"order": 7},
        "headers": {"a": "b"},
        "attempt": 1,
        "published_at": "2026-11-21T09:59:55.000Z",
        "deliver_at": "2026-11-21T09:59:54.999Z",
    }
    second = answer["messages"][1]
    assert (second["body_base64"], second["content_type"], second["headers"]) == ("AA==", "image/png", None)
    assert claims_asked(server) == [("billing", ClaimRequest("c1", 10, 60_000), 0)]


async def test_nothing_to_claim(client: httpx.AsyncClient) -> None:
    response = await client.post(CLAIM, json={"client": "c1"})
    assert response.json() == {"claim": None, "messages": []}


@pytest.mark.parametrize(
    ("wish", "asked"),
    [
        ({"max": 1000, "lease": "12h"}, ClaimRequest("c1", 1000, 12 * HOUR)),
        ({"max": 1, "lease": 1}, ClaimRequest("c1", 1, 1)),
        ({"client": "10.0.0.1-42-é"}, ClaimRequest("10.0.0.1-42-é", 10, 60_000)),
        ({"tags": ["red", "blue", "red"]}, ClaimRequest("c1", 10, 60_000, frozenset({"red", "blue"}))),
    ],
)
async def test_a_claims_wishes(
    client: httpx.AsyncClient, server: SpiedServer, wish: dict[str, Any], asked: ClaimRequest
) -> None:
    assert (await client.post(CLAIM, json={"client": "c1", **wish})).status_code == 200
    assert claims_asked(server) == [("billing", asked, 0)]


@pytest.mark.parametrize(("ago", "left"), [(0, 30_000), (12, 18_000), (40, 0)])
async def test_a_wait_begins_with_the_arrival_of_its_request(
    app: ASGIApp, server: SpiedServer, mock_clock: trio.testing.MockClock, ago: int, left: int
) -> None:
    """However long the request has stood in line. Trio's time stands still."""
    await server.publish(await server.topic(), b"1")

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, ARRIVED: trio.current_time() - ago}, receive, send)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=late), base_url="http://127.0.0.1:8277") as client:
        await client.post(CLAIM, json={"client": "c1", "wait": "30s"})
        assert claims_asked(server) == [("billing", ClaimRequest("c1", 10, 60_000), left)]
        await client.get("/v1/topics/orders/queues/0/messages?wait=30s")
        assert [asked[-1] for asked in server.all("readers.pull")] == [left]


@pytest.mark.parametrize(("begin", "latest"), [(None, False), ("earliest", False), ("latest", True)])
async def test_where_a_new_group_begins(
    client: httpx.AsyncClient, server: SpiedServer, begin: str | None, latest: bool
) -> None:
    await server.publish(await server.topic(), b"1")
    answer = (await client.post(CLAIM, json={"client": "c1", "from": begin})).json()
    assert [message["body"] for message in answer["messages"]] == ([] if latest else [1])


@in_one(
    ("pointer", "wrong"),
    [
        *in_turn("/client", None, "", "a\nb", "x" * 256),
        *in_turn("/max", 0, 1001, "10"),
        *in_turn("/wait", "31s", -1),
        *in_turn("/lease", 0, "13h"),
        *in_turn("/from", "yesterday"),
        *in_turn("/tags", [], ["a"] * 101, "a"),
        *in_turn("/tags/1", ["a", ""], ["a", "é" * 128]),
        *in_turn("/clinet", "c"),
    ],
)
async def test_what_is_wrong_with_a_claim(
    client: httpx.AsyncClient, server: SpiedServer, pointer: str, wrong: Any
) -> None:
    response = await client.post(CLAIM, json={"client": "c1", pointer.split("/")[1]: wrong})
    assert faults(response) == [pointer]
    assert server.asked == []
    assert response.json()["type"] == "/problems/bad-request"


async def test_a_claim_names_its_client(client: httpx.AsyncClient) -> None:
    response = await client.post(CLAIM)
    assert response.json()["errors"] == [{"detail": "it is required", "pointer": "/client"}]


LAST_RUNG: dict[str, Any] = {"ladder": Ladder(())}


@pytest.mark.parametrize(
    ("topic", "call", "request_", "asked", "answer"),
    [
        ({}, "ack", None, {"ids": None}, {"acked": 3}),
        ({}, "ack", {}, {"ids": None}, {"acked": 3}),
        ({}, "ack", {"ids": []}, {"ids": ()}, {"acked": 0}),
        ({}, "ack", {"ids": [0, 1, 0]}, {"ids": (0, 1)}, {"acked": 2}),
        (
            {},
            "fail",
            {"ids": [0], "reason": "no ink", "retry_after": "1h", "count": False},
            {"ids": (0,), "reason": "no ink", "retry_after": HOUR, "count": False},
            {"retried": 1, "dead": 0},
        ),
        (
            LAST_RUNG,
            "fail",
            {"retry_after": 0},
            {"ids": None, "reason": None, "retry_after": 0, "count": True},
            {"retried": 0, "dead": 3},
        ),
        ({}, "extend", {"lease": "5m"}, {"lease": 300_000, "begun": ()}, {"lease_until": "2026-11-21T10:05:00.000Z"}),
    ],
)
async def test_settle(
    client: httpx.AsyncClient,
    server: SpiedServer,
    topic: dict[str, Any],
    call: str,
    request_: dict[str, Any] | None,
    asked: dict[str, Any],
    answer: dict[str, Any],
) -> None:
    """Ids stand here as places among the three messages of the claim."""
    held, ids = await hold(server, **topic)
    if request_ and "ids" in request_:
        request_ = request_ | {"ids": [ids[place] for place in request_["ids"]]}
    if asked.get("ids") is not None:
        asked = asked | {"ids": tuple(int(ids[place]) for place in asked["ids"])}
    response = await client.post(f"{held}/{call}", content=None if request_ is None else json.dumps(request_))
    assert (response.status_code, response.json()) == (200, answer)
    assert server.all("groups.settle") == [(held.rpartition("/")[2], call)]
    assert server.named("groups.settle") == [asked]


@pytest.mark.parametrize(("call", "request_"), [("ack", {}), ("fail", {}), ("extend", {"lease": 5})])
async def test_a_lost_lease_is_a_conflict(
    client: httpx.AsyncClient, server: SpiedServer, call: str, request_: dict[str, Any]
) -> None:
    held, _ = await hold(server, lease=1000)
    server.ms += 1000
    response = await client.post(f"{held}/{call}", json=request_)
    assert response.status_code == 409
    assert (response.json()["type"], response.json()["result"]) == ("/problems/lease-lost", "lease_lost")


async def test_a_long_reason_is_cut_and_the_fail_goes_through(client: httpx.AsyncClient, server: SpiedServer) -> None:
    held, (id_, *_) = await hold(server)
    assert (await client.post(f"{held}/fail", json={"reason": "é" * 5000})).status_code == 200
    life = (await client.get(f"/v1/messages/{id_}")).json()["life"]
    (reason,) = [event["reason"] for event in life if event["what"] == "failed"]
    assert reason.startswith("éé")
    assert reason.endswith("é…")
    assert len(reason.encode()) <= 1024


@in_one(
    ("call", "request_", "pointer"),
    [
        ("ack", {"ids": ["x"]}, "/ids/0"),
        ("ack", {"ids": ["7", "9223372036854775808"]}, "/ids/1"),
        ("ack", {"ids": [7]}, "/ids/0"),
        ("ack", {"ids": "7"}, "/ids"),
        ("ack", {"id": "7"}, "/id"),
        ("fail", {"retry_after": "3651d"}, "/retry_after"),
        ("fail", {"count": 1}, "/count"),
        ("fail", {"reason": 1}, "/reason"),
        ("extend", {}, "/lease"),
        ("extend", {"lease": 0}, "/lease"),
        ("extend", {"lease": None}, "/lease"),
        ("extend", {"lease": "13h"}, "/lease"),
    ],
)
async def test_what_is_wrong_with_a_settlement(
    client: httpx.AsyncClient, server: SpiedServer, call: str, request_: dict[str, Any], pointer: str
) -> None:
    response = await client.post(f"{HELD}/{call}", json=request_)
    assert faults(response) == [pointer]
    assert "regex" not in response.text
    assert server.asked == []


async def test_a_queue_is_pulled_by_offset(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic(queues=2)
    queue = topic.queues[1]
    _, second, _, fourth = await server.publish(topic, b"1", b"2", b"3", b"4", queue=queue)
    await server.store.backend.write(lambda tx: tx.execute("message.remove", queue.id, 2, 3))
    response = await client.get("/v1/topics/orders/queues/1/messages?offset=1&max=5&wait=2s")
    assert [message["id"] for message in response.json()["messages"]] == [str(second.id), str(fourth.id)]
    assert response.json()["next_offset"] == 4
    assert server.all("readers.pull") == [(queue, 1, 5, 2000)]
    response = await client.get("/v1/topics/orders/queues/1/messages?offset=4")
    assert response.json() == {"messages": [], "next_offset": 4}


@in_one(
    ("path", "status"),
    [
        ("orders/queues/2/messages", 404),
        ("orders/queues/x/messages", 404),
        ("orders/queues/01/messages", 404),
        ("none/queues/0/messages", 404),
        ("orders/queues/0/messages?offset=-1", 400),
        ("orders/queues/0/messages?offset=%D9%A1", 400),
        ("orders/queues/0/messages?max=1001", 400),
        ("orders/queues/0/messages?wait=31s", 400),
        ("orders/queues/0/messages?wait=soon", 400),
        ("orders/queues/0/messages?limit=5", 400),
    ],
)
async def test_what_cannot_be_pulled(client: httpx.AsyncClient, server: SpiedServer, path: str, status: int) -> None:
    await server.topic(queues=2)
    response = await client.get(f"/v1/topics/{path}")
    assert response.status_code == status
    if status == 400:
        assert response.json()["errors"][0]["parameter"] in path
    assert [topic.name for topic in server.node.directory.some(1000)] == ["orders"]


async def broadcast(server: SpiedServer) -> Topic:
    return await server.topic(kind="broadcast", queues=2)


async def test_a_broadcast_claim_has_no_claim_and_a_next(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await broadcast(server)
    await client.post(CLAIM, json={"client": "c1"})  # from now on it is known
    (receipt,) = await server.publish(topic, b"1", queue=topic.queues[1], tag="red")
    answer = (await client.post(CLAIM, json={"client": "c1", "wait": "5s", "tags": ["red"]})).json()
    assert (answer["claim"], answer["next"], [m["id"] for m in answer["messages"]]) == (None, "1-1", [str(receipt.id)])
    assert "lease_until" not in answer
    (_, (request, wait)) = server.all("readers.read_on")
    group = await server.group(topic)
    assert request == ReadRequest(group, "c1", 10, None, moves=True, latest=True, tags=frozenset({"red"}))
    assert wait == 5000


async def test_a_broadcast_client_may_begin_at_a_time(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await broadcast(server)
    for text, since in (("2026-11-21T10:00:00Z", NOW), ("earliest", None), ("latest", None)):
        assert (await client.post(CLAIM, json={"client": "c1", "from": text})).status_code == 200
        request, _ = server.all("readers.read_on")[-1]
        assert request.since == since
    response = await client.post(CLAIM, json={"client": "c1", "from": "noon"})
    assert faults(response) == ["/from"]


@pytest.mark.parametrize(
    ("wish", "after", "moves", "latest"),
    [
        ({"after": "1-2"}, (1, 2), False, True),
        ({"after": ""}, None, False, True),
        ({"from": "earliest"}, None, True, False),
        ({"from": "latest", "after": "0-0"}, (0, 0), False, True),
    ],
)
async def test_the_wishes_of_a_broadcast_client(
    client: httpx.AsyncClient,
    server: SpiedServer,
    wish: dict[str, Any],
    after: tuple[int, int] | None,
    moves: bool,
    latest: bool,
) -> None:
    topic = await broadcast(server)
    await server.publish(topic, b"1", b"2", queue=topic.queues[1])
    assert (await client.post(CLAIM, json={"client": "c1", **wish})).status_code == 200
    ((request, _),) = server.all("readers.read_on")
    place = None if after is None else (topic.queues[after[0]], after[1])
    assert (request.after, request.moves, request.latest) == (place, moves, latest)


@in_one("after", ["x", "2-0", "0", "-1", "0--1", "0-1-2", "0-9999999999999999999", "0-9"])
async def test_a_next_that_is_none(client: httpx.AsyncClient, server: SpiedServer, after: str) -> None:
    """The last is behind the end, which only the store knows."""
    await broadcast(server)
    response = await client.post(CLAIM, json={"client": "c1", "after": after})
    assert faults(response) == ["/after"]
    assert (server.all("readers.read_on") != []) == (after == "0-9")


async def test_after_is_of_broadcast_topics(client: httpx.AsyncClient) -> None:
    response = await client.post(CLAIM, json={"client": "c1", "after": "0-5"})
    assert faults(response) == ["/after"]
    assert (await client.post(CLAIM, json={"client": "c1", "after": ""})).status_code == 200, "it says nothing"


@pytest.mark.parametrize("verb", ["ack", "fail", "extend"])
async def test_a_broadcast_message_is_not_settled(client: httpx.AsyncClient, verb: str) -> None:
    response = await client.post(f"/v1/claims/null/{verb}", json={"lease": 1} if verb == "extend" else {})
    assert (response.status_code, response.json()["type"]) == (409, "/problems/nothing-to-settle")
