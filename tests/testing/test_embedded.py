"""The embedded server as its users see it: over HTTP, with time moved by hand."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import pytest

from tarry.client import LeaseLost, Tarry
from tarry.service.settings import SettingError
from tarry.testing import EmbeddedServer, NotDrained


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def tarry(server: EmbeddedServer) -> Iterator[Tarry]:
    with Tarry(server.url) as tarry:
        yield tarry


def test_what_waits_comes_when_its_time_is_moved_to_and_not_before(server: EmbeddedServer, tarry: Tarry) -> None:
    receipt = tarry.publish("orders", 7, delay="48h")
    server.clock.advance(timedelta(hours=47, minutes=59))
    server.drain()
    assert tarry.claim("orders", "billing") is None
    assert server.clock.advance("1m") >= receipt.deliver_at
    claim = tarry.claim("orders", "billing", wait="10s")
    assert claim is not None
    assert [message.id for message in claim.messages] == [receipt.id]


def test_rests_of_the_ladder_and_leases_pass_with_it(server: EmbeddedServer, tarry: Tarry) -> None:
    tarry.publish("orders", 7)
    first = tarry.claim("orders", "billing", wait="10s")
    assert first is not None
    tarry.fail(first)
    server.drain()  # it rests, so nothing is due
    assert tarry.claim("orders", "billing") is None
    server.clock.advance("10s")
    second = tarry.claim("orders", "billing", wait="10s", lease="60s")
    assert second is not None
    assert second.messages[0].attempt == 2
    server.clock.advance("61s")
    with pytest.raises(LeaseLost):
        tarry.ack(second)


def test_what_is_due_again_keeps_it_from_being_drained(server: EmbeddedServer, tarry: Tarry) -> None:
    tarry.publish("orders", 7)
    claim = tarry.claim("orders", "billing", wait="10s")
    assert claim is not None
    tarry.fail(claim)
    server.clock.advance("10s")
    with pytest.raises(NotDrained, match="orders"):
        server.drain(timeout=0.3)


def test_drain_waits_for_the_worker(server: EmbeddedServer, tarry: Tarry) -> None:
    handled: list[int] = []
    go, stop = Event(), Event()

    def handle(body: int) -> None:
        assert go.wait(10)
        handled.append(body)

    worker = Thread(target=tarry.run, args=("orders", "billing", handle, 4), kwargs={"stop": stop, "wait": "100ms"})
    tarry.publish_many("orders", [{"body": n, "delay": "1h"} for n in range(100)])
    worker.start()
    try:
        server.drain()
        assert handled == []
        server.clock.advance("1h")
        with pytest.raises(NotDrained, match="orders"):
            server.drain(timeout=0.2)
        go.set()
        server.drain()
        assert sorted(handled) == list(range(100))
    finally:
        go.set()
        stop.set()
        worker.join(20)


def test_a_schedule_fires_with_it(server: EmbeddedServer, tarry: Tarry) -> None:
    tarry.put_schedule("daily", cron="0 9 * * *", timezone="Europe/Berlin", topic="reports", body="report")
    tarry.claim("reports", "office")
    for day in range(3):
        server.clock.advance("24h")
        claim = tarry.claim("reports", "office", wait="10s")
        assert claim is not None, day
        tarry.ack(claim)


def test_two_stand_beside_each_other(server: EmbeddedServer, tarry: Tarry) -> None:
    with EmbeddedServer() as other, Tarry(other.url) as beside:
        other.clock.advance("1h")
        assert timedelta(minutes=59) < other.clock.now() - server.clock.now() < timedelta(minutes=61)
        beside.publish("orders", 1)
        assert tarry.topics() == []


def test_settings_are_those_of_the_server() -> None:
    with EmbeddedServer(ladder=["1m", "1h"]) as server, Tarry(server.url) as tarry:
        tarry.publish("orders", 1)
        tarry.claim("orders", "billing")
        assert tarry.group("orders", "billing")["ladder"] == [60_000, 3_600_000]
    with pytest.raises(SettingError, match="ladder"), EmbeddedServer(laddr=["1m"]):
        pass
    with pytest.raises(ValueError, match="listen"):
        EmbeddedServer(listen="127.0.0.1:1")


def test_time_does_not_go_back(server: EmbeddedServer) -> None:
    with pytest.raises(ValueError, match="below 0"):
        server.clock.advance(timedelta(seconds=-1))


def test_nothing_stays_behind() -> None:
    with EmbeddedServer() as server:
        folder = server._folder
        assert folder is not None
        assert (folder / "tarry.db").exists()
    assert not folder.exists()
    assert not server._thread.is_alive()


def test_who_does_not_use_pytest_does_not_load_it() -> None:
    subprocess.run(
        [sys.executable, "-c", "import sys, tarry.testing; assert 'pytest' not in sys.modules"],
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / ".tree")},
    )
