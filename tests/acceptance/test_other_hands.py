"""Two servers on one database: what is done at one is seen at the other, without a Redis, within about a second."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.server import client_of
from support.stores import open_tables
from support.waiting import wait_until
from tarry.client import Claim, NotFound, Tarry, Unavailable
from tarry.service.demo.server_process import ServerProcess

SOON = 3.0
"""Seconds: the look is taken every second, and machines are slow."""
CLIENTS: tuple[str, ...] = ("ann", "bob", "cat", "dan")


@pytest.fixture
def servers(mysql_dsn: str, tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two that are ready."""
    servers: list[ServerProcess] = []
    try:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            servers.append(ServerProcess(tmp_path / name, mysql_dsn, environment={"TARRY_NODE": name}))
            servers[-1].start()
        yield servers
        assert [server.stop() for server in servers] == [0, 0]
    except BaseException:
        for server in servers:
            print(f"A server's log:\n{server.tail(10_000)}")
        raise
    finally:
        for server in servers:
            server.kill()


@pytest.fixture
def at(servers: list[ServerProcess]) -> Iterator[tuple[Tarry, Tarry]]:
    """A client of each of two servers."""
    with client_of(servers[0]) as at_a, client_of(servers[1]) as at_b:
        yield at_a, at_b


@contextmanager
def polling(tarry: Tarry, client: str = "bob", topic: str = "orders") -> Iterator[Callable[[], Claim | None]]:
    """A long poll that waits; what it is given, which must be there soon."""
    with ThreadPoolExecutor(1) as pool:
        polled: Future[Claim | None] = pool.submit(tarry.claim, topic, "billing", client=client, max=1, wait="10s")
        wait_until(lambda: polled.done() or client in [one["client"] for one in tarry.clients()])
        assert not polled.done()
        yield lambda: polled.result(SOON)


def see_a_look(at_a: Tarry, at_b: Tarry) -> None:
    """Returns when the second server has looked what the first one has done since."""
    at_a.put_topic("looks")
    with polling(at_b, "witness", "looks") as polled:
        at_a.publish("looks", "look")
        claim = polled()
        assert claim is not None
        at_b.ack(claim)


def bodies(claim: Claim | None) -> list[object]:
    return [] if claim is None else [message.body for message in claim.messages]


def claim(tarry: Tarry, client: str = "ann") -> Claim | None:
    return tarry.claim("orders", "billing", client=client, max=1, wait=0)


def test_a_poll_that_does_not_wait_sees_what_was_published_elsewhere(at: tuple[Tarry, Tarry]) -> None:
    at_a, at_b = at
    at_a.put_topic("orders")
    for number in range(2):
        assert claim(at_b) is None
        at_a.publish("orders", number)
        found: list[object] = []

        def poll(found: list[object] = found) -> bool:
            if (one := claim(at_b)) is not None:
                found += bodies(one)
                at_b.ack(one)
            return bool(found)

        wait_until(poll, SOON)
        assert found == [number]


def test_a_long_poll_sees_what_was_published_elsewhere(at: tuple[Tarry, Tarry]) -> None:
    at_a, at_b = at
    at_a.put_topic("orders")
    for number in range(2):
        with polling(at_b) as polled:
            see_a_look(*at)
            at_a.publish("orders", number)
            assert bodies(polled()) == [number]


def test_what_is_settled_elsewhere_makes_room(at: tuple[Tarry, Tarry]) -> None:
    at_a, at_b = at
    at_a.put_topic("orders")
    at_a.put_group("orders", "billing", concurrency=1)
    for number in range(3):
        at_a.publish("orders", number)
    first = claim(at_a)
    assert first is not None
    with polling(at_a) as polled:
        see_a_look(at_b, at_a)
        at_b.ack(first)
        second = polled()
    assert second is not None
    assert bodies(second) == [1]
    assert claim(at_a) is None
    at_b.ack(second)
    wait_until(lambda: bodies(claim(at_a)) == [2], SOON)


def test_a_seek_elsewhere_is_seen(at: tuple[Tarry, Tarry]) -> None:
    at_a, at_b = at
    at_a.publish("orders", "once more")
    wait_until(lambda: (first := claim(at_b)) is not None and at_b.ack(first) == 1, SOON)
    with polling(at_b) as polled:
        see_a_look(*at)
        at_a.seek("orders", "billing", "earliest")
        assert bodies(polled()) == ["once more"]


