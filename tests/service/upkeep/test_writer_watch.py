"""Whoever should know hears once of two hosts that take writes at the same time."""

from typing import cast

import pytest
from structlog.testing import capture_logs

from support.ringing import Rung
from tarry.service.clock import Clock
from tarry.service.upkeep.writer_watch import WriterWatch
from tarry.store.ports import Backend


class Hosts:
    """What is found at them, told by hand."""

    def __init__(self, clock: Clock) -> None:
        self.writable: list[str] = []
        self.elsewhere: list[str] = []
        self.alarm = Rung()
        self.watch = WriterWatch(cast(Backend, self), self.alarm, clock)

    async def rivals(self) -> list[str]:
        return list(self.writable)


async def a_while_ago() -> float:
    return 1_795_000_000_000


@pytest.fixture
async def hosts() -> Hosts:
    clock = Clock(a_while_ago)
    await clock.take()
    return Hosts(clock)


async def test_it_is_told_once_and_again_when_there_is_another(hosts: Hosts) -> None:
    with capture_logs() as told:
        await hosts.watch.look()
        assert (hosts.watch.wrong(hosts.elsewhere), told) == (None, [])
        hosts.writable = ["b:3306"]
        for _ in range(3):
            await hosts.watch.look()
        assert hosts.watch.wrong(hosts.elsewhere) == (
            "another server takes writes, too, at b:3306: each has what is written to it: set read_only on all but one"
        )
        hosts.writable = ["b:3306", "c:3306"]
        await hosts.watch.look()
        hosts.writable = []
        await hosts.watch.look()
        await hosts.watch.look()
    assert hosts.watch.wrong(hosts.elsewhere) is None
    assert [line["event"] for line in told] == ["store_two_writers", "store_two_writers", "store_one_writer"]
    rung = [("store_two_writers", ["b:3306"]), ("store_two_writers", ["b:3306", "c:3306"])]
    assert hosts.alarm.told("hosts") == rung


async def test_who_does_not_look_tells_what_another_has_found(hosts: Hosts) -> None:
    hosts.writable, hosts.elsewhere = ["b:3306"], ["c:3306"]
    await hosts.watch.look()
    assert "at b:3306" in (hosts.watch.wrong(hosts.elsewhere) or "")
    hosts.watch.forget()
    assert "at c:3306" in (hosts.watch.wrong(hosts.elsewhere) or "")
    hosts.elsewhere = []
    assert hosts.watch.wrong(hosts.elsewhere) is None
