"""Claims, their settlement, and pulling by offset."""

import json
from typing import Any

import httpx
import pytest
import trio
from attrs import evolve
from starlette.types import ASGIApp, Receive, Scope, Send

from support.recording_broker import NOW, RecordingBroker, claim, delivered
from tarry.service.errors import NothingToSettle
from tarry.service.http.pace import ARRIVED
from tarry.store.records import Queue, ReadAnswer, ReadRequest, Settled

CLAIM = "/v1/topics/orders/groups/billing/claim"
HELD = "/v1/claims/1-1-1-41-63"
HOUR = 3_600_000


async def test_a_claim_gives_messages_as_they_came(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.granted = claim(delivered(), delivered(8, b"\x00", content_type="image/png", headers=None))
    response = await client.post(CLAIM, json={"client": "c1"})
    assert response.status_code == 200
    assert b'"body":{"order":  7}' in response.content
    answer = response.json()
    assert (answer["claim"], answer["lease_until"]) == ("1-1-1-41-63", "2026-11-21T10:01:00.000Z")
    assert answer["messages"][0] == {
        "id": "7",
        "topic": "orders",
        "queue": 0,
        "offset": 41,
        "key": "order-7",
        "ordering_key": None,
        "tag": None,
        "body": {"order": 7},
        "headers": {"a": "b"},
        "attempt": 1,
        "published_at": "2026-11-21T09:59:55.000Z",
        "deliver_at": "2026-11-21T09:59:59.999Z",
    }
    second = answer["messages"][1]
    assert (second["body_base64"], second["content_type"], second["headers"]) == ("AA==", "image/png", None)
    assert ("claim", "billing", "c1", 10, 0, 60_000) in broker.calls


async def test_nothing_to_claim(client: httpx.AsyncClient) -> None:
    response = await client.post(CLAIM, json={"client": "c1"})
    assert response.json() == {"claim": None, "messages": []}


@pytest.mark.parametrize(
    ("wish", "asked"),
    [
        ({"max": 1000, "lease": "12h"}, ("c1", 1000, 0, 12 * HOUR)),
        ({"max": 1, "lease": 1}, ("c1", 1, 0, 1)),
        ({"client": "10.0.0.1-42-é"}, ("10.0.0.1-42-é", 10, 0, 60_000)),
    ],
)
async def test_a_claims_wishes(
    client: httpx.AsyncClient, broker: RecordingBroker, wish: dict[str, Any], asked: tuple[Any, ...]
) -> None:
    assert (await client.post(CLAIM, json={"client": "c1", **wish})).status_code == 200
    assert ("claim", "billing", *asked) in broker.calls


@pytest.mark.parametrize(("ago", "left"), [(0, 30_000), (12, 18_000), (40, 0)])
async def test_a_wait_begins_with_the_arrival_of_its_request(
    app: ASGIApp, broker: RecordingBroker, autojump_clock: trio.testing.MockClock, ago: int, left: int
) -> None:
    """However long the request has stood in line."""

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, ARRIVED: trio.current_time() - ago}, receive, send)

    broker.granted, broker.stream = claim(delivered()), [delivered()]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=late), base_url="http://127.0.0.1:8277") as client:
        await client.post(CLAIM, json={"client": "c1", "wait": "30s"})
        assert ("claim", "billing", "c1", 10, left, 60_000) in broker.calls
        broker.calls.clear()
        await client.get("/v1/topics/orders/queues/0/messages?wait=30s")
        assert [call[-1] for call in broker.calls if call[0] == "pull"] == [left]


@pytest.mark.parametrize(("begin", "latest"), [(None, False), ("earliest", False), ("latest", True)])
async def test_where_a_new_group_begins(
    client: httpx.AsyncClient, broker: RecordingBroker, begin: str | None, latest: bool
) -> None:
    await client.post(CLAIM, json={"client": "c1", "from": begin})
    assert ("group", "orders", "billing", True, latest) in broker.calls


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"client": None}, "/client"),
        ({"client": ""}, "/client"),
        ({"client": "a\nb"}, "/client"),
        ({"client": "x" * 256}, "/client"),
        ({"max": 0}, "/max"),
        ({"max": 1001}, "/max"),
        ({"max": "10"}, "/max"),
        ({"wait": "31s"}, "/wait"),
        ({"wait": -1}, "/wait"),
        ({"lease": 0}, "/lease"),
        ({"lease": "13h"}, "/lease"),
        ({"from": "yesterday"}, "/from"),
        ({"tags": []}, "/tags"),
        ({"tags": ["a", ""]}, "/tags/1"),
        ({"tags": ["a", "é" * 128]}, "/tags/1"),
        ({"tags": ["a"] * 101}, "/tags"),
        ({"tags": "a"}, "/tags"),
        ({"clinet": "c"}, "/clinet"),
    ],
)
async def test_what_is_wrong_with_a_claim(
    client: httpx.AsyncClient, broker: RecordingBroker, wrong: dict[str, Any], pointer: str
) -> None:
    response = await client.post(CLAIM, json={"client": "c1", **wrong})
    assert response.status_code == 400, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
    assert broker.calls == []
    assert response.json()["type"] == "/problems/bad-request"


