"""DELETE of topics and groups."""

import httpx
import pytest

from support.recording_broker import RecordingBroker
from tarry.service.errors import TopicConflict
from tarry.store.errors import GroupGone, TopicGone
from tarry.store.records import Group
from tarry.wheel.ladder import Ladder


@pytest.mark.parametrize(("query", "force"), [("", False), ("?force=true", True), ("?force=false", False)])
async def test_a_topic_goes(client: httpx.AsyncClient, broker: RecordingBroker, query: str, *, force: bool) -> None:
    broker.add_topic("orders")
    response = await client.delete(f"/v1/topics/orders{query}")
    assert (response.status_code, response.json()) == (200, {"topic": "orders", "result": "removed"})
    assert broker.calls[-1] == ("remove_topic", "orders", force)


async def test_a_group_goes(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    topic = broker.add_topic("orders")
    broker.known_groups["orders", "a-b"] = Group(1, topic, "a-b", Ladder(), {})
    response = await client.delete("/v1/topics/orders/groups/a-b")
    assert (response.status_code, response.json()) == (
        *(200, {"topic": "orders", "group": "a-b", "result": "removed"}),
    )
    assert broker.calls[-1] == ("remove_group", "orders", "a-b")


async def test_what_is_not_there(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    for path in ("/v1/topics/nope", "/v1/topics/nope/groups/g"):
        response = await client.delete(path)
        assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-topic")
    broker.add_topic("orders")
    response = await client.delete("/v1/topics/orders/groups/nope")
    assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-group")


@pytest.mark.parametrize("query", ["?force=yes", "?force=", "?forced=true", "?force=true&force=true"])
async def test_bad_input(client: httpx.AsyncClient, broker: RecordingBroker, query: str) -> None:
    broker.add_topic("orders")
    response = await client.delete(f"/v1/topics/orders{query}")
    assert response.status_code == 400
    assert "force" in response.json()["detail"]
    assert not any(call[0] == "remove_topic" for call in broker.calls)


async def test_messages_are_in_the_way(client: httpx.AsyncClient, broker: RecordingBroker) -> None:
    broker.add_topic("orders")
    broker.error = TopicConflict("topic 'orders' still has messages: 3 that wait")
    response = await client.delete("/v1/topics/orders")
    assert (response.status_code, response.json()["type"]) == (409, "/problems/topic-conflict")
    assert "3 that wait" in response.json()["detail"]


@pytest.mark.parametrize(
    ("error", "kind"), [(TopicGone("gone"), "unknown-topic"), (GroupGone("gone"), "unknown-group")]
)
async def test_who_comes_while_it_goes_hears_404(
    client: httpx.AsyncClient, broker: RecordingBroker, error: Exception, kind: str
) -> None:
    broker.add_topic("orders")
    broker.error = error
    response = await client.post("/v1/topics/orders/messages", json={"body": 1})
    assert (response.status_code, response.json()["type"]) == (404, f"/problems/{kind}")
