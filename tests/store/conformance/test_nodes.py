"""Servers are rows with slots of their own; leases have one holder at a time."""

from functools import partial

import attrs
import pytest

from support.at_once import at_once
from support.stores import SECOND, Stage
from tarry.store import leases, nodes
from tarry.store.errors import DuplicateKey
from tarry.store.leases import Lease
from tarry.store.nodes import NodeRow


def row(stage: Stage, boot: str, name: str = "a") -> NodeRow:
    return NodeRow(boot, name, 0, 6, stage.now, stage.now, b"{}")


async def test_each_has_the_lowest_slot_that_is_free(stage: Stage) -> None:
    store = stage.store
    entered = [await store.note(nodes.enter, row(stage, boot)) for boot in ("x", "y", "z")]
    assert [one.slot for one in entered] == [0, 1, 2]
    assert await store.read(nodes.all_nodes) == entered
    await store.note(nodes.leave, "y")
    assert (await store.note(nodes.enter, row(stage, "w"))).slot == 1


async def test_of_two_that_enter_at_once_each_has_its_own(stage: Stage) -> None:
    slots: list[int] = []

    async def enter(boot: str) -> None:
        while True:
            try:
                slots.append((await stage.store.note(nodes.enter, row(stage, boot))).slot)
            except DuplicateKey:
                continue
            return

    await at_once(*(partial(enter, f"boot-{number}") for number in range(6)))
    assert sorted(slots) == list(range(6))


async def test_who_renews_is_not_buried(stage: Stage) -> None:
    store, now = stage.store, stage.now
    await store.note(nodes.enter, row(stage, "x"))
    await store.note(nodes.enter, row(stage, "y"))
    seen = await store.read(nodes.all_nodes)
    assert await store.note(nodes.renew, "x", now + 5 * SECOND, b'{"a":1}')
    assert await store.note(nodes.bury, seen) == ["y"]
    (left,) = await store.read(nodes.all_nodes)
    assert (left.boot, left.renewed_at, left.facts) == ("x", now + 5 * SECOND, b'{"a":1}')
    assert not await store.note(nodes.renew, "y", now + 6 * SECOND, b"{}")


async def test_a_lease_has_one_holder_at_a_time(stage: Stage) -> None:
    store, now = stage.store, stage.now

    async def hold(who: str, at: int) -> bool:
        return await store.note(leases.hold, "duties", who, at, at + 5 * SECOND)

    assert await store.read(leases.find, "duties") is None
    assert await hold("x", now)
    assert not await hold("y", now + SECOND)
    assert await hold("x", now + 2 * SECOND)
    assert not await hold("y", now + 6 * SECOND)
    assert await hold("y", now + 7 * SECOND)
    assert not await hold("x", now + 8 * SECOND)
    assert await store.read(leases.find, "duties") == Lease("y", 2, now + 12 * SECOND)
    await store.note(leases.give_back, "duties", "x")  # which is not his
    assert not await hold("x", now + 8 * SECOND)
    await store.note(leases.give_back, "duties", "y")
    assert await hold("x", now + 8 * SECOND)
    assert await store.read(leases.find, "duties") == Lease("x", 3, now + 13 * SECOND)


async def test_what_is_noted_is_committed_by_itself(stage: Stage) -> None:
    async def work(tx: object) -> None:
        await leases.hold(tx, "duties", "x", stage.now, stage.now + SECOND)  # type: ignore[arg-type]
        raise RuntimeError("behind it")

    with pytest.raises(RuntimeError, match="behind it"):
        await stage.store.note(work)
    found = await stage.store.read(leases.find, "duties")
    assert (found == Lease("x", 1, stage.now + SECOND)) == stage.store.backend.shared


async def test_who_looks_has_the_databases_time_with_it(stage: Stage) -> None:
    """Of the same moment: nothing is asked for it. An embedded store has none, its host has the clock."""
    assert await stage.store.read(nodes.look) == []
    entered = await stage.store.note(nodes.enter, row(stage, "x"))
    before = await stage.store.now()
    (seen,) = await stage.store.read(nodes.look)
    after = await stage.store.now()
    assert seen == nodes.SeenNode(**attrs.asdict(entered), asked_at=seen.asked_at)
    if stage.store.backend.shared:
        assert before <= seen.asked_at // 1000 <= after
    else:
        assert seen.asked_at == 0
