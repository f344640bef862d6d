"""Two and three servers on one database share its timers: one is killed, or stopped, under a steady load."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from support.server import client_of, start_servers
from support.stores import Tables, open_tables
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess

RATE = 200
SECONDS = 6
TOTAL = RATE * SECONDS
PAGE = 100
LEAD = timedelta(seconds=8)
"""Until the first is due: it is not due soon for whoever hears of it, also when machines are slow."""


@contextmanager
def running(home: Path, dsn: str, many: int) -> Iterator[list[ServerProcess]]:
    """So many servers, which have shared out the shards among them."""
    with start_servers(home, dsn, *(f"node-{number}" for number in range(many))) as servers:
        with client_of(servers[0]) as tarry:
            wait_until(lambda: is_shared_out(tarry, many))
        wait_until(lambda: "shards_left" in servers[0].tail(100_000))
        yield servers


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
