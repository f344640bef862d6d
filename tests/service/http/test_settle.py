"""POST /v1/claims/settle: acks and fails of many claims, each with an answer of its own."""

from typing import Any

import httpx
import pytest

from support.in_one import in_one
from support.nodes import name_of
from support.spied import SpiedServer
from tarry.store.errors import Unavailable
from tarry.store.records import Claim

SETTLE = "/v1/claims/settle"


async def claimed(server: SpiedServer, *sizes: int) -> list[Claim]:
    """Claims of so many messages each, of one group."""
    topic = await server.topic()
    group = await server.group(topic)
    await server.publish(topic, *[b"1"] * sum(sizes))
    return [await server.claim(group, size=size) for size in sizes]


def ids_of(claim: Claim) -> list[str]:
    return [str(message.id) for message in claim.messages]


async def settle(client: httpx.AsyncClient, *settlements: dict[str, Any]) -> list[dict[str, Any]]:
    response = await client.post(SETTLE, json={"settle": settlements})
    assert response.status_code == 200, response.text
    settled: list[dict[str, Any]] = response.json()["settled"]
    return settled


async def test_many_claims_are_settled_in_one_request(client: httpx.AsyncClient, server: SpiedServer) -> None:
    all_, some, failed, both = await claimed(server, 3, 3, 2, 3)
    assert await settle(
        client,
        {"claim": name_of(all_), "ack": "all"},
        {"claim": name_of(some), "ack": ids_of(some)[:2]},
        {"claim": name_of(failed), "fail": {"reason": "no ink", "retry_after": "1m"}},
        {"claim": name_of(both), "ack": ids_of(both)[:2], "fail": {"ids": ids_of(both)[2:]}},
    ) == [
        {"acked": 3, "retried": 0, "dead": 0},
        {"acked": 2, "retried": 0, "dead": 0},
        {"acked": 0, "retried": 2, "dead": 0},
        {"acked": 2, "retried": 1, "dead": 0},
    ]
    settled = [call.kwargs for call in server.asked if call.verb == "groups.settle" and call.args[1] == "fail"]
    assert [(one["reason"], one["retry_after"], one["count"]) for one in settled] == [
        ("no ink", 60_000, True),
        (None, None, True),
    ]


async def test_each_has_a_verdict_of_its_own(client: httpx.AsyncClient, server: SpiedServer) -> None:
    first, second = await claimed(server, 1, 1)
    answers = await settle(
        client,
        {"claim": name_of(first), "ack": ["7"]},
        {"claim": "nonsense", "ack": "all"},
        {"claim": "\n", "ack": "all"},
        {"claim": name_of(second), "ack": "all"},
        {"claim": name_of(first), "ack": ids_of(first), "fail": {"ids": ids_of(second)}},
    )
    assert [answer.get("error", {}).get("type") for answer in answers] == [
        "/problems/lease-lost",
        "/problems/unknown-claim",
        "/problems/unknown-claim",
        None,
        "/problems/lease-lost",
    ]
    assert answers[0]["error"]["result"] == "lease_lost"
    assert answers[3] == {"acked": 1, "retried": 0, "dead": 0}
    assert answers[4]["acked"] == 1, "what was done before the error is told"


async def test_those_of_one_claim_keep_their_order(client: httpx.AsyncClient, server: SpiedServer) -> None:
    (claim,) = await claimed(server, 3)
    name, ids = name_of(claim), ids_of(claim)
    answers = await settle(
        client,
        {"claim": name, "ack": ids[:1]},
        {"claim": name, "fail": {"ids": ids[1:2]}},
        {"claim": name, "ack": "all"},
        {"claim": name, "fail": {"ids": ids[1:2]}},
    )
    assert [answer.get("acked") for answer in answers[:3]] == [1, 0, 2]  # what it has acked it acks again
    assert answers[1]["retried"] == 1
    assert "error" in answers[3]


@pytest.mark.slow
async def test_they_share_transactions(client: httpx.AsyncClient, server: SpiedServer) -> None:
    claims = await claimed(server, *[1] * 100)
    before = server.store.backend.statistics()["transactions"]
    answers = await settle(client, *[{"claim": name_of(claim), "ack": "all"} for claim in claims])
    assert answers == [{"acked": 1, "retried": 0, "dead": 0}] * 100
    assert server.store.backend.statistics()["transactions"] - before < 10


async def test_the_store_is_away_for_each(client: httpx.AsyncClient, server: SpiedServer) -> None:
    (claim,) = await claimed(server, 1)
    server.errors["groups.settle"] = Unavailable("gone")
    (answer,) = await settle(client, {"claim": name_of(claim), "ack": "all"})
    assert (answer["error"]["status"], answer["error"]["executed"]) == (503, False)
    server.errors["groups.settle"] = RuntimeError("a fault")
    (answer,) = await settle(client, {"claim": name_of(claim), "ack": "all"})
    assert answer["error"]["status"] == 500


@in_one(
    ("settlements", "pointer", "said"),
    [
        ([{"claim": "c"}], "/settle/0", "say what is done"),
        ([{"claim": "c", "ack": "all"}, {"claim": "c", "ack": "all", "fail": {}}], "/settle/1/fail", "nothing is left"),
        ([{"claim": "c", "ack": "some"}], "/settle/0/ack", "some"),
        ([{"claim": "c", "ack": ["x"]}], "/settle/0/ack/0", "no id"),
        ([{"claim": "c", "ack": ["9223372036854775808"]}], "/settle/0/ack/0", "no message's id"),
        ([{"claim": "c", "fail": {"retry_after": "x"}}], "/settle/0/fail/retry_after", ""),
        ([{"claim": "c", "fail": {"idz": []}}], "/settle/0/fail/idz", "did you mean `ids`"),
        ([{"claim": "c", "ack": "all"}] * 1001, "/settle", "1000"),
        ([{"claim": "c", "ack": ["7"] * 2500}] * 5, "/settle", "12500 ids, and may name 10000"),
    ],
)
async def test_what_is_malformed_settles_nothing(
    client: httpx.AsyncClient, server: SpiedServer, settlements: list[dict[str, Any]], pointer: str, said: str
) -> None:
    response = await client.post(SETTLE, json={"settle": settlements})
    assert response.status_code == 400
    (error,) = response.json()["errors"]
    assert error["pointer"] == pointer
    assert said in error["detail"]
    assert server.all("groups.settle") == []


async def test_none_are_none(client: httpx.AsyncClient) -> None:
    assert await settle(client) == []
