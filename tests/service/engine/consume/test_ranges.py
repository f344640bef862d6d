"""A claim over several queues at a server: one name for all of it, whoever asks and after a restart."""

from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

import pytest
import trio
from attrs import evolve

from support import nodes
from support.embedded import embedded
from support.running import running
from tarry.service.engine.consume.turns import Turns
from tarry.service.errors import UnknownClaim
from tarry.service.making import begin
from tarry.service.metrics import Metrics
from tarry.service.node import Node
from tarry.service.settings import Settings
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Locked
from tarry.store.groups import holdings
from tarry.store.groups.claim_ids import format_claim
from tarry.store.ports import Transaction
from tarry.store.records import Claim, ClaimKey, Draft, Gather, Group, Publication, Settled, Turn
from tarry.store.store import Store

HOUR = 3_600_000
QUEUES = 100


class Town:
    """A node, and a topic of many queues with a message in each."""

    group: Group

    def __init__(self, path: Path) -> None:
        self.server = begin(embedded(path), Settings(), Metrics())

    @property
    def node(self) -> Node:
        return self.server.node

    async def begin(self) -> None:
        topic, _ = await self.node.catalogue.put_topic(TopicDraft("wide", queues=QUEUES))
        self.group, _ = await self.node.catalogue.put_group(topic, "g", None)
        drafts = tuple(Draft(topic=topic, queue=queue, body=b"%d" % queue.number) for queue in topic.queues)
        await self.node.intake.publish(Publication(drafts))

    async def claim(self, size: int = 1000, wait: int = 0) -> Claim | None:
        return await nodes.claim(self.node, self.group, "c", size, wait, HOUR)

    async def claimed(self, size: int) -> Claim:
        claim = await self.claim(size)
        assert claim is not None
        return claim

    async def settle(self, claim: Claim | str, ids: list[int] | None = None) -> Settled:
        name = claim if isinstance(claim, str) else nodes.name_of(claim)
        return await self.node.groups.settle(name, "ack", ids=ids)

    async def acked(self) -> int:
        return (await self.node.store.read(catalogue.group_state, self.group)).acked

    def forget(self) -> None:
        """As after a restart."""
        self.node.groups._coordinators[self.group.id]._leases.clear()


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    town = Town(tmp_path / "tarry.db")
    async with running(town.server):
        await town.begin()
        yield town


async def test_a_hundred_queues_are_drained_in_two_claims(town: Town) -> None:
    claims = 0
    while (claim := await town.claim()) is not None:
        claims += 1
        assert not (await town.settle(claim)).lost
    assert (claims, await town.acked()) == (2, QUEUES)


@pytest.mark.parametrize("restarted", [False, True])
async def test_messages_of_all_its_ranges_are_named_by_id(town: Town, restarted: bool) -> None:
    claim = await town.claimed(10)
    if restarted:
        town.forget()
    ids = [message.id for one in claim.ranges for message in one.messages]
    assert len(ids) == 10
    assert await town.settle(claim, [*ids[:3], 5]) == Settled(lost=True), "one that it never held"
    assert await town.acked() == 0
    assert (await town.settle(claim, [*ids[:3], ids[0]])).acked == 3
    assert (await town.settle(claim)).acked == 10
    assert await town.acked() == 10


async def test_all_its_ranges_are_of_one_group_and_known(town: Town) -> None:
    claim = await town.claimed(3)
    first, second, third = (one.key for one in claim.ranges)
    forged = evolve(second, token=second.token ^ 1)
    with pytest.raises(UnknownClaim):
        await town.settle(format_claim(forged, first, third))
    with pytest.raises(UnknownClaim):
        await town.settle(format_claim(first, evolve(second, queue_id=1 << 31), third))
    assert await town.acked() == 0
    assert (await town.settle(claim)).acked == 3


async def test_all_of_it_comes_back_when_its_client_has_gone(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    take, committed, go_on = Turns.take, trio.Event(), trio.Event()

    async def slowly(self: Turns, group: Group, gather: Gather, present: Collection[str]) -> Turn:
        turn = await take(self, group, gather, present)
        committed.set()
        await go_on.wait()
        return turn

    with monkeypatch.context() as patched:
        patched.setattr(Turns, "take", slowly)
        async with trio.open_nursery() as client:
            client.start_soon(town.claim, 10)
            await committed.wait()
            client.cancel_scope.cancel()
    go_on.set()
    seen: set[int] = set()
    with trio.fail_after(10):
        while len(seen) < QUEUES:
            if (claim := await town.claim(1000, 100)) is not None:
                messages = [message for one in claim.ranges for message in one.messages]
                assert {message.attempt for message in messages} == {1}, "uncounted"
                seen.update(int(message.body) for message in messages)
                await town.settle(claim)


async def test_where_others_work_on_the_group_turns_stand_in_line_at_once(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a while after they have met; what is held for long keeps its few lines, and no more."""
    turn, tries, rivals = Store.turn, list[bool](), 1

    async def met(self: Store, *args: object, free: bool, place: tuple[int, int], gather: Gather | None) -> object:
        nonlocal rivals
        tries.append(free)
        assert (gather is None) == free, "who stands in line gathers when it has the group"
        if free and rivals:
            rivals -= 1
            raise Locked("another server's turn")
        return await turn(self, *args, free=free, place=place, gather=gather)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "turn", met)
    await town.claimed(1)
    await town.claimed(1)
    assert tries == [True, False, False]
    turns = town.node.groups._turns
    turns._met_until[town.group.id] -= 10
    await town.claimed(1)
    assert tries == [True, False, False, True]
    turns._met_until[town.group.id] += 10
    for place in range(4):
        turns._line.acquire_on_behalf_of_nowait(place)
    await town.claimed(1)
    assert tries == [True, False, False, True, True]


async def test_a_claim_that_an_old_primary_lacks_is_looked_for_where_it_is_written(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it hears that another has taken over, a server reads the old one; it cannot write there."""
    claim = await town.claimed(1000)
    town.forget()
    find_places, asked = holdings.find_places, list[bool]()

    async def old_then_new(tx: Transaction, keys: Sequence[ClaimKey]) -> dict[ClaimKey, dict[int, int]]:
        asked.append(True)
        return {} if len(asked) == 1 else await find_places(tx, keys)

    monkeypatch.setattr(holdings, "find_places", old_then_new)
    assert (await town.settle(claim, [claim.messages[0].id])).acked == 1
    assert len(asked) == 2
