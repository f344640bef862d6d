"""Two servers take turns of one group: what is read ahead of a turn is not read in vain each time."""

from collections.abc import Sequence
from typing import Any

from support.stores import MINUTE, Stage, bodies
from tarry.store.ports import Asked
from tarry.store.records import ClaimRequest, Group, Settlement, Topic
from tarry.store.store import Store

Flights = list[Sequence[Asked[Any]]]


def ahead(flights: Flights) -> list[bool]:
    """Of each turn, whether it has read messages in the flight of its locks."""
    asked = [{one.query for one in flight} for flight in flights]
    return ["message.range" in names for names in asked if names & {"cursor.lock", "cursor.free"}]


async def test_who_is_not_alone_reads_behind_its_locks(stage: Stage, flights: Flights) -> None:
    topic, group = await stage.topic_and_group()
    await stage.publish(*(stage.draft(topic, b"%d" % number) for number in range(20)))
    here, there = Store(stage.store.backend), Store(stage.store.backend)
    seen: list[int] = []

    async def claim(store: Store) -> bool:
        """Whether it read ahead."""
        turn = await store.turn(group, [], [ClaimRequest("c", 1, MINUTE)], stage.now)
        (claim,) = turn.claims
        assert claim is not None
        seen.extend(map(int, bodies(claim)))
        return ahead(flights)[-1]

    alone = [await claim(here) for _ in range(3)]
    rivals = [await claim(store) for store in (there, here, there, here, there, here, there, here)]
    again = [await claim(here) for _ in range(3)]
    assert alone == [False, True, True]
    # The first time each finds that another was there; after that it does not try.
    assert rivals == [False, True, True, False, False, False, False, False]
    assert again == [False, True, True]
    assert seen == list(range(14))


async def test_who_stood_in_line_is_of_those_who_are_there_then(stage: Stage, topic: Topic, group: Group) -> None:
    """Not of those who began to wait, and at that time."""
    await stage.publish(*(stage.draft(topic, b"%d" % number) for number in range(20)))
    held = await stage.claim(group, 1)
    first, then = ClaimRequest("ann", 2, MINUTE), ClaimRequest("bob", 3, MINUTE)
    ack, now = Settlement(held.key, "ack"), stage.now + 700
    turn = await stage.store.turn(group, [], [first], stage.now, gather=lambda: ([ack], [first, then], now))
    assert [(claim.client, len(claim.messages), claim.claimed_at) for claim in turn.claims if claim] == [
        ("ann", 2, now),
        ("bob", 3, now),
    ]
    assert [settled.acked for settled in turn.settled if settled] == [1]


async def test_who_stood_in_line_reads_in_the_flight_of_the_locks(stage: Stage, flights: Flights) -> None:
    """The first of them, on which it waited, has told where the group is."""
    topic, group = await stage.topic_and_group()
    await stage.publish(*(stage.draft(topic, b"%d" % number) for number in range(20)))
    here, there = Store(stage.store.backend), Store(stage.store.backend)
    requests = [ClaimRequest("c", 2, MINUTE)]
    seen: list[int] = []
    for store in (here, there, here, there):
        flights.clear()
        turn = await store.turn(group, [], requests, stage.now, gather=lambda: ([], requests, stage.now))
        seen.extend(int(body) for claim in turn.claims if claim for body in bodies(claim))
        assert True in ahead(flights)
    assert seen == list(range(8))


async def test_of_its_own_queues_a_node_gathers_nobody(stage: Stage) -> None:
    """It stands in line for no more than these; the first queue, where others would be met, may be another's."""
    topic, group = await stage.topic_and_group(queues=2)
    await stage.publish(*(stage.draft(topic, queue=1) for _ in range(3)))
    request = ClaimRequest("ann", 2, MINUTE)
    turn = await stage.store.turn(group, [], [request], stage.now, place=(1, 2), gather=lambda: ([], [], stage.now))
    assert [len(claim.messages) for claim in turn.claims if claim] == [2]
