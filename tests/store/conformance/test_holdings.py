"""What clients hold, as an operator is told."""

from support.stores import Stage
from tarry.store.groups import holdings
from tarry.store.groups.holdings import Holding
from tarry.store.records import ClaimRequest, Group, Settlement, Topic


async def test_open_claims_and_queues_by_client(stage: Stage) -> None:
    topic, group = await stage.topic_and_group("payments", queues=2, ordered=True)
    await stage.publish(*(stage.draft(topic, queue=number % 2) for number in range(4)))
    requests = [ClaimRequest(name, 2, 60_000) for name in ("ann", "bob")]
    turn = await stage.turn(group, requests=requests)
    claims = {claim.client: claim for claim in turn.claims if claim is not None}
    assert await stage.store.read(holdings.holders, "", 10) == ["ann", "bob"]
    assert await stage.store.read(holdings.holders, "ann", 10) == ["bob"]
    assert await stage.store.read(holdings.holders, "", 1) == ["ann"]
    queue_id = claims["ann"].key.queue_id
    assert await stage.store.read(holdings.of_clients, ["ann", "nobody"]) == [
        Holding("ann", group.id, queue_id, 1),
        Holding("ann", group.id, queue_id, 0, owner=True),
    ]
    await stage.settle(group, Settlement(claims["ann"].key, "ack"))
    assert await stage.store.read(holdings.holders, "", 10) == ["bob"]
    assert await stage.store.read(holdings.of_clients, ["ann"]) == [Holding("ann", group.id, queue_id, 0, owner=True)]


async def test_several_claims_of_a_queue_are_counted(stage: Stage, topic: Topic, group: Group) -> None:
    await stage.publish(*(stage.draft(topic) for _ in range(3)))
    for _ in range(3):
        await stage.claim(group, 1, client="ann")
    assert await stage.store.read(holdings.of_clients, ["ann"]) == [Holding("ann", group.id, topic.queues[0].id, 3)]
