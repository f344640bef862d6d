"""Which queues a node publishes to: its own where there are enough, each queue by somebody."""

import pytest

from tarry.store.stream.placing import own_queue


@pytest.mark.parametrize("nodes", range(1, 9))
@pytest.mark.parametrize("queues", range(1, 12))
def test_every_queue_is_used_and_shared_only_where_there_are_too_few(nodes: int, queues: int) -> None:
    used = [[own_queue(place, nodes, queues, turn) for turn in range(2 * queues)] for place in range(nodes)]
    assert {queue for mine in used for queue in mine} == set(range(queues))
    if nodes <= queues:
        assert sum(len(set(mine)) for mine in used) == queues, "two nodes publish to one queue"
    else:
        users = [sum(queue in mine for mine in used) for queue in range(queues)]
        assert max(users) - min(users) <= 1
    for mine in used:
        counts = [mine.count(queue) for queue in set(mine)]
        assert max(counts) - min(counts) <= 2 * queues % len(counts) + 1


def test_alone_it_uses_all_in_turn() -> None:
    assert [own_queue(0, 1, 3, turn) for turn in range(7)] == [0, 1, 2, 0, 1, 2, 0]
