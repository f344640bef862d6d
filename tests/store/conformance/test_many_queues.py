"""A group with very many queues: a turn locks those that it has to do with, and a drain leaves none behind."""

from collections.abc import Sequence
from typing import Any

from support.stores import HOUR, MINUTE, Stage, bodies
from tarry.store import catalogue
from tarry.store.groups import locked_rows
from tarry.store.ports import Asked
from tarry.store.records import ClaimRequest

QUEUES = 200


Flights = list[Sequence[Asked[Any]]]


def locked(flights: Flights) -> list[int]:
    """How many cursors each turn has locked."""
    named: list[Any] = [
        one.values[1] for flight in flights for one in flight if one.query in ("cursor.lock", "cursor.free")
    ]
    return list(map(len, named))


async def test_a_drain_locks_few_and_leaves_none(stage: Stage, flights: Flights) -> None:
    topic, group = await stage.topic_and_group(queues=QUEUES)
    await stage.publish(*(stage.draft(topic, b"%d" % queue, queue=queue) for queue in range(QUEUES)))
    seen: list[int] = []
    more = True
    while more:
        turn = await stage.turn(group, requests=[ClaimRequest("c", 1000, MINUTE)] * 10)
        more = turn.more
        for claim in turn.claims:
            if claim is not None:
                seen += map(int, bodies(claim))
                assert (await stage.ack(group, claim)).acked == len(bodies(claim))
    assert sorted(seen) == list(range(QUEUES))
    assert 0 < max(locked(flights)) <= locked_rows.MANY + 2
    await stage.counts(group, acked=QUEUES, claimed=0)


async def test_returns_come_first_and_the_limit_holds(stage: Stage, flights: Flights) -> None:
    topic, group = await stage.topic_and_group(queues=QUEUES)
    await stage.store.write(catalogue.limit_group, group, 3)
    (group,) = await stage.store.groups([topic])
    await stage.publish(*(stage.draft(topic, b"%d" % queue, queue=queue) for queue in range(QUEUES)))
    turn = await stage.turn(group, requests=[ClaimRequest("c", 1, MINUTE)] * 5)
    held = [claim for claim in turn.claims if claim is not None]
    assert (len(held), turn.full) == (3, True)
    await stage.fail(group, held[0], retry_after=HOUR)
    for claim in held[1:]:
        await stage.ack(group, claim)
    await stage.fall_due(after=HOUR)
    again = await stage.claim(group, 1)
    assert (bodies(again), again.messages[0].attempt) == (bodies(held[0]), 2)
    assert max(locked(flights)) <= locked_rows.MANY + 2
