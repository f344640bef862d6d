"""A server that is alive and cut off: its clients do not reach it, or it does not reach the database. What it had to do
others do within its lease; nothing is lost, nothing is early, and what it gave out is acked elsewhere."""

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import httpx
import pytest

from support.gate import Gate
from support.server import client_of, start_server
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess

LEASE = 5.0
"""Seconds without a sign of life until a server is dead to the others."""
SLOW = 8.0
"""Seconds more that a busy machine may take."""
MANY = 40


@attrs.frozen
class Two:
    """The first server's two lines go through gates."""

    first: ServerProcess
    second: ServerProcess
    clients: Gate
    database: Gate

    @property
    def url(self) -> str:
        """Of the first, through its gate."""
        return f"http://127.0.0.1:{self.clients.port}"


@pytest.fixture
def two(mysql_dsn: str, tmp_path: Path) -> Iterator[Two]:
    parts = urlsplit(mysql_dsn)
    database = Gate(parts.hostname or "127.0.0.1", parts.port or 3306)
    user = parts.netloc.rpartition("@")[0]
    gated = parts._replace(netloc=f"{user}@127.0.0.1:{database.port}").geturl()
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    with (
        start_server(folders[0], gated, {"TARRY_NODE": "first"}) as first,
        start_server(folders[1], mysql_dsn, {"TARRY_NODE": "second"}) as second,
    ):
        clients = Gate("127.0.0.1", first.port)
        yield Two(first, second, clients, database)
        database.open()
        clients.close()
    database.close()


def alive(tarry: Tarry) -> dict[str, int]:
    """The servers that are alive, and how many shards each holds."""
    return {node["node"]: len(node["shards"]) for node in tarry.nodes() if node["alive"]}


def claimed_on_time(tarry: Tarry, many: int, seconds: float) -> None:
    """So many messages come, none before its time and none later than that."""
    left = many
    while left:
        claim = tarry.claim("orders", "mails", wait="20s", max=100, start="earliest")
        assert claim is not None, f"{left} did not come"
        now = time.time()
        for message in claim.messages:
            assert message.deliver_at.timestamp() <= now, "early"
            assert now - message.deliver_at.timestamp() < seconds, "late"
        left -= len(claim.messages)
        tarry.ack(claim)


def test_one_that_its_clients_do_not_reach_goes_on_with_its_work(two: Two) -> None:
    with Tarry(two.url) as near, client_of(two.second) as other:
        wait_until(lambda: alive(other) == {"first": 8, "second": 8})
        near.publish("orders", "now")
        claim = near.claim("orders", "billing", lease="60s", start="earliest")
        assert claim is not None
        for number in range(MANY):
            near.publish("orders", number, delay="3s")
        two.clients.shut()
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{two.url}/readyz", timeout=5)
        assert other.ack(claim) == 1
        claimed_on_time(other, MANY + 1, SLOW)
        # To the others it is as alive as ever, and keeps its part of the wheel.
        assert alive(other) == {"first": 8, "second": 8}
        two.clients.open()
        assert httpx.get(f"{two.url}/readyz", timeout=5).status_code == 200
    for server in (two.first, two.second):
        assert "node_dead" not in server.tail(1_000_000)


def test_one_that_does_not_reach_the_database_is_not_ready_and_others_do_its_work(two: Two) -> None:
    with client_of(two.first) as cut_off, client_of(two.second) as other:
        wait_until(lambda: alive(other) == {"first": 8, "second": 8})
        cut_off.publish("orders", "now")
        claim = cut_off.claim("orders", "billing", lease="60s", start="earliest")
        assert claim is not None
        for number in range(MANY):
            cut_off.publish("orders", number, delay="2s")
        two.database.shut()
        at = time.monotonic()
        wait_until(lambda: httpx.get(f"{two.first.url}/readyz").status_code == 503)
        assert time.monotonic() - at < SLOW
        assert httpx.get(f"{two.first.url}/livez").status_code == 200
        refused = httpx.post(f"{two.first.url}/v1/topics/orders/messages", json={"body": "refused"}, timeout=30)
        assert refused.status_code == 503
        assert refused.json()["executed"] is False
        assert other.ack(claim) == 1
        claimed_on_time(other, MANY + 1, LEASE + SLOW)
        wait_until(lambda: alive(other) == {"second": 16}, LEASE + SLOW)
        wait_until(lambda: [node["duties"] for node in other.nodes()] == [True])
        assert '"node_dead"' in two.second.tail(1_000_000)
        two.database.open()
        wait_until(lambda: httpx.get(f"{two.first.url}/readyz").status_code == 200)
        wait_until(lambda: alive(other) == {"first": 8, "second": 8})
        assert cut_off.publish("orders", "again").id
        claimed_on_time(other, 1, SLOW)
    assert '"node_was_taken_for_dead"' in two.first.tail(1_000_000)