async def test_a_claim_names_its_client(client: httpx.AsyncClient) -> None:
    response = await client.post(CLAIM)
    assert response.json()["errors"] == [{"detail": "it is required", "pointer": "/client"}]


@pytest.mark.parametrize(
    ("call", "request_", "settled", "asked", "answer"),
    [
        ("ack", None, Settled(acked=3), ("ack", None, None, None, True, 0), {"acked": 3}),
        ("ack", {}, Settled(acked=3), ("ack", None, None, None, True, 0), {"acked": 3}),
        ("ack", {"ids": []}, Settled(acked=0), ("ack", (), None, None, True, 0), {"acked": 0}),
        ("ack", {"ids": ["7", "8", "7"]}, Settled(acked=2), ("ack", (7, 8), None, None, True, 0), {"acked": 2}),
        (
            "fail",
            {"ids": ["7"], "reason": "no ink", "retry_after": "1h", "count": False},
            Settled(retried=1),
            ("fail", (7,), "no ink", HOUR, False, 0),
            {"retried": 1, "dead": 0},
        ),
        (
            *("fail", {"retry_after": 0}, Settled(dead=2)),
            ("fail", None, None, 0, True, 0),
            {"retried": 0, "dead": 2},
        ),
        (
            *("extend", {"lease": "5m"}, Settled(lease_until=NOW + 300_000)),
            ("extend", None, None, None, True, 300_000),
            {"lease_until": "2026-11-21T10:05:00.000Z"},
        ),
    ],
)
async def test_settle(
    client: httpx.AsyncClient,
    broker: RecordingBroker,
    call: str,
    request_: dict[str, Any] | None,
    settled: Settled,
    asked: tuple[Any, ...],
    answer: dict[str, Any],
) -> None:
    broker.settled = settled
    response = await client.post(f"{HELD}/{call}", content=None if request_ is None else json.dumps(request_))
    assert (response.status_code, response.json()) == (200, answer)
    assert broker.calls == [("settle", "1-1-1-41-63", *asked)]


@pytest.mark.parametrize(("call", "request_"), [("ack", {}), ("fail", {}), ("extend", {"lease": 5})])
async def test_a_lost_lease_is_a_conflict(
    client: httpx.AsyncClient, broker: RecordingBroker, call: str, request_: dict[str, Any]
) -> None:
    broker.settled = Settled(lost=True)
    response = await client.post(f"{HELD}/{call}", json=request_)
    assert response.status_code == 409
    assert (response.json()["type"], response.json()["result"]) == ("/problems/lease-lost", "lease_lost")


async def test_a_long_reason_is_cut_and_the_fail_goes_through(
    client: httpx.AsyncClient, broker: RecordingBroker
) -> None:
    assert (await client.post(f"{HELD}/fail", json={"reason": "é" * 5000})).status_code == 200
    reason = broker.calls[0][4]
    assert reason.startswith("éé")
    assert reason.endswith("é…")
    assert len(reason.encode()) <= 1024


@pytest.mark.parametrize(
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
    client: httpx.AsyncClient, broker: RecordingBroker, call: str, request_: dict[str, Any], pointer: str
) -> None:
    response = await client.post(f"{HELD}/{call}", json=request_)
    assert response.status_code == 400, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
    assert "regex" not in response.text
    assert broker.calls == []


