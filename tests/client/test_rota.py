"""Which topic is served next, where the same workers serve several."""

from collections import Counter, deque
from contextlib import nullcontext

import hypothesis.strategies as st
import pytest
from attrs import evolve
from hypothesis import given

from support.claimed import TERMS, a_claim, a_message
from tarry.client.async_consumption import TaskBell, TaskLoops
from tarry.client.delivery import AsyncDelivery
from tarry.client.loops import Together
from tarry.client.pulse import Pulse
from tarry.client.rota import Rota
from tarry.client.transport import TaskTransport


class Topics:
    """Loops that are not at work, with so many messages of each topic."""

    def __init__(self, limit: int | None = None, **waiting: int) -> None:
        together = Together(TaskBell(), Pulse(0.0))
        transport = TaskTransport("http://127.0.0.1:1", timeout=1, deadline=0)
        self.loops = {
            topic: TaskLoops(
                transport, evolve(TERMS, topic=topic), lambda: 0.0, nullcontext(), TaskBell, together, AsyncDelivery
            )
            for topic in waiting
        }
        self.rota = Rota(list(self.loops.values()), together.arrived, lambda: 0.0, limit)
        for topic, many in waiting.items():
            self.add(topic, many)

    def add(self, topic: str, many: int) -> None:
        messages = [a_message(str(n), topic=topic) for n in range(many)]
        self.loops[topic].stock.add(a_claim(f"{topic}{many}", *messages, topic=topic), 0.0, 0.0)

    def next(self) -> AsyncDelivery | None:
        return self.rota.answer(0.0)[1]


async def test_free_workers_are_shared_out_evenly() -> None:
    topics = Topics(a=100, b=100, c=1)
    hands = [topics.next() for _ in range(9)]
    assert Counter(one.topic for one in hands if one is not None) == {"a": 4, "b": 4, "c": 1}


async def test_a_topic_alone_has_all_workers_and_the_next_free_one_is_the_others() -> None:
    topics = Topics(a=100, b=0)
    hands = deque(topics.next() for _ in range(8))
    assert {one.topic for one in hands if one is not None} == {"a"}
    topics.add("b", 8)
    for _ in range(4):
        first = hands.popleft()
        assert first is not None
        first.ack()
        following = topics.next()
        assert following is not None
        assert following.topic == "b"
        hands.append(following)
    # Now each has half of them, and it stays so.
    for _ in range(8):
        first = hands.popleft()
        assert first is not None
        first.ack()
        hands.append(topics.next())
        assert Counter(one.topic for one in hands if one is not None) == {"a": 4, "b": 4}
        topics.add("b", 1)


async def test_those_with_as_many_workers_take_turns() -> None:
    topics = Topics(a=10, b=10, c=10)
    order: list[str] = []
    for _ in range(9):  # one worker
        delivery = topics.next()
        assert delivery is not None
        order.append(delivery.topic)
        delivery.ack()
    assert order == [*"abcabcabc"]


@pytest.mark.slow
@given(st.lists(st.integers(0, 20), min_size=2, max_size=5), st.integers(1, 12))
async def test_nobody_waits_while_another_has_more_workers(waiting: list[int], workers: int) -> None:
    topics = Topics(**{f"t{n}": many for n, many in enumerate(waiting)})
    hands = [one.topic for one in (topics.next() for _ in range(workers)) if one is not None]
    assert len(hands) == min(workers, sum(waiting))  # no worker is idle while anything waits
    has = Counter(hands)
    for topic, loops in topics.loops.items():
        if loops.stock.waiting:
            assert all(other <= has[topic] + 1 for other in has.values())


async def test_the_limit_is_one_for_all() -> None:
    topics = Topics(limit=3, a=5, b=5)
    assert all(topics.next() is not None for _ in range(3))
    assert topics.rota.answer(None) == (True, None)


async def test_what_ends_one_ends_all() -> None:
    topics = Topics(a=5, b=5)
    topics.loops["b"].error = ValueError("b")
    with pytest.raises(ValueError, match="b"):
        topics.next()
