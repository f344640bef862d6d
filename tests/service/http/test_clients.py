"""Renewing and deregistering clients."""

from typing import Any

import httpx
import pytest
import trio

from support.in_one import in_one
from support.spied import SpiedServer
from support.wrong_input import faults
from tarry.service.access.keyring import Holder
from tarry.service.access.scopes import Scopes
from tarry.store.errors import Unavailable
from tarry.store.records import ClaimRequest
from tarry.store.store import Store


async def test_a_client_renews(client: httpx.AsyncClient, server: SpiedServer) -> None:
    response = await client.post("/v1/clients/10.0.0.1-42/renew")
    assert (response.status_code, response.json()) == (
        200,
        {"client": "10.0.0.1-42", "alive_until": "2026-11-21T10:00:15.000Z", "alive_for": 15_000},
    )
    assert server.all("liveness.renew") == [("10.0.0.1-42",)]


async def test_a_client_goes(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic()
    for group in ("billing", "mail"):
        await server.publish(topic, b"1")
        await server.claim(await server.group(topic, group), "a b")
    await server.node.liveness.renew("a b")
    response = await client.delete("/v1/clients/a%20b")
    assert (response.status_code, response.json()) == (200, {"client": "a b", "registered": True, "claims": 2})


async def test_a_slash_in_a_name_divides_no_path(client: httpx.AsyncClient, server: SpiedServer) -> None:
    response = await client.post("/v1/clients/host%2Fworker/renew")
    assert (response.status_code, response.json()["client"]) == (200, "host/worker")
    assert (await client.delete("/v1/clients/host%2Fworker")).json()["client"] == "host/worker"
    assert (await client.get("/v1%2Ftopics")).status_code == 404


@pytest.mark.parametrize("name", ["x" * 256, "a%00b"])
async def test_what_is_no_name(client: httpx.AsyncClient, server: SpiedServer, name: str) -> None:
    assert (await client.post(f"/v1/clients/{name}/renew")).status_code == 400
    assert (await client.delete(f"/v1/clients/{name}")).status_code == 400
    assert server.asked == []


async def test_a_store_that_is_away(client: httpx.AsyncClient, server: SpiedServer) -> None:
    server.errors["liveness.renew"] = Unavailable("away")
    assert (await client.post("/v1/clients/c/renew")).status_code == 503


async def test_a_claim_says_that_its_topic_is_ordered(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for name, ordered in (("orders", True), ("events", False)):
        topic = await server.topic(name, ordered=ordered)
        await server.publish(topic, b"1")
        answer = await client.post(f"/v1/topics/{name}/groups/g/claim", json={"client": "c1"})
        assert answer.json().get("ordered", False) is ordered


async def test_who_is_there(client: httpx.AsyncClient, server: SpiedServer) -> None:
    topic = await server.topic(ordered=True)
    group = await server.group(topic)
    server.ms -= 60_000
    await server.node.liveness.renew("ann")
    server.ms += 60_000
    await server.publish(topic, b"1", ordering_key="k")
    await server.claim(group, "ann")
    await server.node.liveness.renew("ann")
    for name in ("bob", "cid"):  # they have a right to a share of an ordered topic, and that is all
        await server.node.groups.claim(group, ClaimRequest(name, 1, 60_000), 0)
    response = await client.get("/v1/clients", params={"max": 2})
    assert (response.status_code, response.json()) == (
        200,
        {
            "clients": [
                {
                    "client": "ann",
                    "registered_at": "2026-11-21T09:59:00.000Z",
                    "renewed_at": "2026-11-21T10:00:00.000Z",
                    "alive": True,
                    "holds": [{"topic": "orders", "group": "billing", "queue": 0, "claims": 1, "owner": True}],
                },
                {"client": "bob", "registered_at": None, "renewed_at": None, "alive": None, "holds": []},
            ],
            "cursor": "bob",
        },
    )
    rest = (await client.get("/v1/clients", params={"max": 2, "cursor": "bob"})).json()
    assert [one["client"] for one in rest["clients"]] == ["cid"]
    assert rest["cursor"] is None
    assert server.all("clients.page") == [("", 3), ("bob", 3)]


@in_one("query", ["max=0", "max=1001", "cursor=a%00b", "size=3"])
async def test_a_page_that_cannot_be_had(client: httpx.AsyncClient, server: SpiedServer, query: str) -> None:
    response = await client.get(f"/v1/clients?{query}")
    assert faults(response) == [query.partition("=")[0]]
    assert server.asked == []


async def test_a_crowd_leaves_most_writers_to_others(server: SpiedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client that comes, and each topic and group that comes into being with it, is written."""
    at_once = most = 0
    write = Store.write

    async def counted(store: Store, work: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            return await write(store, work, *args, **kwargs)
        finally:
            at_once -= 1

    monkeypatch.setattr(Store, "write", counted)
    holder = Holder("me", Scopes(["admin"]))
    node = server.node

    async def come(number: int) -> None:
        assert await node.client_owners.may_use(f"c{number}", holder)
        topic = await node.directory.topic(f"topic-{number}")
        await node.directory.group(topic, "g")

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(come, number)
    assert most <= 12, "four of each kind, and what the server writes by itself"
