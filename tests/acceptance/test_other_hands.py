"""Two servers on one database: what is done at one is seen at the other, without a Redis, within about a second."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest

from support.server import client_of, start_servers
from support.stores import open_tables
from support.waiting import wait_until
from tarry.client import Claim, NotFound, Tarry, Unavailable
from tarry.service.demo.server_process import ServerProcess

SOON = 3.0
"""Seconds: the look is taken every second, and machines are slow."""


@pytest.fixture
def at(two_servers: list[ServerProcess]) -> Iterator[tuple[Tarry, Tarry]]:
    """A client of each of two servers."""
    with client_of(two_servers[0]) as at_a, client_of(two_servers[1]) as at_b:
        yield at_a, at_b


_NUMBERS = count()


@contextmanager
def polling(tarry: Tarry, topic: str) -> Iterator[Callable[[], Claim | None]]:
    """A long poll that waits, of a client that nobody knows yet; what it is given, which must be there soon."""
    client = f"client-{next(_NUMBERS)}"
    with ThreadPoolExecutor(1) as pool:
        polled: Future[Claim | None] = pool.submit(tarry.claim, topic, "billing", client=client, max=1, wait="10s")
        wait_until(lambda: polled.done() or client in [one["client"] for one in tarry.clients()])
        assert not polled.done()
        yield lambda: polled.result(SOON)


def see_a_look(at_a: Tarry, at_b: Tarry) -> None:
    """Returns when the second server has looked what the first one has done since."""
    at_a.put_topic("looks")
    with polling(at_b, "looks") as polled:
        at_a.publish("looks", "look")
        claim = polled()
        assert claim is not None
        at_b.ack(claim)


def bodies(claim: Claim | None) -> list[object]:
    return [] if claim is None else [message.body for message in claim.messages]


def claim(tarry: Tarry, topic: str, client: str = "ann") -> Claim | None:
    return tarry.claim(topic, "billing", client=client, max=1, wait=0)


def test_a_poll_that_does_not_wait_sees_what_was_published_elsewhere(at: tuple[Tarry, Tarry]) -> None:
    at_a, at_b = at
    at_a.put_topic("polled")
    for number in range(2):
        assert claim(at_b, "polled") is None
        at_a.publish("polled", number)
        found: list[object] = []

        def poll(found: list[object] = found) -> bool:
            if (one := claim(at_b, "polled")) is not None:
                found += bodies(one)
                at_b.ack(one)
            return bool(found)

        wait_until(poll, SOON)
        assert found == [number]


def test_a_long_poll_sees_what_was_published_elsewhere(at: tuple[Tarry, Tarry]) -> None:
    at_a, at_b = at
    at_a.put_topic("long-polled")
    for number in range(2):
        with polling(at_b, "long-polled") as polled:
            see_a_look(*at)
            at_a.publish("long-polled", number)
            assert bodies(polled()) == [number]


def test_what_is_settled_elsewhere_makes_room(at: tuple[Tarry, Tarry]) -> None:
    at_a, at_b = at
    at_a.put_topic("settled")
    at_a.put_group("settled", "billing", concurrency=1)
    for number in range(3):
        at_a.publish("settled", number)
    first = claim(at_a, "settled")
    assert first is not None
    with polling(at_a, "settled") as polled:
        see_a_look(at_b, at_a)
        at_b.ack(first)
        second = polled()
    assert second is not None
    assert bodies(second) == [1]
    assert claim(at_a, "settled") is None
    at_b.ack(second)
    wait_until(lambda: bodies(claim(at_a, "settled")) == [2], SOON)


def test_a_seek_elsewhere_is_seen(at: tuple[Tarry, Tarry]) -> None:
    at_a, at_b = at
    at_a.publish("sought", "once more")
    wait_until(lambda: (first := claim(at_b, "sought")) is not None and at_b.ack(first) == 1, SOON)
    with polling(at_b, "sought") as polled:
        see_a_look(*at)
        at_a.seek("sought", "billing", "earliest")
        assert bodies(polled()) == ["once more"]


def test_queues_stay_with_their_owners(at: tuple[Tarry, Tarry], two_servers: list[ServerProcess]) -> None:
    """Two clients at each server: once all are known, a queue changes hands no more."""
    at_a, at_b = at
    at_a.put_topic("owned", ordered=True, queues=8)
    at_a.put_group("owned", "billing")
    tables = open_tables(two_servers[0].dsn)
    homes = {"ann": at_a, "bob": at_a, "cat": at_b, "dan": at_b}

    def work(seconds: float) -> dict[str, int]:
        """Publishes and claims for so long; how many messages each client had."""
        had: dict[str, int] = dict.fromkeys(homes, 0)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            at_a.publish_many("owned", [{"body": n, "ordering_key": f"key-{n}"} for n in range(40)])
            for client, tarry in homes.items():
                for _ in range(4):
                    if (one := claim(tarry, "owned", client)) is not None:
                        tarry.ack(one)
                        had[client] += 1
        return had

    work(2)
    (before,) = tables.rows("SELECT SUM(epoch) FROM queue_owner")
    had = work(3)
    (after,) = tables.rows("SELECT SUM(epoch) FROM queue_owner")
    assert after == before, "queues changed hands"
    assert all(had.values()), had


def test_what_is_removed_elsewhere_is_not_made_again(at: tuple[Tarry, Tarry]) -> None:
    """By the next call of whoever does not know it yet."""
    at_a, at_b = at
    at_a.publish("removed", 1)
    wait_until(lambda: (one := claim(at_b, "removed")) is not None and at_b.ack(one) == 1, SOON)
    at_a.delete_group("removed", "billing")
    assert claim(at_b, "removed") is None
    with pytest.raises(NotFound):
        at_a.group("removed", "billing")
    at_a.delete_topic("removed", force=True)
    with pytest.raises(NotFound):
        at_b.publish("removed", 2)
    assert "removed" not in [one["topic"] for one in at_a.topics()]


def nodes(tarry: Tarry) -> list[tuple[str, bool, bool]]:
    """Name, whether it lives, whether it has the duties; by slot."""
    return [(one["node"], one["alive"], one["duties"]) for one in tarry.nodes()]


def gauges(server: ServerProcess) -> bool:
    """Whether it tells what waits."""
    return "tarry_pending_messages{" in httpx.get(f"{server.url}/metrics").text


@pytest.mark.long
def test_who_is_there_and_has_the_duties(mysql_dsn: str, tmp_path: Path) -> None:
    with start_servers(tmp_path, mysql_dsn, "a", "b") as (a, b), client_of(a) as at_a, client_of(b) as at_b:
        at_a.publish("waiting", 1, delay="1h")
        assert nodes(at_a) == nodes(at_b) == [("a", True, True), ("b", True, False)]
        wait_until(lambda: gauges(a))
        assert not gauges(b)
        a.kill()
        wait_until(lambda: nodes(at_b) == [("b", True, True)])
        assert "node_dead" in b.tail(100_000)
        wait_until(lambda: gauges(b))
        a.start()
        wait_until(lambda: nodes(at_b) == [("a", True, False), ("b", True, True)])
        assert b.stop() == 0
        wait_until(lambda: nodes(at_a) == [("a", True, True)])


def test_a_pause_at_one_server_is_a_pause_at_both(at: tuple[Tarry, Tarry]) -> None:
    """Messages fall due, retries come back and acks are taken meanwhile; who waits is served at the resume."""
    at_a, at_b = at
    at_a.put_group("paused", "billing", ladder=["10ms"])
    at_a.publish("paused", "in hand")
    held = claim(at_b, "paused")
    assert held is not None
    assert at_a.pause("paused", "billing")["paused"] is True
    wait_until(lambda: at_b.group("paused", "billing")["paused"], SOON)
    at_b.fail(held)
    at_b.publish("paused", "late", delay="10ms")
    wait_until(lambda: at_b.group("paused", "billing")["backlog"] == 2, SOON)
    assert claim(at_a, "paused") is None
    with polling(at_b, "paused") as polled:
        at_a.publish("paused", "now")
        assert claim(at_b, "paused") is None
        assert at_a.resume("paused", "billing")["paused"] is False
        resumed = polled()
    assert bodies(resumed) in (["in hand"], ["late"])
    assert resumed is not None
    at_a.ack(resumed)
    assert at_a.group("paused", "billing")["paused"] is False


def test_limits_of_a_topic(at: tuple[Tarry, Tarry], two_servers: list[ServerProcess]) -> None:
    """How many wait is known at the other within a second."""
    at_a, at_b = at
    at_a.put_topic("limited", max_pending=5)
    wait_until(lambda: at_b.topic("limited")["max_pending"] == 5, 15)
    at_a.publish_many("limited", [{"body": n, "delay": "1h"} for n in range(5)])
    impatient = Tarry(two_servers[1].url, deadline=0)

    def is_refused() -> bool:
        try:
            impatient.publish("limited", "too many", delay="1h")
        except Unavailable as error:
            return error.status == 429 and (error.retry_after or 0) > 0
        return False

    wait_until(is_refused, SOON)
    assert at_b.topic("limited")["pending"] <= 6
    impatient.close()
