"""How many messages a claim asks for: more while the workers are quicker than claims, and no more than before else."""

import threading
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.scripted_server import Answer, Request, ScriptedServer
from support.small_broker import SmallBroker
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.client.claim_size import ClaimSize, ahead, claim_size, grown


@pytest.mark.parametrize(
    ("workers", "max_cached", "size", "most"),
    [(1, 1000, 100, 500), (20, 1000, 100, 500), (90, 1000, 180, 500), (9000, 5000, 1000, 1000), (20, 7, 7, 7)],
)
def test_run_asks_for_two_for_each_worker_and_a_hundred_at_least(
    workers: int, max_cached: int, size: int, most: int
) -> None:
    assert claim_size(workers, max_cached) == size
    assert grown(size, max_cached) == most


def sizes(size: ClaimSize, *waiting: int) -> list[int]:
    """Of full claims, before each of which so many waited."""
    found: list[int] = []
    for number in waiting:
        size.claimed(size.now, number)
        found.append(size.now)
    return found


def test_it_grows_while_nobody_has_work_before_an_answer_and_shrinks_when_there_is() -> None:
    size = ClaimSize(100, 500, 50)
    assert sizes(size, 0, 0, 0, 0, 0) == [100, 200, 400, 500, 500], "the first tells nothing"
    assert size.ahead == 250
    assert sizes(size, 100, 126) == [500, 250]
    assert size.ahead == 125
    assert sizes(size, 63, 26, 50) == [125, 125, 100]
    assert sizes(size, 50, 50) == [100, 100]
    assert size.ahead == 50


def test_a_claim_with_room_left_is_followed_by_one_as_at_first() -> None:
    size = ClaimSize(100, 500, 50)
    sizes(size, 0, 0, 0)
    size.claimed(399, 0)
    assert (size.now, size.ahead) == (100, 50)
    assert sizes(size, 0, 0) == [100, 200]


@given(st.integers(1, 1000), st.integers(0, 1000), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 500))))
def test_it_stays_between_its_bounds(least: int, more: int, claims: list[tuple[float, int]]) -> None:
    first = ahead(least, 20)
    size = ClaimSize(least, least + more, first)
    for share, waiting in claims:
        size.claimed(round(share * size.now), waiting)
        assert least <= size.now <= least + more
        assert first <= size.ahead <= max(first, size.now // 2)


class Quick:
    """A server whose claims are answered when all that was claimed before is handled."""

    def __init__(self, script: ScriptedServer, messages: int) -> None:
        self.broker = SmallBroker()
        self.broker.backlog.extend(range(messages))
        self.messages = messages
        self.handled = 0
        self.stop = threading.Event()
        self._lock = threading.Lock()
        script.respond = self._respond

    def _respond(self, request: Request) -> Answer:
        if request.path.endswith("/claim"):
            out = self.messages - len(self.broker.backlog)
            wait_until(lambda: self.handled == out)
        return self.broker.respond(request)

    def handle(self, _: object) -> None:
        with self._lock:
            self.handled += 1
            if self.handled == self.messages:
                self.stop.set()

    def asked(self) -> list[int]:
        return [request["max"] for request in self.broker.all("claim")]


def test_claims_of_quick_workers_grow(tarry: Tarry, script: ScriptedServer) -> None:
    quick = Quick(script, 1300)
    tarry.run("t", "g", quick.handle, workers=2, stop=quick.stop)
    assert quick.asked()[:5] == [100, 100, 200, 400, 500]


@pytest.mark.parametrize("run", [{"max": 10}, {"max_cached": 10}])
def test_a_size_that_was_given_stays(tarry: Tarry, script: ScriptedServer, run: dict[str, int]) -> None:
    quick = Quick(script, 60)
    act: Callable[..., None] = tarry.run
    act("t", "g", quick.handle, workers=2, stop=quick.stop, **run)
    assert max(quick.asked()) == 10
