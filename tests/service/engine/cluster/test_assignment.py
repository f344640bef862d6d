"""The assignment: everybody comes to the same, all have about as many, and who comes or goes moves few others."""

import random
from statistics import mean

import pytest

from tarry.service.engine.cluster.assignment import assign


def boots(dice: random.Random, many: int) -> frozenset[str]:
    return frozenset(f"{dice.getrandbits(64):016x}" for _ in range(many))


@pytest.mark.parametrize("many", range(1, 21))
def test_every_shard_has_an_owner_and_nobody_two_more_than_another(many: int) -> None:
    dice = random.Random(many)
    for _ in range(30):
        nodes = boots(dice, many)
        owners = assign(nodes)
        assert len(owners) == 16
        counts = [owners.count(node) for node in nodes]
        assert sum(counts) == 16
        assert max(counts) - min(counts) <= 1


def test_who_is_there_alone_decides() -> None:
    assert assign(frozenset("abc")) == assign(frozenset("cab"))
    assert assign.__wrapped__(frozenset("abc")) == assign(frozenset("abc"))


@pytest.mark.parametrize("many", [1, 2, 3, 4, 5, 8])
def test_who_comes_takes_his_own_and_moves_few_others(many: int) -> None:
    """The same the other way round, for who goes. With a bound, a shard may have to make room for another."""
    dice = random.Random(many)
    moved: list[int] = []
    for _ in range(100):
        nodes = boots(dice, many)
        (new,) = boots(dice, 1)
        before, after = assign(nodes), assign(nodes | {new})
        assert after.count(new) >= 16 // (many + 1)
        moved.append(sum(then != now != new for then, now in zip(before, after, strict=True)))
    assert max(moved) <= 6
    assert mean(moved) <= 1.5
    assert many > 1 or max(moved) == 0