def test_queues_stay_with_their_owners(at: tuple[Tarry, Tarry], mysql_dsn: str) -> None:
    """Two clients at each server: once all are known, a queue changes hands no more."""
    at_a, at_b = at
    at_a.put_topic("orders", ordered=True, queues=8)
    at_a.put_group("orders", "billing")
    tables = open_tables(mysql_dsn)
    homes = dict(zip(CLIENTS, (at_a, at_a, at_b, at_b), strict=True))

    def work(seconds: float) -> dict[str, int]:
        """Publishes and claims for so long; how many messages each client had."""
        had: dict[str, int] = dict.fromkeys(CLIENTS, 0)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            at_a.publish_many("orders", [{"body": n, "ordering_key": f"key-{n}"} for n in range(40)])
            for client, tarry in homes.items():
                for _ in range(4):
                    if (one := claim(tarry, client)) is not None:
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
    at_a.publish("orders", 1)
    wait_until(lambda: (one := claim(at_b)) is not None and at_b.ack(one) == 1, SOON)
    at_a.delete_group("orders", "billing")
    assert claim(at_b) is None
    with pytest.raises(NotFound):
        at_a.group("orders", "billing")
    at_a.delete_topic("orders", force=True)
    with pytest.raises(NotFound):
        at_b.publish("orders", 2)
    assert list(at_a.topics()) == []


def nodes(tarry: Tarry) -> list[tuple[str, bool, bool]]:
    """Name, whether it lives, whether it has the duties; by slot."""
    return [(one["node"], one["alive"], one["duties"]) for one in tarry.nodes()]


def gauges(server: ServerProcess) -> bool:
    """Whether it tells what waits."""
    return "tarry_pending_messages{" in httpx.get(f"{server.url}/metrics").text


@pytest.mark.long
def test_who_is_there_and_has_the_duties(servers: list[ServerProcess], at: tuple[Tarry, Tarry]) -> None:
    (a, b), (at_a, at_b) = servers, at
    at_a.publish("orders", 1, delay="1h")
    assert nodes(at_a) == nodes(at_b) == [("a", True, True), ("b", True, False)]
    wait_until(lambda: gauges(a))
    assert not gauges(b)
    a.kill()
    wait_until(lambda: nodes(at_b) == [("b", True, True)])
    assert "node_dead" in b.tail(100_000)
    wait_until(lambda: gauges(b))
    a.start()
    wait_until(lambda: nodes(at_b) == [("a", True, False), ("b", True, True)])
    b.stop()
    wait_until(lambda: nodes(at_a) == [("a", True, True)])
    b.start()


def test_a_pause_at_one_server_is_a_pause_at_both(at: tuple[Tarry, Tarry]) -> None:
    """Messages fall due, retries come back and acks are taken meanwhile; who waits is served at the resume."""
    at_a, at_b = at
    at_a.put_group("orders", "billing", ladder=["10ms"])
    at_a.publish("orders", "in hand")
    held = claim(at_b)
    assert held is not None
    assert at_a.pause("orders", "billing")["paused"] is True
    wait_until(lambda: at_b.group("orders", "billing")["paused"], SOON)
    at_b.fail(held)
    at_b.publish("orders", "late", delay="10ms")
    wait_until(lambda: at_b.group("orders", "billing")["backlog"] == 2, SOON)
    assert claim(at_a) is None
    with polling(at_b) as polled:
        at_a.publish("orders", "now")
        assert claim(at_b) is None
        assert at_a.resume("orders", "billing")["paused"] is False
        resumed = polled()
    assert bodies(resumed) in (["in hand"], ["late"])
    assert resumed is not None
    at_a.ack(resumed)
    assert at_a.group("orders", "billing")["paused"] is False


def test_limits_of_a_topic(at: tuple[Tarry, Tarry], servers: list[ServerProcess]) -> None:
    """How many wait is known at the other within a second."""
    at_a, at_b = at
    at_a.put_topic("orders", max_pending=5)
    wait_until(lambda: at_b.topic("orders")["max_pending"] == 5, 15)
    at_a.publish_many("orders", [{"body": n, "delay": "1h"} for n in range(5)])
    impatient = Tarry(servers[1].url, deadline=0)

    def is_refused() -> bool:
        try:
            impatient.publish("orders", "too many", delay="1h")
        except Unavailable as error:
            return error.status == 429 and (error.retry_after or 0) > 0
        return False

    wait_until(is_refused, SOON)
    assert at_b.topic("orders")["pending"] <= 6
    impatient.close()
