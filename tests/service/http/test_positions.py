"""Seek, replay, redrive, purge and the search among dead letters: what is asked for, and what is wrong with it."""

from typing import Any

import httpx
import pytest

from support.in_one import in_one
from support.nodes import name_of
from support.spied import NOW, Asked, SpiedServer
from support.wrong_input import faults
from tarry.service.engine.consume import operations
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.looking import dead_letters
from tarry.store.looking.dead_letters import DeadSearch
from tarry.store.operating.redriving import Letters
from tarry.store.operating.replaying import Range
from tarry.store.records import ClaimRequest, Group
from tarry.store.stream.positions import Position
from tarry.wheel.ladder import Ladder

GROUP = "/v1/topics/orders/groups/billing"
TIME = "2026-11-21T10:00:00Z"


@pytest.fixture
async def group(server: SpiedServer) -> Group:
    """Of a topic with two queues, to which messages have come a second before the time and then."""
    topic = await server.topic(queues=2, ladder=Ladder(()))
    for server.ms, counts in ((NOW - 1000, (1, 9)), (NOW, (1, 1))):
        for queue, count in zip(topic.queues, counts, strict=True):
            await server.publish(topic, *[b"1"] * count, queue=queue)
    return await server.group(topic)


def operated(server: SpiedServer) -> list[Asked]:
    return [call for call in server.asked if call.verb.startswith("operations.")]


@pytest.mark.parametrize(
    ("to", "position", "offsets"),
    [
        ("earliest", Position("earliest"), {0: 0, 1: 0}),
        ("latest", Position("latest"), {0: 2, 1: 10}),
        ({"offset": 7, "queue": 1}, Position("offset", 7), {1: 7}),
        ({"time": TIME}, Position("time", NOW), {0: 1, 1: 9}),
        ({"time": TIME, "queue": 0}, Position("time", NOW), {0: 1}),
    ],
)
async def test_seek(
    client: httpx.AsyncClient, server: SpiedServer, group: Group, to: Any, position: Position, offsets: dict[int, int]
) -> None:
    response = await client.post(f"{GROUP}/seek", json={"to": to, "dry_run": True})
    assert response.json() == {"queues": [{"queue": q, "offset": o} for q, o in offsets.items()]}
    one = isinstance(to, dict) and "queue" in to
    queues = tuple(group.topic.queues[number] for number in offsets) if one else None  # all, as they are by then
    assert operated(server) == [("operations.seek", (group, queues, position), {"dry_run": True})]


@in_one(
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
        ("dead/redrive", {"key": ""}, "/key"),
        ("dead/purge", {"tag": "t" * 256}, "/tag"),
        ("dead/redrive", {"reason": ""}, "/reason"),
        ("dead/purge", {"reason": 7}, "/reason"),
    ],
)
async def test_what_is_wrong(
    client: httpx.AsyncClient, server: SpiedServer, group: Group, call: str, wrong: Any, pointer: str
) -> None:
    response = await client.post(f"{GROUP}/{call}", json=wrong)
    assert faults(response) == [pointer]
    assert not operated(server)


async def test_a_queue_that_is_not_there(client: httpx.AsyncClient, group: Group) -> None:
    for call, request in (("seek", {"to": {"offset": 1, "queue": 2}}), ("replay", {"from": 1, "queue": 2})):
        response = await client.post(f"{GROUP}/{call}", json=request)
        assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-queue")


async def test_a_queue_that_another_server_has_added(
    client: httpx.AsyncClient, server: SpiedServer, group: Group
) -> None:
    await server.node.store.write(catalogue.add_topic, TopicDraft("orders", queues=3), NOW)
    for call, request in (("seek", {"to": {"offset": 0, "queue": 2}}), ("replay", {"from": 0, "queue": 2})):
        response = await client.post(f"{GROUP}/{call}", json=request)
        assert response.status_code == 200, response.text


async def test_an_offset_of_a_topic_that_has_become_wider(client: httpx.AsyncClient, server: SpiedServer) -> None:
    """It is of one queue, and there was but one when this server looked last."""
    await server.group(await server.topic())
    await server.node.store.write(catalogue.add_topic, TopicDraft("orders", queues=2), NOW)
    response = await client.post(f"{GROUP}/seek", json={"to": {"offset": 0}})
    assert faults(response) == ["/to/queue"]