async def test_a_queue_is_pulled_by_offset(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("orders", queues=2)
    broker.stream = [delivered(7, offset=41), delivered(8, offset=43)]
    response = await client.get("/v1/topics/orders/queues/1/messages?offset=41&max=5&wait=2s")
    assert [message["id"] for message in response.json()["messages"]] == ["7", "8"]
    assert response.json()["next_offset"] == 44
    assert ("pull", 1, 41, 5, 2000) in broker.calls
    broker.stream = []
    response = await client.get("/v1/topics/orders/queues/1/messages?offset=44")
    assert response.json() == {"messages": [], "next_offset": 44}


@pytest.mark.parametrize(
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
async def test_what_cannot_be_pulled(
    client: httpx.AsyncClient, broker: RecordingBroker, path: str, status: int
) -> None:
    broker.add_topic("orders", queues=2)
    response = await client.get(f"/v1/topics/{path}")
    assert response.status_code == status
    if status == 400:
        assert response.json()["errors"][0]["parameter"] in path
    assert "none" not in broker.known


async def test_tags_are_passed_on(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    await client.post(CLAIM, json={"client": "c1", "tags": ["red", "blue", "red"]})
    assert ("claim", "billing", "c1", 10, 0, 60_000, frozenset({"red", "blue"})) in broker.calls


def broadcast(broker: RecordingBroker, queues: int = 2) -> None:
    broker.known["orders"] = evolve(broker.add_topic("orders", queues), kind="broadcast")


async def test_a_broadcast_claim_has_no_claim_and_a_next(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broadcast(broker)
    broker.read = ReadAnswer((delivered(queue=1),), (1, 42))
    answer = (await client.post(CLAIM, json={"client": "c1", "wait": "5s", "tags": ["red"]})).json()
    assert (answer["claim"], answer["next"], [m["id"] for m in answer["messages"]]) == (None, "1-42", ["7"])
    assert "lease_until" not in answer
    ((_, request, wait),) = [call for call in broker.calls if call[0] == "read_on"]
    group = broker.known_groups["orders", "billing"]
    assert request == ReadRequest(group, "c1", 10, None, moves=True, latest=True, tags=frozenset({"red"}))
    assert wait == 5000


async def test_a_broadcast_client_may_begin_at_a_time(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broadcast(broker)
    for text, since in (("2026-11-21T10:00:00Z", NOW), ("earliest", None), ("latest", None)):
        assert (await client.post(CLAIM, json={"client": "c1", "from": text})).status_code == 200
        (_, request, _) = [call for call in broker.calls if call[0] == "read_on"][-1]
        assert request.since == since
    response = await client.post(CLAIM, json={"client": "c1", "from": "noon"})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (400, "/from")


@pytest.mark.parametrize(
    ("wish", "after", "moves", "latest"),
    [
        ({"after": "1-42"}, (Queue(101, 1), 42), False, True),
        ({"after": ""}, None, False, True),
        ({"from": "earliest"}, None, True, False),
        ({"from": "latest", "after": "0-0"}, (Queue(100, 0), 0), False, True),
    ],
)
async def test_the_wishes_of_a_broadcast_client(
    client: httpx.AsyncClient, broker: RecordingBroker, wish: dict[str, Any], after: Any, moves: bool, latest: bool
) -> None:
    broadcast(broker)
    assert (await client.post(CLAIM, json={"client": "c1", **wish})).status_code == 200
    ((_, request, _),) = [call for call in broker.calls if call[0] == "read_on"]
    assert (request.after, request.moves, request.latest) == (after, moves, latest)


@pytest.mark.parametrize("after", ["x", "2-0", "0", "-1", "0--1", "0-1-2", "0-9999999999999999999"])
async def test_a_next_that_is_none(client: httpx.AsyncClient, broker: RecordingBroker, after: str) -> None:
    broadcast(broker)
    response = await client.post(CLAIM, json={"client": "c1", "after": after})
    assert response.status_code == 400, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == ["/after"]


async def test_after_is_of_broadcast_topics(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    response = await client.post(CLAIM, json={"client": "c1", "after": "0-5"})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (400, "/after")
    assert (await client.post(CLAIM, json={"client": "c1", "after": ""})).status_code == 200, "it says nothing"


async def test_a_next_behind_the_end(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broadcast(broker)
    broker.read = ReadAnswer((), (0, 0), beyond=True)
    response = await client.post(CLAIM, json={"client": "c1", "after": "0-9"})
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (400, "/after")


@pytest.mark.parametrize("verb", ["ack", "fail", "extend"])
async def test_a_broadcast_message_is_not_settled(
    client: httpx.AsyncClient, broker: RecordingBroker, verb: str
) -> None:
    broker.errors = {"settle": NothingToSettle("there is nothing to ack")}
    response = await client.post(f"/v1/claims/null/{verb}", json={"lease": 1} if verb == "extend" else {})
    assert (response.status_code, response.json()["type"]) == (409, "/problems/nothing-to-settle")
