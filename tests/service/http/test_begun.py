"""Which messages were begun, as a client tells it: with a sign of life, an extension, a settlement; and what it gives
back by its death."""

from typing import Any

import httpx
import pytest

from support.in_one import in_one
from support.spied import SpiedServer
from support.wrong_input import faults
from tarry.store.errors import Unavailable

CLAIM = "/v1/topics/orders/groups/billing/claim"


async def claimed(client: httpx.AsyncClient, server: SpiedServer, queues: int = 1, **wish: Any) -> dict[str, Any]:
    """A claim of three messages, of one that tells what it begins."""
    topic = await server.topic(queues=queues)
    for number in range(3):
        await server.publish(topic, b"%d" % number, queue=topic.queues[number % queues])
    return await claimed_again(client, **wish)


async def claimed_again(client: httpx.AsyncClient, **wish: Any) -> dict[str, Any]:
    asked = {"client": "ann", "lease": "60s", "tells_begun": True, "wait": "5s", **wish}
    answer: dict[str, Any] = (await client.post(CLAIM, json=asked)).json()
    return answer


def ids_of(claim: dict[str, Any]) -> list[str]:
    return [message["id"] for message in claim["messages"]]


async def counted(client: httpx.AsyncClient, server: SpiedServer, ids: list[str]) -> list[str]:
    """By its death: of each message, by which event it left its claim."""
    await client.delete("/v1/clients/ann")
    lives = [(await client.get(f"/v1/messages/{id_}")).json()["life"] for id_ in ids]
    ends = ("suspended", "lease_lost", "acked", "failed")
    return [next(event["what"] for event in life if event["what"] in ends) for life in lives]


@pytest.mark.parametrize("queues", [1, 3])
@pytest.mark.parametrize("way", ["extend", "settle", "renew"])
async def test_what_was_told_counts_and_the_rest_goes_back_uncounted(
    client: httpx.AsyncClient, server: SpiedServer, way: str, queues: int
) -> None:
    claim = await claimed(client, server, queues)
    ids = ids_of(claim)
    begun = ids[1:2]
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "extend": (f"/v1/claims/{claim['claim']}/extend", {"lease": "60s", "begun": begun}),
        "settle": ("/v1/claims/settle", {"settle": [{"claim": claim["claim"], "begun": begun}]}),
        "renew": ("/v1/clients/ann/renew", {"begun": [{"claim": claim["claim"], "ids": begun}]}),
    }
    path, request = calls[way]
    response = await client.post(path, json=request)
    assert response.status_code == 200, response.text
    assert await counted(client, server, ids) == ["suspended", "lease_lost", "suspended"]
    again = await claimed_again(client)
    assert sorted((m["id"], m["attempt"], m["losses"]) for m in again["messages"]) == sorted(
        [(ids[0], 1, 1), (ids[2], 1, 1)]
    )


async def test_who_says_nothing_has_all_of_it_counted(client: httpx.AsyncClient, server: SpiedServer) -> None:
    claim = await claimed(client, server, tells_begun=False)
    assert await counted(client, server, ids_of(claim)) == ["lease_lost"] * 3


async def test_a_first_delivery_says_nothing_of_losses(client: httpx.AsyncClient, server: SpiedServer) -> None:
    assert all("losses" not in message for message in (await claimed(client, server))["messages"])


async def test_begun_acked_and_failed_in_one(client: httpx.AsyncClient, server: SpiedServer) -> None:
    claim = await claimed(client, server)
    ids = ids_of(claim)
    entry = {"claim": claim["claim"], "begun": ids, "ack": ids[:1], "fail": {"ids": ids[1:2], "count": True}}
    answer = await client.post("/v1/claims/settle", json={"settle": [entry]})
    assert answer.json() == {"settled": [{"acked": 1, "retried": 1, "dead": 0}]}
    assert await counted(client, server, ids) == ["acked", "failed", "lease_lost"]


@pytest.mark.parametrize("way", ["extend", "settle"])
async def test_what_the_claim_does_not_hold_is_a_conflict(
    client: httpx.AsyncClient, server: SpiedServer, way: str
) -> None:
    claim = await claimed(client, server)
    if way == "extend":
        asked: dict[str, Any] = {"lease": "60s", "begun": ["7"]}
        response = await client.post(f"/v1/claims/{claim['claim']}/extend", json=asked)
        assert (response.status_code, response.json()["result"]) == (409, "lease_lost")
        return
    asked = {"settle": [{"claim": claim["claim"], "begun": ["7"]}]}
    (settled,) = (await client.post("/v1/claims/settle", json=asked)).json()["settled"]
    assert settled["error"]["result"] == "lease_lost"


async def test_a_sign_of_life_passes_over_what_is_not_held(client: httpx.AsyncClient, server: SpiedServer) -> None:
    claim = await claimed(client, server)
    server.ms += 60_000  # its lease is over
    begun = [{"claim": name, "ids": ids_of(claim)} for name in (claim["claim"], "1-1-1-1-1", "nonsense", "null")]
    response = await client.post("/v1/clients/ann/renew", json={"begun": begun})
    assert (response.status_code, response.json()["alive_for"]) == (200, 15_000)


async def test_a_sign_of_life_counts_though_the_store_cannot_note_more(
    client: httpx.AsyncClient, server: SpiedServer
) -> None:
    """Else it would be taken for dead because of a row that somebody holds."""
    claim = await claimed(client, server)
    server.errors["groups.settle"] = Unavailable("away")
    response = await client.post(
        "/v1/clients/ann/renew", json={"begun": [{"claim": claim["claim"], "ids": ids_of(claim)}]}
    )
    assert (response.status_code, response.json()["untold"]) == (200, [claim["claim"]])
    assert server.all("liveness.renew") == [("ann",)]


@in_one(
    ("begun", "pointer"),
    [
        ([{"claim": "c", "ids": ["x"]}], "/begun/0/ids/0"),
        ([{"claim": "c"}], "/begun/0/ids"),
        ([{"ids": []}], "/begun/0/claim"),
        ([{"claim": "c", "ids": []}] * 101, "/begun"),
        ("all", "/begun"),
    ],
)
async def test_what_is_wrong_with_it(client: httpx.AsyncClient, server: SpiedServer, begun: Any, pointer: str) -> None:
    response = await client.post("/v1/clients/ann/renew", json={"begun": begun})
    assert faults(response) == [pointer]
    assert server.all("liveness.renew") == []
