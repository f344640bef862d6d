"""Real client processes that come, leave, stop, go on and are killed: their queues and messages go to others, in order.

The server's `client_timeout` is shortened, so that nobody waits for the 15 s after which a silent client is dead.
"""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.server import client_of, start_server
from support.worker_process import Handling, WorkerProcess, wait_for
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess

KEYS = [f"account-{number}" for number in range(12)]
AHEAD = 10
"""Of each key so many are published and not yet handled, at most."""
TIMEOUT = 3
_AT_ONCE = 0.1
"""Seconds in which it goes on that was stopped."""
_LATE = re.compile("dropped|is over; [0-9]+ messages come again")


@pytest.fixture(params=["sqlite", "mysql"])
def server(request: pytest.FixtureRequest, tmp_path: Path, fresh_database: Callable[[str], str]) -> Iterator[Any]:
    dsn = None if request.param == "sqlite" else fresh_database(request.getfixturevalue("mysql_server"))
    env = {"TARRY_CLIENT_TIMEOUT": f"{TIMEOUT}s", "TARRY_LADDER": ",".join(["50ms"] * 30)}
    with start_server(tmp_path, dsn, env) as server:
        yield server


Start = Callable[..., WorkerProcess]


@pytest.fixture
def start(server: ServerProcess, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker by its name."""
    workers: list[WorkerProcess] = []

    def begin(topic: str, name: str, seconds: float) -> WorkerProcess:
        workers.append(WorkerProcess(tmp_path, server.url, topic, "ledger", name, seconds))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.close()
        print(f"{worker.name}:\n{worker.tail()}")


@contextmanager
def publishing(tarry: Tarry, workers: list[WorkerProcess]) -> Iterator[list[int]]:
    """Meanwhile each key has its next number published, not far ahead of the workers; how many rounds, at the end."""
    rounds = [0]
    stop = threading.Event()

    def publish() -> None:
        while not stop.is_set():
            if rounds[0] * len(KEYS) - sum(worker.done() for worker in workers) < AHEAD * len(KEYS):
                drafts = [{"body": rounds[0], "ordering_key": key} for key in KEYS]
                tarry.publish_many("bank", drafts)
                rounds[0] += 1
            else:
                stop.wait(0.02)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield rounds
    finally:
        stop.set()
        thread.join(30)


def handled_by(others: list[WorkerProcess], hand: list[Handling]) -> bool:
    """Whether others have handled all of it to the end."""
    done = {one.id for worker in others for one in worker.handlings() if one.end is not None}
    return {one.id for one in hand} <= done


@pytest.mark.cases(1)
def test_keys_stay_in_order_whoever_comes_goes_stops_or_dies(server: ServerProcess, start: Start) -> None:
    with client_of(server) as tarry, client_of(server) as mine:
        tarry.put_topic("bank", ordered=True, queues=4)
        ann, bob, cid = crew = [start("bank", name, 0.02) for name in ("ann", "bob", "cid")]
        with publishing(mine, crew) as rounds:
            wait_for(lambda: min(worker.done() for worker in crew) >= 8, "all three have queues of their own")
            anns = ann.kill()
            killed_at = time.monotonic()
            bobs = bob.pause()
            paused_at = time.monotonic()
            crew.append(dan := start("bank", "dan", 0.02))
            wait_for(lambda: dan.done() >= 8, "a newcomer has a queue")
            wait_for(lambda: handled_by([bob, cid, dan], anns), "what the killed one had is handled by others")
            wait_for(lambda: handled_by([cid, dan], bobs), "what the paused one has is handled by others")
            assert time.monotonic() - paused_at < 20, "not at the end of the lease"
            bob.resume()
            resumed_at = time.monotonic()
            wait_for(lambda: any(_LATE.search(text) for text in bob.warnings()), "what is late is refused")
            wait_for(lambda: bob.done(resumed_at) >= 8, "it has a queue again")
            cid.leave()
            left_at = time.monotonic()
            wait_for(lambda: min(worker.done(left_at) for worker in (bob, dan)) >= 8, "two have it all")
        published = rounds[0] * len(KEYS)
        wait_for(lambda: tarry.group("bank", "ledger")["acked"] == published, "all is acked")
        for worker in (bob, dan):
            worker.leave()
        state = tarry.group("bank", "ledger")
        lives = [(one.worker, tarry.message(one.id)["life"]) for one in (*anns, *bobs)]
    assert (state["acked"], state["backlog"], state["claims"], state["claimed"]) == (published, 0, 0, 0)
    assert (state["dead"], state["parked"], sum(state["retries"])) == (0, 0, 0)
    for worker_name, life in lives:
        assert [line["what"] for line in life].count("acked") == 1
        assert life[-1]["what"] == "acked"
        # Parked: behind one of its key that was handled, and whose ack had not been sent.
        ends = [line["what"] for line in life if line.get("client") == worker_name and line["what"] != "claimed"]
        # Suspended: its client had not yet said that it had begun it.
        assert ends[0] in ("lease_lost", "suspended", "parked")
    assert fenced_writes(server) >= 1
    check(crew, rounds[0], {"ann": killed_at, "bob": paused_at}, {"bob": resumed_at})


def fenced_writes(server: ServerProcess) -> float:
    match = re.search(r"^tarry_fenced_writes_total (\S+)$", httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
    assert match is not None
    return float(match[1])


def check(crew: list[WorkerProcess], rounds: int, gone: dict[str, float], back: dict[str, float]) -> None:
    """By key: nothing lost, nothing before what comes before it, and no two hands at a time.

    `gone`: from when on what a worker had in hand was not its own any more. `back`: from when on it went on.
    """
    by_key: defaultdict[str, list[Handling]] = defaultdict(list)
    for worker in crew:
        # It may have been stopped between the client's look at its lease and the first line of the handler: nothing can
        # keep that one back, and its ack is refused. What waited in the client is kept back, and that was more.
        begun = worker.handlings()
        gone_at, back_at = gone.get(worker.name, 0.0), back.get(worker.name, 0.0)
        others = {one.id for other in crew if other is not worker for one in other.handlings()}
        on_its_way = [one for one in begun if gone_at < one.start < back_at + _AT_ONCE and one.id in others]
        assert len(on_its_way) <= 1, on_its_way
        for one in begun:
            if one not in on_its_way:
                by_key[one.key].append(one)
    assert set(by_key) == set(KEYS)
    for key, handlings in by_key.items():
        handlings.sort(key=lambda one: one.start)
        assert {one.number for one in handlings} == set(range(rounds)), f"{key}: lost"
        free_at, holder = 0.0, ""
        ended: set[int] = set()
        times: defaultdict[int, list[Handling]] = defaultdict(list)
        for one in handlings:
            assert one.start >= free_at, f"{key} is in the hands of {holder} and {one.worker}"
            # What came late from one that was taken for dead is refused; until then it was in its hands alone.
            late = one.worker in gone and one.start <= gone[one.worker]
            until = min(one.end or gone[one.worker], gone[one.worker]) if late else one.end
            assert until is not None, f"{key}: {one} never ended"
            free_at, holder = until, one.worker
            assert one.number == 0 or one.number - 1 in ended, f"{key}: {one.number} came before {one.number - 1}"
            ended.add(one.number)
            times[one.number].append(one)
        for number, several in times.items():
            before = several[:-1]
            assert all(one.worker in gone and one.start <= gone[one.worker] for one in before), f"{key}: {number} twice"


@pytest.mark.cases(1)
def test_what_a_killed_client_held_goes_to_another_at_once(server: ServerProcess, start: Start) -> None:
    with client_of(server) as tarry:
        tarry.publish_many("jobs", [{"body": number, "ordering_key": "any"} for number in range(20)])
        ann = start("jobs", "ann", 3600)
        wait_for(lambda: len(ann.in_hand()) == 4, "all its workers work, and more is claimed ahead")
        bob = start("jobs", "bob", 0)

        def shared_out() -> bool:
            state = tarry.group("jobs", "ledger")
            counts = state["backlog"], state["acked"], state["claimed"]
            return counts == (0, bob.done(), 20 - bob.done()) and bob.done() > 0

        wait_for(shared_out, "the other has handled the rest")
        assert 4 < 20 - bob.done() < 20
        anns = ann.kill()
        killed_at = time.monotonic()
        wait_for(partial(handled_by, [bob], anns), "it is handled by the other")
        wait_for(lambda: bob.done() == 20, "and so is what it had claimed ahead")
        assert time.monotonic() - killed_at < 20, "not at the end of the lease, a minute after"
        wait_for(lambda: tarry.group("jobs", "ledger")["acked"] == 20, "all is acked")
        assert tarry.group("jobs", "ledger")["clients"] == ["bob"]
        bob.leave()
        lives = [tarry.message(one.id)["life"] for one in anns]
    for life in lives:
        told = [(line["what"], line["client"], line["attempt"]) for line in life if "client" in line]
        # It counts if ann had said that she had begun it, which she does every few seconds.
        again = 2 if told[1] == ("lease_lost", "ann", 1) else 1
        assert told[:2] == [("claimed", "ann", 1), ("lease_lost" if again == 2 else "suspended", "ann", 1)]
        assert told[2:] == [("claimed", "bob", again), ("acked", "bob", again)]


@pytest.mark.long
def test_a_handler_that_never_returns_ends_with_its_process(server: ServerProcess, start: Start) -> None:
    """SIGTERM: the process ends when `drain` is over, and what was in its handlers comes to another, and no sooner."""
    with client_of(server) as tarry:
        tarry.publish_many("stuck", [{"body": number, "ordering_key": "any"} for number in range(6)])
        ann = start("stuck", "ann", 3600)
        wait_for(lambda: len(ann.in_hand()) == 4, "all its workers are stuck")
        hand = ann.in_hand()
        asked_at = time.monotonic()
        ann.leave()
        left_at = time.monotonic()
        assert left_at - asked_at < 15, "a second to drain, and what it takes to give back the rest"
        assert any("4 handlers still work 1 s after the end was asked for" in text for text in ann.warnings())
        bob = start("stuck", "bob", 0)
        wait_for(lambda: bob.done() == 2, "what none of its handlers had is given back at once")
        wait_for(partial(handled_by, [bob], hand), "the rest comes when its client is dead")
        assert min(one.start for one in bob.handlings() if one.id in {mine.id for mine in hand}) > left_at
        wait_for(lambda: tarry.group("stuck", "ledger")["acked"] == 6, "all is acked")
        bob.leave()
        lives = {one.id: tarry.message(one.id)["life"] for one in bob.handlings()}
    for id_, life in lives.items():
        ends = [(line["what"], line["client"]) for line in life if "client" in line and line["what"] != "claimed"]
        # What was in a handler counts if its client had said so, which it does every few seconds.
        given_back = {"lease_lost", "suspended"} if id_ in {one.id for one in hand} else {"suspended"}
        assert (ends[0][0] in given_back, ends[0][1], ends[1:]) == (True, "ann", [("acked", "bob")])
