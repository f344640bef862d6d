"""Seek, replay, redrive, purge and the search among dead letters: what is asked for, and what is wrong with it."""

from typing import Any

import httpx
import pytest

from support.recording_broker import NOW, RecordingBroker
from tarry.service.errors import TopicConflict
from tarry.service.groups.operations import Worked
from tarry.store.looking.dead_letters import DeadSearch
from tarry.store.operating.positions import Position
from tarry.store.operating.redriving import Letters
from tarry.store.records import Group
from tarry.wheel.ladder import Ladder

GROUP = "/v1/topics/orders/groups/billing"
TIME = "2026-11-21T10:00:00Z"


@pytest.fixture
def group(broker: RecordingBroker) -> None:
    topic = broker.add_topic("orders", queues=2)
    broker.known_groups["orders", "billing"] = Group(1, topic, "billing", Ladder(), {})


def asked(broker: RecordingBroker) -> tuple[Any, ...]:
    (call,) = [call for call in broker.calls if call[0] not in ("topic", "group")]
    return call


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("to", "queues", "position"),
    [
        ("earliest", (0, 1), Position("earliest")),
        ("latest", (0, 1), Position("latest")),
        ({"offset": 7, "queue": 1}, (1,), Position("offset", 7)),
        ({"time": TIME}, (0, 1), Position("time", NOW)),
        ({"time": TIME, "queue": 0}, (0,), Position("time", NOW)),
    ],
)
async def test_seek(
    client: httpx.AsyncClient, broker: RecordingBroker, to: Any, queues: tuple[int, ...], position: Position
) -> None:
    response = await client.post(f"{GROUP}/seek", json={"to": to, "dry_run": True})
    assert response.json() == {"queues": [{"queue": q, "offset": position.value % 100} for q in queues]}
    assert asked(broker) == ("seek", "billing", queues, position, True)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("call", "wrong", "pointer"),
    [
        ("seek", {}, "/to"),
        ("seek", {"to": "end"}, "/to"),
        ("seek", {"to": {}}, "/to"),
        ("seek", {"to": {"offset": 1, "time": TIME}}, "/to"),
        ("seek", {"to": {"offset": -1, "queue": 0}}, "/to/offset"),
        ("seek", {"to": {"offset": 1}}, "/to/queue"),
        ("seek", {"to": {"time": "noon"}}, "/to/time"),
        ("seek", {"to": {"offset": 1 << 63, "queue": 0}}, "/to/offset"),
        ("replay", {}, "/from"),
        ("replay", {"from": "noon"}, "/from"),
        ("replay", {"from": "latest"}, "/from"),
        ("replay", {"from": 3}, "/queue"),
        ("replay", {"from": 3, "to": -1, "queue": 0}, "/to"),
        ("dead/redrive", {"rate": 0}, "/rate"),
        ("dead/redrive", {"ids": ["x"]}, "/ids/0"),
        ("dead/redrive", {"from": "noon"}, "/from"),
        ("dead/purge", {"to": "noon"}, "/to"),
        ("dead/purge", {"id": "5"}, "/id"),
    ],
)
async def test_what_is_wrong(
    client: httpx.AsyncClient, broker: RecordingBroker, call: str, wrong: Any, pointer: str
) -> None:
    response = await client.post(f"{GROUP}/{call}", json=wrong)
    assert response.status_code == 400, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
    assert not [call for call in broker.calls if call[0] not in ("topic", "group")]


@pytest.mark.usefixtures("group")
async def test_a_queue_that_is_not_there(client: httpx.AsyncClient) -> None:
    for call, request in (("seek", {"to": {"offset": 1, "queue": 2}}), ("replay", {"from": 1, "queue": 2})):
        response = await client.post(f"{GROUP}/{call}", json=request)
        assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-queue")


