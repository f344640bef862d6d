"""Ids sort by due time, are never early, and stay within 63 bits."""

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.service.demo.server_process import python_path
from tarry.store.ids import (
    COUNT_BITS,
    MAX_MS,
    OUTBOX_COUNTS,
    SHARDS,
    IdMaker,
    due_of,
    first_id,
    is_straight,
    random_nonce,
    random_nonces,
    shard_for,
    shard_of,
)

MS = st.integers(0, MAX_MS - 2000)


@given(MS, st.none() | st.integers(0, SHARDS - 1), st.booleans(), st.integers(0, 1000), st.integers())
def test_never_earlier_and_within_its_shard(
    due: int, shard: int | None, straight: bool, spread: int, seed: int
) -> None:
    id_ = IdMaker(random.Random(seed)).make(due, shard=shard, straight=straight, spread=spread)
    assert 0 <= id_ < 1 << 63
    assert due <= due_of(id_) <= due + spread
    assert shard is None or shard_of(id_) == shard
    assert bool(id_ & 1 << 20) == straight


@given(MS, MS)
def test_ids_sort_by_due_time(one: int, other: int) -> None:
    maker = IdMaker()
    a, b = maker.make(one), maker.make(other)
    assert (due_of(a) < due_of(b)) == (one < other)
    if one != other:
        assert (a < b) == (one < other)
    assert first_id(one) <= a < first_id(one + 1)


def test_ids_of_a_millisecond_are_unique() -> None:
    maker = IdMaker(random.Random(1))
    ids = {maker.make(1000) for _ in range(50_000)} | {maker.make(1000, straight=True) for _ in range(50_000)}
    assert len(ids) == 100_000
    assert {due_of(id_) for id_ in ids} == {1000}
    assert {shard_of(id_) for id_ in ids} == set(range(SHARDS))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100), st.booleans()), max_size=8),
    st.integers(0, 60),
    st.integers(0, 99),
)
def test_ids_made_together_are_as_those_made_one_by_one(
    some: list[tuple[int, int, bool]], before: int, seed: int
) -> None:
    """Over all shards evenly, each once, and in the next millisecond where theirs is full."""
    maker, single = IdMaker(random.Random(seed)), IdMaker(random.Random(seed))
    for one in (maker, single):
        one._size = 40  # a millisecond's counts, so that it is soon full
        for number in range(before):
            one.make(1000, shard=number % 3)
    made = [(due, straight, maker.make_some(1000 + due, many, straight=straight)) for due, many, straight in some]
    alone = [[single.make(1000 + due, straight=straight) for _ in range(many)] for due, many, straight in some]
    every = [id_ for _, _, ids in made for id_ in ids]
    assert len(set(every)) == len(every)
    assert [[shard_of(id_) for id_ in ids] for _, _, ids in made] == [[shard_of(id_) for id_ in ids] for ids in alone]
    for due, straight, ids in made:
        assert all(due_of(id_) >= 1000 + due and is_straight(id_) == straight for id_ in ids)
    assert sorted(due_of(id_) for id_ in every) == sorted(due_of(id_) for ids in alone for id_ in ids)


def test_a_full_millisecond_goes_on_in_the_next() -> None:
    maker = IdMaker(random.Random(1))
    ids = [maker.make(1000, shard=3) for _ in range((1 << COUNT_BITS) - OUTBOX_COUNTS + 10)]
    assert len(set(ids)) == len(ids)
    assert [due_of(id_) for id_ in ids[-11:]] == [1000] + [1001] * 10
    assert due_of(maker.make(1000, shard=4)) == 1000


def test_an_outbox_and_the_service_never_meet() -> None:
    """The service would wait for the user's transaction to end."""
    service, outbox = IdMaker(random.Random(1)), IdMaker(random.Random(1), outbox=True)
    ours = {service.make(1000, shard=3) for _ in range((1 << COUNT_BITS) - OUTBOX_COUNTS)}
    theirs = {outbox.make(1000, shard=3) for _ in range(OUTBOX_COUNTS)}
    assert len(ours | theirs) == 1 << COUNT_BITS
    assert {due_of(id_) for id_ in ours | theirs} == {1000}
    assert due_of(outbox.make(1000, shard=3)) == 1001


def test_makers_are_not_coordinated() -> None:
    """Each begins at a random count: a hundred of each from two makers seldom meet, and need not."""
    firsts = {IdMaker(random.Random(seed)).make(1000, shard=0) for seed in range(200)}
    assert len(firsts) > 190


@pytest.mark.slow
def test_what_is_forgotten_begins_anew() -> None:
    """Memory is bounded; an id of a forgotten millisecond is as good as any other."""
    maker = IdMaker(random.Random(1))
    for due in range(250_000):
        maker.make(due, shard=0)
    assert 0 < len(maker._counts) <= 100_000
    assert due_of(maker.make(0, shard=0)) == 0


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(-5, 0), (0, 0), (1, 1 << 21), (MAX_MS, MAX_MS << 21), (MAX_MS + 1, (1 << 63) - 1), (1 << 60, (1 << 63) - 1)],
)
def test_first_id_stays_within_a_bigint(ms: int, expected: int) -> None:
    assert first_id(ms) == expected


@given(st.integers(1, 1 << 31), st.text(max_size=50))
def test_an_ordering_key_has_one_shard(topic: int, key: str) -> None:
    shard = shard_for(topic, key)
    assert 0 <= shard < SHARDS
    assert shard_for(topic, key) == shard


def test_ordering_keys_spread_over_the_shards() -> None:
    counts = [0] * SHARDS
    for i in range(16_000):
        counts[shard_for(1, f"order-{i}")] += 1
    assert min(counts) > 800


def test_nonces_cannot_be_worked_out() -> None:
    drawn: set[int] = set()
    for _ in range(2):
        random.seed(5)
        drawn.update(random_nonce() for _ in range(1000))
    assert len(drawn) == 2000


def test_parent_and_child_never_have_the_same_nonce() -> None:
    program = (
        "import os; from tarry.store.ids import random_nonce\n"
        "random_nonce()\n"
        "child = os.fork()\n"
        "os.write(1, b'%d\\n' % random_nonce())\n"
        "child and os.waitpid(child, 0)"
    )
    environment = os.environ | python_path()
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert len(set(done.stdout.split())) == 2


def test_nonces_are_signed() -> None:
    nonces = [*(random_nonce() for _ in range(500)), *random_nonces(500)]
    assert all(-(1 << 63) <= nonce < 1 << 63 for nonce in nonces)
    assert len(set(nonces)) == 1000
    assert min(nonces) < 0 < max(nonces)
