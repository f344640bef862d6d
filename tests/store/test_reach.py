"""How far a node's turns of a group reach: to its own queues, and to those that nobody else moves."""

from collections.abc import Mapping

import attrs
import pytest

from tarry.store.groups.reach import STILL, Reach, reach_of, with_partners
from tarry.store.records import Group, Queue, Topic
from tarry.wheel.ladder import Ladder

NOW = 1_795_000_000_000


def group_of(queues: int, *, ordered: bool = False, concurrency: int | None = None) -> Group:
    """Its queues have the ids 0, 1, ..., their retry queues 100, 101, ..."""
    own = tuple(Queue(number, number) for number in range(queues))
    topic = Topic(1, "orders", "cluster", ordered, own, None, None, NOW)
    back = {queue.id: Queue(100 + queue.id, queue.number) for queue in own}
    return Group(1, topic, "billing", Ladder(), back, concurrency=concurrency)


def reach_at(group: Group, place: int, nodes: int = 2) -> Reach:
    """Of a node that knows nothing yet."""
    reach = reach_of(group, (place, nodes), None)
    assert reach is not None
    return reach


def at(group: Group, *moved: int) -> Mapping[int, int]:
    """Where a group is that has moved in these queues."""
    return {id_: 5 if id_ in moved else 0 for id_ in group.queue_ids}


@pytest.mark.parametrize("nodes", range(2, 6))
@pytest.mark.parametrize("queues", range(2, 6))
def test_each_queue_is_some_nodes_own_with_its_retry_queue(nodes: int, queues: int) -> None:
    group = group_of(queues)
    own = [reach_at(group, place, nodes).queues(NOW) for place in range(nodes)]
    assert set().union(*own) == set(group.queue_ids)
    assert all({100 + id_ for id_ in mine if id_ < 100} == {id_ for id_ in mine if id_ >= 100} for mine in own)
    if nodes <= queues:
        assert sum(map(len, own)) == 2 * queues, "two nodes claim from one queue"


@pytest.mark.parametrize(
    ("group", "place"),
    [
        (group_of(4), (0, 1)),
        (group_of(1), (1, 2)),
        (group_of(4, ordered=True), (1, 2)),
        (group_of(4, concurrency=9), (1, 2)),
    ],
)
def test_where_nothing_can_be_shared_out_a_turn_takes_all(group: Group, place: tuple[int, int]) -> None:
    assert reach_of(group, place, None) is None


def test_what_is_known_holds_for_one_place_alone() -> None:
    group = group_of(4)
    known = attrs.evolve(reach_at(group, 0), everywhere=True)
    assert reach_of(group, (0, 2), known) == known
    assert reach_of(group, (1, 2), known) == reach_at(group, 1)
    assert reach_of(group, (0, 3), known) == reach_at(group, 0, 3)


def test_what_is_known_is_known_of_queues_that_come_too() -> None:
    known = attrs.evolve(reach_at(group_of(4), 0), helping=True)
    reach = reach_of(group_of(5), (0, 2), known)
    assert reach is not None
    assert reach.own == {0, 2, 4, 100, 102, 104}
    assert reach.queues(NOW) == set(group_of(5).queue_ids)


def test_what_lies_in_queues_that_nobody_else_moves_is_taken_too() -> None:
    group = group_of(4)
    ends = at(group, 0, 1, 2, 3)
    reach = reach_at(group, 0).after(at(group), at(group, 0), ends, NOW)
    assert reach.queues(NOW + STILL - 1) == {0, 2, 100, 102}
    assert reach.queues(NOW + STILL) == set(group.queue_ids)
    reach = reach.after(at(group, 0), at(group, 0, 1), ends, NOW + STILL)  # it moves one itself
    assert reach.queues(NOW + STILL) == set(group.queue_ids)
    reach = reach.after(at(group, 0, 1, 103), at(group, 0, 1, 103), ends, NOW + STILL)
    assert reach.queues(NOW + STILL) == {0, 2, 100, 102}, "another has moved one"


def test_queues_where_nothing_lies_are_left_to_their_node() -> None:
    group = group_of(4)
    reach = reach_at(group, 0).after(at(group), at(group), at(group, 0), NOW)
    assert reach.queues(NOW + STILL) == {0, 2, 100, 102}
    reach = reach.after(at(group), at(group), at(group, 101), NOW + STILL)
    assert reach.queues(NOW + STILL) == set(group.queue_ids), "something came back there"
    reach = reach.after(at(group), at(group, 101), at(group, 101), NOW + STILL)
    assert reach.queues(NOW + STILL) == {0, 2, 100, 102}, "and was taken"


def test_a_clock_that_goes_back_keeps_nobody_waiting() -> None:
    group = group_of(2)
    reach = reach_at(group, 0).after(at(group), at(group), at(group, 1), NOW)
    assert reach.queues(NOW) == {0, 100}
    assert reach.queues(NOW - 1) == set(group.queue_ids)


def test_after_a_turn_in_vain_it_reaches_everywhere_until_its_own_queues_hold_something() -> None:
    group = group_of(4)
    reach = reach_at(group, 1)
    for in_vain in (True, False, False):
        reach = reach.after(at(group), at(group), at(group, 0, 100), NOW, in_vain=in_vain)
        assert reach.queues(NOW) == set(group.queue_ids)
    reach = reach.after(at(group), at(group), at(group, 0, 103), NOW, in_vain=False)
    assert reach.queues(NOW) == {1, 3, 101, 103}


def test_who_has_room_all_the_time_helps_until_nothing_is_left_elsewhere() -> None:
    group = group_of(4)
    reach = reach_at(group, 0)
    for moved, at_ms in enumerate(
        range(0, STILL + 100, 100), 1
    ):  # another moves his at each turn, and its own hold some
        assert reach.queues(NOW + at_ms) == {0, 2, 100, 102}
        found = {**at(group), 1: moved}
        reach = reach.after(found, found, {0: 9, 2: 9, 100: 0, 102: 0}, NOW + at_ms, short=True)
    assert reach.queues(NOW + STILL) == set(group.queue_ids)
    reach = reach.after(at(group), at(group, 0), at(group, 0, 1), NOW + STILL)
    assert reach.queues(NOW + STILL) == set(group.queue_ids), "the other has something left"
    reach = reach.after(at(group), at(group, 0, 1), at(group, 0, 1), NOW + STILL)
    assert reach.queues(NOW + STILL) == {0, 2, 100, 102}


def test_who_has_room_now_and_then_does_not_help() -> None:
    group = group_of(2)
    reach = reach_at(group, 0)
    for number in range(20):
        now = NOW + 100 * number
        assert reach.queues(now) == {0, 100}
        reach = reach.after({**at(group), 1: number}, at(group), {0: 9, 100: 0}, now, short=number % 4 != 0)


def test_a_queue_and_its_retry_queue_are_held_together() -> None:
    group = group_of(3)
    assert with_partners(group, set()) == set()
    assert with_partners(group, {1}) == with_partners(group, {101}) == {1, 101}
    assert with_partners(group, {0, 102}) == {0, 100, 2, 102}
    assert with_partners(group, {7}) == set()