@pytest.mark.usefixtures("group")
async def test_replay(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.worked = Worked(5, more=True)
    response = await client.post(f"{GROUP}/replay", json={"from": 3, "to": TIME, "queue": 1})
    assert response.json() == {"replayed": 5, "more": True}
    *call, request, dry_run = asked(broker)
    assert call == ["replay", "billing", (1,), Position("offset", 3), Position("time", NOW)]
    assert (len(request), dry_run) == (32, False)
    broker.calls.clear()
    await client.post(f"{GROUP}/replay", json={"from": "earliest", "dry_run": True})
    *call, other, dry_run = asked(broker)
    assert call == ["replay", "billing", (0, 1), Position("earliest"), Position("latest")]
    assert other != request
    assert dry_run


@pytest.mark.usefixtures("group")
async def test_a_named_replay(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    seen = set[object]()
    for begin in (3, 8):
        await client.post(f"{GROUP}/replay", json={"from": begin, "to": begin + 2, "queue": 1, "name": "monday"})
        *_, request, _ = asked(broker)
        seen.add(request)
        broker.calls.clear()
    assert len(seen) == 1, "its ranges are one replay"
    for wrong in ({"from": 3, "queue": 1}, {"from": "earliest", "to": 3, "queue": 1}):
        response = await client.post(f"{GROUP}/replay", json={**wrong, "name": "monday"})
        assert (response.status_code, response.json()["errors"][0]["pointer"]) == (400, "/name")


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(("verb", "done"), [("redrive", "redriven"), ("purge", "purged")])
async def test_redrive_and_purge(client: httpx.AsyncClient, broker: RecordingBroker, verb: str, done: str) -> None:
    response = await client.post(f"{GROUP}/dead/{verb}")
    assert response.json() == {done: 3, "more": False, "to": "2026-11-21T10:00:00.000Z"}
    assert asked(broker) == (verb, "billing", Letters(), None, False)
    broker.calls.clear()
    request = {"ids": ["7", "8", "7"], "from": "1970-01-01T00:00:01Z", "to": TIME, "rate": 5, "dry_run": True}
    await client.post(f"{GROUP}/dead/{verb}", json=request)
    assert asked(broker) == (verb, "billing", Letters(1000, NOW, (7, 8)), 5, True)


@pytest.mark.usefixtures("group")
async def test_search(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    query = {"key": "order-7", "reason": "ink", "from": "1970-01-01T00:00:01Z", "to": TIME, "max": "5", "cursor": "9"}
    assert (await client.get(f"{GROUP}/dead", params=query)).json() == {"messages": [], "cursor": None}
    assert asked(broker) == ("find_dead", "billing", DeadSearch("order-7", "ink", 1000, NOW), 9, 5)
    for name, value in (("from", "noon"), ("to", "noon"), ("key", ""), ("cursor", "x")):
        response = await client.get(f"{GROUP}/dead", params={name: value})
        assert (response.status_code, response.json()["errors"][0]["parameter"]) == (400, name)


async def test_where_a_group_begins(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    for begin, place in (("latest", "latest"), (TIME, NOW)):
        broker.calls.clear()
        broker.known_groups.clear()
        assert (await client.put(GROUP, json={"from": begin})).status_code == 201
        assert ("put_group", "orders", "billing", None, place) in broker.calls
        await client.post(f"{GROUP}/claim", json={"client": "c", "from": begin})
        assert ("group", "orders", "billing", True, True if place == "latest" else place) in broker.calls
    wrong = await client.put(GROUP, json={"from": "noon"})
    assert [error["pointer"] for error in wrong.json()["errors"]] == ["/from"]


async def test_jitter(client: httpx.AsyncClient) -> None:
    assert (await client.put("/v1/topics/orders", json={"ladder": ["10s"], "jitter": 0.5})).json()["jitter"] == 0.5
    assert (await client.put("/v1/topics/orders", json={"ladder": ["20s"]})).json()["jitter"] == 0.5
    assert (await client.put("/v1/topics/orders", json={"ladder": None})).json()["jitter"] is None
    group = (await client.put(GROUP, json={"jitter": 1})).json()
    assert (group["jitter"], len(group["ladder"])) == (1.0, 16)
    group = (await client.put(GROUP, json={"ladder": ["1s"]})).json()
    assert (group["jitter"], group["ladder"]) == (1.0, [1000])


async def test_null_is_left_out(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    nothing = {"kind": None, "queues": None, "ordered": None, "jitter": None}
    assert (await client.put("/v1/topics/orders", json=nothing)).status_code == 201
    asked = {"client": "c", "max": None, "wait": None, "lease": None, "from": None}
    assert (await client.post(f"{GROUP}/claim", json=asked)).status_code == 200
    assert ("claim", "billing", "c", 10, 0, 60_000) in broker.calls
    await client.post("/v1/claims/1-1-1-41-63/fail", json={"count": None, "reason": None, "ids": None})
    assert ("settle", "1-1-1-41-63", "fail", None, None, None, True, 0) in broker.calls


@pytest.mark.parametrize(("call", "body"), [("seek", {"to": "latest"}), ("replay", {"from": "earliest"})])
async def test_a_broadcast_topic_has_no_position_to_move(
    client: httpx.AsyncClient, broker: RecordingBroker, call: str, body: dict[str, str]
) -> None:
    """The client holds the answer against the document, too."""
    topic = broker.add_topic("orders")
    broker.known_groups["orders", "billing"] = Group(1, topic, "billing", Ladder(), {})
    broker.errors = {call: TopicConflict("it is a broadcast topic")}
    response = await client.post(f"/v1/topics/orders/groups/billing/{call}", json=body)
    assert (response.status_code, response.json()["type"]) == (409, "/problems/topic-conflict")
