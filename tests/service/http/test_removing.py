"""DELETE of topics and groups."""

import httpx
import pytest

from support.in_one import in_one
from support.spied import NOW, SpiedServer
from tarry.store.errors import GroupGone, TopicGone


@pytest.mark.parametrize(("query", "force"), [("", False), ("?force=true", True), ("?force=false", False)])
async def test_a_topic_goes(client: httpx.AsyncClient, server: SpiedServer, query: str, *, force: bool) -> None:
    topic = await server.topic()
    response = await client.delete(f"/v1/topics/orders{query}")
    assert (response.status_code, response.json()) == (200, {"topic": "orders", "result": "removed"})
    assert server.all("remover.remove_topic") == [(topic,)]
    assert server.named("remover.remove_topic") == [{"force": force}]
    assert (await client.get("/v1/topics/orders")).status_code == 404


async def test_a_group_goes(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.group(await server.topic(), "a-b")
    response = await client.delete("/v1/topics/orders/groups/a-b")
    assert (response.status_code, response.json()) == (200, {"topic": "orders", "group": "a-b", "result": "removed"})
    assert (await client.get("/v1/topics/orders/groups/a-b")).status_code == 404


async def test_what_is_not_there(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for path in ("/v1/topics/nope", "/v1/topics/nope/groups/g"):
        response = await client.delete(path)
        assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-topic")
    await server.topic()
    response = await client.delete("/v1/topics/orders/groups/nope")
    assert (response.status_code, response.json()["type"]) == (404, "/problems/unknown-group")


@in_one("query", ["?force=yes", "?force=", "?forced=true", "?force=true&force=true"])
async def test_bad_input(client: httpx.AsyncClient, server: SpiedServer, query: str) -> None:
    await server.topic()
    response = await client.delete(f"/v1/topics/orders{query}")
    assert response.status_code == 400
    assert "force" in response.json()["detail"]
    assert server.all("remover.remove_topic") == []


async def test_messages_are_in_the_way(client: httpx.AsyncClient, server: SpiedServer) -> None:
    await server.publish(await server.topic(), b"1", b"2", b"3", deliver_at=NOW + 60_000)
    response = await client.delete("/v1/topics/orders")
    assert (response.status_code, response.json()["type"]) == (409, "/problems/topic-conflict")
    assert "3 that wait" in response.json()["detail"]


@pytest.mark.parametrize(
    ("error", "kind"), [(TopicGone("gone"), "unknown-topic"), (GroupGone("gone"), "unknown-group")]
)
async def test_who_comes_while_it_goes_hears_404(
    client: httpx.AsyncClient, server: SpiedServer, error: Exception, kind: str
) -> None:
    await server.topic()
    server.errors["intake.publish"] = error
    response = await client.post("/v1/topics/orders/messages", json={"body": 1})
    assert (response.status_code, response.json()["type"]) == (404, f"/problems/{kind}")
