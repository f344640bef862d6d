"""A client's row says whether it lives: signs of life move it on, and it is buried only if it has not moved."""

import random
from collections import Counter

import trio

from support.store_homes import on_servers
from support.stores import MINUTE, SECOND, Stage, uncommitted
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.groups import clients, holdings
from tarry.store.groups.clients import Left, Registration
from tarry.store.records import Group, ReadRequest, Settlement
from tarry.store.stream import readers


async def _group(stage: Stage, messages: int = 3) -> Group:
    topic, group = await stage.topic_and_group()
    await stage.publish(*(stage.draft(topic) for _ in range(messages)))
    return group


async def test_only_what_registers_is_watched(stage: Stage) -> None:
    store, now = stage.store, stage.now
    assert await store.write(clients.renew, {"ann": now}) == {}
    assert await store.write(clients.renew, {"ann": now, "bob": now}, ["ann"]) == {"ann": Registration(now, now)}
    later = await store.write(clients.renew, {"ann": now + 5, "bob": now + 5})
    assert later == await store.read(clients.all_watched) == {"ann": Registration(now, now + 5)}


async def test_a_sign_of_life_that_comes_late_takes_nothing_back(stage: Stage) -> None:
    """As from a server that had been stopped."""
    store, now = stage.store, stage.now
    await store.write(clients.renew, {"ann": now}, ["ann"])
    await store.write(clients.renew, {"ann": now + 9})
    assert await store.write(clients.renew, {"ann": now + 4}, ["ann"]) == {"ann": Registration(now, now + 9)}


async def test_who_has_moved_is_not_buried(stage: Stage) -> None:
    store, now = stage.store, stage.now
    group = await _group(stage)
    news = await store.write(catalogue.add_topic, TopicDraft("news", kind="broadcast"), now)
    screens = await store.add_group(news, "screens", now)
    wish = ReadRequest(screens, "ann", 10, since=now)
    await store.write(clients.renew, {"ann": now}, ["ann"])
    claim = await stage.claim(group, client="ann")
    await store.write(readers.read_on, [wish], now)
    await store.write(clients.renew, {"ann": now + 1})
    assert await store.write(clients.remove, {"ann": now}, now + MINUTE) == {"ann": Left(watched=False)}
    assert (await stage.ack(group, claim, (0,))).acked == 1
    assert stage.count("reader") == 1
    assert list(await store.read(clients.all_watched)) == ["ann"]
    assert await store.write(clients.remove, {"ann": now + 1}, now + 20 * SECOND) == {"ann": Left(True, (claim.key,))}
    assert stage.count("reader") == stage.count("client") == 0
    assert await store.write(clients.remove, {"ann": now + 1}, now + 20 * SECOND) == {"ann": Left(watched=False)}


async def test_the_leases_of_the_dead_are_over_at_once(stage: Stage) -> None:
    """Also for whoever comes next: the one that buried it may be killed before it has ended a claim."""
    group = await _group(stage)
    await stage.store.write(clients.renew, {"ann": stage.now}, ["ann"])
    claim = await stage.claim(group, 1, client="ann")
    other = await stage.claim(group, 1, client="bob")
    stage.now += 15 * SECOND
    await stage.store.write(clients.remove, {"ann": stage.now}, stage.now)
    assert await stage.store.read(holdings.over, stage.now, 10) == [(claim.key, stage.now)]
    assert (await stage.ack(group, claim)).lost
    assert (await stage.ack(group, other)).acked == 1
    died, stage.now = stage.now, stage.now + SECOND
    ended = await stage.end_lease(group)
    assert (ended.lost, ended.retried) == (True, 1)
    assert ended.timers[0][0] == died + group.ladder.rungs[0]


async def test_who_goes_of_itself_need_not_be_watched(stage: Stage) -> None:
    group = await _group(stage)
    claim = await stage.claim(group, client="ann")
    assert await stage.store.write(clients.remove, {"ann": None}, stage.now) == {"ann": Left(False, (claim.key,))}
    assert (await stage.settle(group, Settlement(claim.key, "ack")))[0] is not None
    await stage.store.write(clients.renew, {"ann": stage.now + 9}, ["ann"])
    assert await stage.store.write(clients.remove, {"ann": None}, stage.now) == {"ann": Left(True, (claim.key,))}


@on_servers
async def test_a_claim_that_a_users_transaction_holds_keeps_its_lease(stage: Stage) -> None:
    """Nobody waits for it: its own lease ends it."""
    group = await _group(stage)
    claim = await stage.claim(group, client="ann")
    with uncommitted(stage.dsn, "SELECT token FROM claim FOR UPDATE"):
        assert await stage.store.write(clients.remove, {"ann": None}, stage.now) == {"ann": Left(watched=False)}
    assert (await stage.ack(group, claim)).acked == 3


async def test_many_servers_bury_a_client_once_or_hear_of_it(stage: Stage) -> None:
    """At once, on the condition of one time: every client is buried by one of them, or by none when it was heard of."""
    store, now, dice = stage.store, stage.now, random.Random(7)
    names = [f"c{number}" for number in range(40)]
    await store.write(clients.renew, dict.fromkeys(names, now), names)
    heard: set[str] = set()
    buried: Counter[str] = Counter()

    async def bury(some: list[str]) -> None:
        for name, left in (await store.write(clients.remove, dict.fromkeys(some, now), now + MINUTE)).items():
            buried[name] += left.watched

    async def hear(some: list[str]) -> None:
        heard.update(await store.write(clients.renew, dict.fromkeys(some, now + 1)))

    async with trio.open_nursery() as servers:
        for _ in range(8):
            servers.start_soon(bury, dice.sample(names, 20))
            servers.start_soon(hear, dice.sample(names, 5))
    await bury(names)
    assert all(buried[name] == (name not in heard) for name in names)
    assert set(await store.read(clients.all_watched)) == heard