async def test_replay(
    client: httpx.AsyncClient, server: SpiedServer, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_BATCH", 5)
    monkeypatch.setattr(operations, "_LONGEST", -1)  # a call has time for one batch
    request = {"from": 3, "to": TIME, "queue": 1}
    response = await client.post(f"{GROUP}/replay", json=request)
    assert response.json() == {"replayed": 5, "more": True}
    response = await client.post(f"{GROUP}/replay", json=request)
    assert response.json() == {"replayed": 1, "more": False}, "the same call goes on"
    first, second = operated(server)
    assert first == second
    _, range_ = first.args
    assert first == ("operations.replay", (group, range_), {"dry_run": False})
    queues = (group.topic.queues[1],)
    assert range_ == Range(Position("offset", 3), Position("time", NOW), queues, range_.request)
    assert len(range_.request) == 32
    await client.post(f"{GROUP}/replay", json={"from": "earliest", "dry_run": True})
    call = operated(server)[-1]
    _, other = call.args
    assert other == Range(Position("earliest"), Position("latest"), None, other.request)
    assert other.request != range_.request
    assert call.kwargs == {"dry_run": True}


async def test_a_named_replay(client: httpx.AsyncClient, server: SpiedServer, group: Group) -> None:
    seen = set[object]()
    for begin in (3, 8):
        await client.post(f"{GROUP}/replay", json={"from": begin, "to": begin + 2, "queue": 1, "name": "monday"})
        _, range_ = operated(server)[-1].args
        seen.add(range_.request)
    assert len(operated(server)) == 2
    assert len(seen) == 1, "its ranges are one replay"
    for wrong in ({"from": 3, "queue": 1}, {"from": "earliest", "to": 3, "queue": 1}):
        response = await client.post(f"{GROUP}/replay", json={**wrong, "name": "monday"})
        assert faults(response) == ["/name"]


@pytest.mark.parametrize(("verb", "done"), [("redrive", "redriven"), ("purge", "purged")])
async def test_redrive_and_purge(
    client: httpx.AsyncClient, server: SpiedServer, group: Group, verb: str, done: str
) -> None:
    server.ms = NOW - 1
    claim = await server.claim(group, size=3)
    await server.node.groups.settle(name_of(claim), "fail")  # there is no rung: they are dead
    response = await client.post(f"{GROUP}/dead/{verb}")
    beside = {"expired": 0} if verb == "redrive" else {}
    assert response.json() == {done: 3, "more": False, "to": "2026-11-21T10:00:00.000Z"} | beside
    request = {"ids": ["7", "8", "7"], "from": "1970-01-01T00:00:01Z", "to": TIME, "rate": 5, "dry_run": True}
    await client.post(f"{GROUP}/dead/{verb}", json=request)
    await client.post(f"{GROUP}/dead/{verb}", json={"key": "k", "tag": "t", "reason": "no*"})
    assert operated(server) == [
        (f"operations.{verb}", (group, Letters(), None), {"dry_run": False}),
        (f"operations.{verb}", (group, Letters(1000, NOW, (7, 8)), 5), {"dry_run": True}),
        (f"operations.{verb}", (group, Letters(key="k", tag="t", reason="no*"), None), {"dry_run": False}),
    ]


async def test_search(client: httpx.AsyncClient, server: SpiedServer, group: Group) -> None:
    query = {"key": "order-7", "reason": "ink", "from": "1970-01-01T00:00:01Z", "to": TIME, "max": "5", "cursor": "9"}
    assert (await client.get(f"{GROUP}/dead", params=query)).json() == {"messages": [], "cursor": None}
    assert server.all("store.find") == [(dead_letters.find, group, DeadSearch("order-7", "ink", 1000, NOW), 9, 5)]
    for name, value in (("from", "noon"), ("to", "noon"), ("key", ""), ("cursor", "x")):
        response = await client.get(f"{GROUP}/dead", params={name: value})
        assert faults(response) == [name]


async def test_where_a_group_begins(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    for server.ms, body in ((NOW - 1000, b"1"), (NOW, b"2")):
        await server.publish(topic, body)
    for number, (begin, bodies) in enumerate((("latest", []), (TIME, [2]))):
        put, claimed = (f"/v1/topics/orders/groups/{how}-{number}" for how in ("put", "claimed"))
        assert (await client.put(put, json={"from": begin})).status_code == 201
        for path, wish in ((put, {}), (claimed, {"from": begin})):
            answer = await client.post(f"{path}/claim", json={"client": "c", **wish})
            assert [message["body"] for message in answer.json()["messages"]] == bodies
    wrong = await client.put(GROUP, json={"from": "noon"})
    assert faults(wrong) == ["/from"]


async def test_jitter(client: httpx.AsyncClient) -> None:
    assert (await client.put("/v1/topics/orders", json={"ladder": ["10s"], "jitter": 0.5})).json()["jitter"] == 0.5
    assert (await client.put("/v1/topics/orders", json={"ladder": ["20s"]})).json()["jitter"] == 0.5
    assert (await client.put("/v1/topics/orders", json={"ladder": None})).json()["jitter"] is None
    group = (await client.put(GROUP, json={"jitter": 1})).json()
    assert (group["jitter"], len(group["ladder"])) == (1.0, 16)
    group = (await client.put(GROUP, json={"ladder": ["1s"]})).json()
    assert (group["jitter"], group["ladder"]) == (1.0, [1000])


async def test_null_is_left_out(client: httpx.AsyncClient, server: SpiedServer) -> None:
    nothing = {"kind": None, "queues": None, "ordered": None, "jitter": None}
    assert (await client.put("/v1/topics/orders", json=nothing)).status_code == 201
    await server.publish(await server.topic(), b"1")
    asked = {"client": "c", "max": None, "wait": None, "lease": None, "from": None}
    answer = await client.post(f"{GROUP}/claim", json=asked)
    assert answer.status_code == 200
    ((group, *claimed),) = server.all("groups.claim")
    assert (group.name, claimed) == ("billing", [ClaimRequest("c", 10, 60_000), 0])
    held = answer.json()["claim"]
    await client.post(f"/v1/claims/{held}/fail", json={"count": None, "reason": None, "ids": None})
    assert server.all("groups.settle") == [(held, "fail")]
    assert server.named("groups.settle") == [{"ids": None, "reason": None, "retry_after": None, "count": True}]


@pytest.mark.parametrize(("call", "body"), [("seek", {"to": "latest"}), ("replay", {"from": "earliest"})])
async def test_a_broadcast_topic_has_no_position_to_move(
    client: httpx.AsyncClient, server: SpiedServer, call: str, body: dict[str, str]
) -> None:
    """The client holds the answer against the document, too."""
    await server.group(await server.topic(kind="broadcast"))
    response = await client.post(f"/v1/topics/orders/groups/billing/{call}", json=body)
    assert (response.status_code, response.json()["type"]) == (409, "/problems/topic-conflict")
