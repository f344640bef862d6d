"""Two and three servers on one database share its timers: one is killed, or stopped, under a steady load."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from support.server import client_of
from support.stores import Tables, open_tables
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess

RATE = 200
SECONDS = 10
TOTAL = RATE * SECONDS
PAGE = 100
LEAD = timedelta(seconds=9)
"""Until the first is due: it is not due soon for whoever hears of it, also when machines are slow."""


@contextmanager
def running(home: Path, dsn: str, many: int) -> Iterator[list[ServerProcess]]:
    """So many servers, which have shared out the shards among them."""
    servers: list[ServerProcess] = []
    try:
        for _ in range(many):
            add_server(servers, home, dsn)
        with client_of(servers[0]) as tarry:
            wait_until(lambda: is_shared_out(tarry, many))
        if many > 1:
            wait_until(lambda: "shards_left" in servers[0].tail(100_000))
        yield servers
    except BaseException:
        for server in servers:
            print(f"A server's log:\n{server.tail(10_000)}")
        raise
    finally:
        for server in reversed(servers):
            server.kill()


def add_server(servers: list[ServerProcess], home: Path, dsn: str) -> None:
    name = f"node-{len(servers)}"
    (home / name).mkdir()
    servers.append(ServerProcess(home / name, dsn, environment={"TARRY_NODE": name}))
    servers[-1].start()


def is_shared_out(tarry: Tarry, among: int) -> bool:
    """Whether each has its part, and nobody another's."""
    found = [one["shards"] for one in tarry.nodes()]
    return len(found) == among and sorted(shard for own in found for shard in own) == list(range(16))


@attrs.define
class Load:
    """Messages due at a steady rate, scheduled at all servers in turn; and how late each was put into its queue."""

    servers: list[ServerProcess]
    tables: Tables

    def schedule(self) -> None:
        first = datetime.now(UTC) + LEAD
        for begin in range(0, TOTAL, PAGE):
            dues = [first + timedelta(seconds=number / RATE) for number in range(begin, begin + PAGE)]
            with client_of(self.servers[begin // PAGE % len(self.servers)]) as tarry:
                tarry.publish_many("orders", [{"body": due.isoformat(), "deliver_at": due} for due in dues])
        assert datetime.now(UTC) + timedelta(seconds=4) < first, "so slow a machine tells nothing"

    def arrived(self) -> int:
        ((many,),) = self.tables.rows("SELECT COUNT(*) FROM message")
        return int(many)

    def until(self, share: float) -> None:
        """Waits until so much of it has arrived."""
        wait_until(lambda: self.arrived() >= share * TOTAL, 60)

    def check(self, latest: int) -> None:
        """All arrived, once each, none early, and none later than so many milliseconds."""
        self.until(1)
        ((many, ids, early, late),) = self.tables.rows(
            "SELECT COUNT(*), COUNT(DISTINCT id), MIN(streamed_at - deliver_at), MAX(streamed_at - deliver_at)"
            " FROM message"
        )
        assert (many, ids) == (TOTAL, TOTAL)
        assert early >= 0
        assert late <= latest
        with client_of(self.servers[-1]) as tarry:
            bodies: set[object] = set()
            while (claim := tarry.claim("orders", "billing", client="c", max=1000, wait=0)) is not None:
                bodies |= {message.body for message in claim.messages}
                tarry.ack(claim)
        assert len(bodies) == TOTAL

    def timers(self) -> list[int]:
        with client_of(self.servers[-1]) as tarry:
            return [one["timers"] for one in tarry.nodes()]


@pytest.mark.parametrize("many", [2, 3])
@pytest.mark.cases(1)
def test_what_a_killed_server_held_comes_two_seconds_late_at_most(mysql_dsn: str, tmp_path: Path, many: int) -> None:
    with running(tmp_path, mysql_dsn, many) as servers:
        load = Load(servers, open_tables(mysql_dsn))
        load.schedule()
        load.until(0.2)
        servers[0].kill()
        load.check(4_000)  # 1.6 s on a machine at rest
        with client_of(servers[-1]) as tarry:
            wait_until(lambda: is_shared_out(tarry, many - 1))


def test_a_server_that_stops_hands_its_timers_over(mysql_dsn: str, tmp_path: Path) -> None:
    with running(tmp_path, mysql_dsn, 2) as servers:
        load = Load(servers, open_tables(mysql_dsn))
        load.schedule()
        load.until(0.2)
        assert servers[0].stop() == 0
        assert load.arrived() < TOTAL
        assert "shards_taken" in servers[1].tail(100_000)
        load.check(1_000)  # 0.1 s on a machine at rest
        assert servers[1].stop() == 0


def test_who_comes_takes_a_part_and_holds_less_than_all(mysql_dsn: str, tmp_path: Path) -> None:
    """Of timers that were there before, each of three holds a third."""
    with running(tmp_path, mysql_dsn, 1) as servers, client_of(servers[0]) as tarry:
        for _ in range(3):
            tarry.publish_many("orders", [{"body": 1, "delay": "1h"}] * 800)
        load = Load(servers, open_tables(mysql_dsn))
        wait_until(lambda: load.timers() == [2_400])
        for _ in range(2):
            add_server(servers, tmp_path, mysql_dsn)
        wait_until(lambda: sum(load.timers()) == 2_400 and max(load.timers()) <= 1_000)
        servers[1].kill()
        wait_until(lambda: len(load.timers()) == 2 and sum(load.timers()) == 2_400 and is_shared_out(tarry, 2))
