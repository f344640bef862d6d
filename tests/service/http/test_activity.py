"""What the server did, what its wheel holds, and what of all topics falls due."""

import httpx

from support.nodes import name_of
from support.spied import NOW, SpiedServer
from tarry.service.activity import SECONDS
from tarry.service.metrics import Metrics


async def test_activity(client: httpx.AsyncClient, server: SpiedServer, metrics: Metrics) -> None:
    metrics.activity._seconds = lambda: 1000.0
    topic = await server.topic()
    group = await server.group(topic)
    await server.publish(topic, b"1", b"2")
    claim = await server.claim(group)
    await server.settle(claim, "ack")
    metrics.activity._seconds = lambda: 1001.0
    told = (await client.get("/v1/activity")).json()
    assert (told["published"][-1], told["delivered"][-1], told["acked"][-1]) == (2, 2, 2)
    assert (sum(told["retried"]), sum(told["dead"]), len(told["published"])) == (0, 0, SECONDS)
    assert (told["node"], told["step"], told["at"]) == (server.settings.node, 1000, "2026-11-21T10:00:00.000Z")
    late = told["lateness"]
    assert sum(map(sum, late["counts"])) == 2
    assert {len(column) for column in late["counts"]} == {len(late["bounds"]) + 1}


async def test_only_the_first_hand_out_is_late(
    client: httpx.AsyncClient, server: SpiedServer, metrics: Metrics
) -> None:
    """Neither what is given back or redriven, nor what a seek brings again."""

    def counted() -> float:
        return metrics.registry.get_sample_value("tarry_delivery_lateness_seconds_count", {"topic": "orders"}) or 0

    topic = await server.topic()
    group = await server.group(topic)
    await server.publish(topic, b"1", b"2", b"3")
    claim = await server.claim(group)
    assert counted() == 3
    await server.node.groups.settle(name_of(claim), "fail", retry_after=0, count=False)
    await server.settle(await server.claim(group, wait=5_000), "ack")
    seek = "/v1/topics/orders/groups/billing/seek"
    assert (await client.post(seek, json={"to": "earliest"})).status_code == 200
    await server.publish(topic, b"4")
    again = await server.claim(group)
    assert len(again.messages) == 4
    assert counted() == 3, "one claim of what has been and what is new counts as what has been"
    await server.publish(topic, b"5")
    await server.claim(group)
    assert counted() == 4


async def test_the_wheel_as_a_ring(client: httpx.AsyncClient, server: SpiedServer) -> None:
    server.ms = NOW + 600_500
    await server.node.clock.take()
    topic = await server.topic()
    for seconds, many in ((30, 1), (31, 2), (2999, 1), (3500, 1), (7200, 1)):
        at = server.ms + seconds * 1000
        await server.publish(topic, *[b"1"] * many, deliver_at=at)
    told = (await client.get("/v1/wheel")).json()
    assert told["hand"] == 600
    assert len(told["slots"]) == 3600
    filled = {second: many for second, many in enumerate(told["slots"]) if many}
    assert filled.keys() == {630, 631, 3599, 500}, (
        "one is of the next hour, behind the hand, and the last of a later one"
    )
    # A sweep that read while these were published adds a row once more: the wheel takes that, and counts it.
    assert filled[630] in (1, 2)
    assert filled[631] in (2, 3, 4)
    assert told["entries"] in range(6, 13)


async def test_what_falls_due_of_all_topics(client: httpx.AsyncClient, server: SpiedServer) -> None:
    for name, many in (("orders", 2), ("parcels", 3)):
        await server.publish(await server.topic(name), *[b"1"] * many, deliver_at=NOW + 90 * 60_000)
    told = (await client.get("/v1/upcoming", params={"width": "1h", "buckets": 3})).json()
    assert [bucket["messages"] for bucket in told["buckets"]] == [0, 5, 0]
    assert (await client.get("/v1/upcoming", params={"buckets": 101})).status_code == 400
