"""Two servers on one database: each does its work, and neither takes the other's clients for dead."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.server import client_of, start_server
from support.waiting import wait_until
from tarry.client import Claim, Tarry
from tarry.service.demo.server_process import ServerProcess

TIMEOUT = 2.0
"""Seconds for which a client lives after a sign of life."""


@contextmanager
def renewing(tarry: Tarry, client: str) -> Iterator[None]:
    """The client renews, as its library has it do."""
    done = threading.Event()

    def renew() -> None:
        while not done.wait(TIMEOUT / 4):
            tarry.renew(client)

    task = threading.Thread(target=renew)
    task.start()
    yield
    done.set()
    task.join()


def lost(server: ServerProcess) -> float:
    """How many leases this server has seen lost."""
    text = httpx.get(f"{server.url}/metrics").text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("tarry_lease_lost_total "))


def buried(server: ServerProcess, client: str) -> int:
    log = server.tail(1_000_000)
    return sum("client_dead" in line and f'"{client}"' in line for line in log.splitlines())


def claimed(tarry: Tarry, client: str) -> Claim:
    claim = tarry.claim("orders", "billing", client=client, max=1, wait="10s", lease="10m")
    assert claim is not None
    return claim


@pytest.fixture
def servers(mysql_dsn: str, tmp_path: Path) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """The second one is there, and not started yet."""
    env = {"TARRY_CLIENT_TIMEOUT": f"{TIMEOUT:.0f}s", "TARRY_LADDER": "20ms"}
    other = tmp_path / "other"
    other.mkdir()
    with start_server(tmp_path, mysql_dsn, env) as first:
        second = ServerProcess(other, mysql_dsn, environment=env)
        try:
            yield first, second
            assert second.stop() == 0
        except BaseException:
            print(f"The log of the second server:\n{second.tail(10_000)}")
            raise
        finally:
            second.kill()


def read(tarry: Tarry, url: str) -> list[object]:
    """What the broadcast client gets next."""
    request = {"client": "reader", "max": 1}
    answer = httpx.post(f"{url}/v1/topics/news/groups/screens/claim", json=request)
    assert answer.status_code == 200, answer.text
    return [message["body"] for message in answer.json()["messages"]]


def test_a_second_server_does_no_harm(servers: tuple[ServerProcess, ServerProcess]) -> None:
    a, b = servers
    with client_of(a) as at_a, client_of(b) as at_b:
        for number in range(3):
            at_a.publish("orders", number)
        at_a.put_topic("news", kind="broadcast")
        for client in ("ann", "reader"):
            at_a.renew(client)
        assert read(at_a, a.url) == []
        for number in range(3):
            at_a.publish("news", number)
        assert read(at_a, a.url) == [0]
        hers = claimed(at_a, "ann")
        with renewing(at_a, "ann"), renewing(at_a, "reader"):
            b.start()
            at_b.renew("witness")
            wait_until(lambda: buried(b, "witness") == 1)  # the second server has judged whom it knows
            at_a.extend(hers, "10m")
            assert lost(a) == lost(b) == 0
            assert read(at_a, a.url) == [1]
        # They go over to the other server, and the first hears no more of them.
        with renewing(at_b, "ann"), renewing(at_b, "reader"):
            at_a.renew("witness")
            wait_until(lambda: buried(a, "witness") == 1)
            assert at_b.ack(hers) == 1
            assert read(at_b, b.url) == [2]
            assert lost(a) == lost(b) == 0
        # And one that is dead is buried, by one of them, once.
        at_b.renew("ann")
        left = claimed(at_b, "ann")
        (back,) = claimed(at_a, "bob").messages
        assert (back.body, back.attempt) == (2, 1)
        (again,) = claimed(at_a, "bob").messages
        assert (again.id, again.attempt) == (left.messages[0].id, 2)
        at_a.renew("witness")
        wait_until(lambda: buried(a, "witness") == 2)
        assert buried(a, "ann") + buried(b, "ann") == 1
        assert lost(a) + lost(b) == 1


def test_each_publishes_to_queues_of_its_own(two_servers: list[ServerProcess]) -> None:
    """Of an unordered topic, while there are two; all of them alone, and of an ordered one."""
    a, b = two_servers
    with client_of(a) as at_a, client_of(b) as at_b:
        at_a.put_topic("own", queues=4)
        at_a.put_topic("steps", queues=4, ordered=True)

        def queues(tarry: Tarry, topic: str) -> set[int | None]:
            return {tarry.publish(topic, 1).queue for _ in range(8)}

        wait_until(lambda: queues(at_a, "own") == {0, 2} and queues(at_b, "own") == {1, 3})
        assert queues(at_a, "steps") == queues(at_b, "steps") == {0, 1, 2, 3}
        keyed = [{tarry.publish("own", 1, ordering_key="k").queue for _ in range(3)} for tarry in (at_a, at_b)]
        assert keyed[0] == keyed[1]
        assert len(keyed[0]) == 1
        assert b.stop() == 0
        try:
            wait_until(lambda: queues(at_a, "own") == {0, 1, 2, 3})
        finally:
            b.start()


def test_two_of_one_name_both_work_and_the_later_one_says_so(mysql_dsn: str, tmp_path: Path) -> None:
    """They are told apart by their boots: each has its timers, one of them the duties, and one can be stopped."""
    env = {"TARRY_NODE": "twin"}
    other = tmp_path / "other"
    other.mkdir()
    with (
        start_server(tmp_path, mysql_dsn, env) as first,
        start_server(other, mysql_dsn, env) as second,
        client_of(first) as at_first,
        client_of(second) as at_second,
    ):
        wait_until(lambda: "node_name_taken" in second.tail(1_000_000))
        wait_until(lambda: sorted(len(one["shards"]) for one in at_first.nodes()) == [8, 8])
        told = at_first.nodes()
        assert [(one["node"], one["alive"]) for one in told] == [("twin", True)] * 2
        assert len({one["boot"] for one in told}) == 2
        assert [one["duties"] for one in told] == [True, False]
        for number in range(64):
            (at_first, at_second)[number % 2].publish("orders", number, delay="300ms")
        seen: list[object] = []
        while len(seen) < 64:
            claim = at_second.claim("orders", "billing", max=64, wait="5s")
            assert claim is not None
            seen += [message.body for message in claim.messages]
            at_second.ack(claim)
        assert sorted(seen, key=str) == sorted(range(64), key=str)
        assert first.stop() == 0
        wait_until(lambda: [(one["duties"], len(one["shards"])) for one in at_second.nodes()] == [(True, 16)])
        assert second.tail(1_000_000).count("node_name_taken") == 1
        assert "node_name_taken" not in first.tail(1_000_000)
        assert "node_dead" not in second.tail(1_000_000)


def test_one_group_is_consumed_at_both(two_servers: list[ServerProcess]) -> None:
    """Their turns meet all the time: each message is given once, and each ack counts."""
    seen: list[object] = []
    with client_of(two_servers[0]) as tarry:
        tarry.publish_many("shared", [{"body": number} for number in range(1000)])

    def consume(number: int) -> None:
        with client_of(two_servers[number % 2]) as tarry:
            while (claim := tarry.claim("shared", "billing", client=f"c{number}", max=10, wait="1s")) is not None:
                seen.extend(message.body for message in claim.messages)
                assert tarry.ack(claim) == len(claim.messages)

    with ThreadPoolExecutor(6) as consumers:
        for _ in consumers.map(consume, range(6)):
            """What one of them met is told."""
    assert sorted(seen, key=str) == sorted(range(1000), key=str)
    with client_of(two_servers[1]) as tarry:
        assert tarry.group("shared", "billing")["acked"] == 1000


def test_what_one_has_changed_the_other_goes_by_at_once(two_servers: list[ServerProcess]) -> None:
    """Though it has not heard of it: a claim of queues that were added there is acked here, and a group that was made
    there gets the ladder that is set here."""
    with client_of(two_servers[0]) as at_a, client_of(two_servers[1]) as at_b:
        for tarry in (at_a, at_b):
            tarry.publish("changed", 1)
        for tarry in (at_a, at_b, at_a):
            while (claim := tarry.claim("changed", "billing", max=2)) is not None:
                tarry.ack(claim)
        at_a.put_topic("changed", queues=4)
        at_a.publish_many("changed", [{"body": number, "ordering_key": str(number)} for number in range(16)])
        claim = at_a.claim("changed", "billing", max=16, wait="5s")
        assert claim is not None
        assert at_b.ack(claim) == len(claim.messages)
        at_a.put_group("changed", "slow", ladder=["1s"])
        assert at_b.put_group("changed", "slow", ladder=["2s", "3s"])["ladder"] == [2000, 3000]
        wait_until(lambda: at_a.group("changed", "slow")["ladder"] == [2000, 3000])
