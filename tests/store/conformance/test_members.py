"""Members of ordered groups are rows, for as long as they ask."""

from support.stores import SECOND, Stage
from tarry.store.groups import clients, members


async def test_who_was_there_not_long_ago(stage: Stage) -> None:
    store, now = stage.store, stage.now
    await store.write(
        members.see, [((1, "ann"), now), ((1, "bob"), now - 9 * SECOND), ((2, "ann"), now), ((3, "cat"), now)]
    )
    assert await store.read(members.of_groups, [1, 2, 4], now - 5 * SECOND) == {1: {"ann"}, 2: {"ann"}}
    await store.write(members.see, [((1, "bob"), now)])
    assert await store.read(members.of_groups, [1], now - 5 * SECOND) == {1: {"ann", "bob"}}


async def test_who_goes_shares_in_nothing(stage: Stage) -> None:
    store, now = stage.store, stage.now
    await store.write(members.see, [((1, "ann"), now), ((1, "bob"), now), ((2, "ann"), now)])
    await store.write(clients.remove, {"ann": None}, now)
    assert await store.read(members.of_groups, [1, 2], 0) == {1: {"bob"}}


async def test_who_was_buried_shares_in_nothing_unless_it_lives(stage: Stage) -> None:
    store, now = stage.store, stage.now
    await store.write(clients.renew, {"ann": now, "bob": now + 1}, ["ann", "bob"])
    await store.write(members.see, [((1, "ann"), now), ((1, "bob"), now)])
    await store.write(clients.remove, {"ann": now, "bob": now}, now)
    assert await store.read(members.of_groups, [1], 0) == {1: {"bob"}}


async def test_the_past_is_forgotten_a_batch_at_a_time(stage: Stage) -> None:
    store, now = stage.store, stage.now
    await store.write(members.see, [((1, f"c{number}"), now - SECOND) for number in range(150)])
    await store.write(members.see, [((1, "ann"), now)])
    assert [await store.write(members.forget, now) for _ in range(3)] == [100, 50, 0]
    assert await store.read(members.of_groups, [1], 0) == {1: {"ann"}}
