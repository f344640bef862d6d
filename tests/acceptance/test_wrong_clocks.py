"""Two servers whose hosts' clocks are an hour ahead and an hour behind: the database's is the one that counts."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from support.server import client_of
from support.waiting import wait_until
from tarry.service.demo.server_process import ServerProcess, python_path

HOUR = 3600
_ENVIRONMENT = {"TARRY_LADDER": "100ms,100ms,100ms"}
_SITE = """\
import time
_time_ns = time.time_ns
time.time_ns = lambda: _time_ns() + {ahead} * 10**9
time.time = lambda: time.time_ns() / 1e9
"""


@pytest.fixture
def servers(
    mysql_server: str, fresh_database: Callable[[str], str], tmp_path: Path
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    dsn = fresh_database(mysql_server)
    with ExitStack() as stack:
        started: list[ServerProcess] = []
        for name, ahead in (("ahead", HOUR), ("behind", -HOUR)):
            folder = tmp_path / name
            folder.mkdir()
            (folder / "sitecustomize.py").write_text(_SITE.format(ahead=ahead))
            path = ":".join([str(folder), *python_path().values()])
            server = ServerProcess(folder, dsn, environment=_ENVIRONMENT | {"PYTHONPATH": path, "TARRY_NODE": name})
            stack.callback(server.kill)
            server.start()
            started.append(server)
        yield started[0], started[1]
        for server in started:
            assert server.stop() == 0


def test_clocks_that_are_wrong_hasten_and_delay_nothing(servers: tuple[ServerProcess, ServerProcess]) -> None:
    with client_of(servers[0]) as ahead, client_of(servers[1]) as behind:
        for one, other in ((ahead, behind), (behind, ahead)):
            sent = one.publish("orders", "later", delay="400ms")
            due = sent.deliver_at.timestamp()
            assert abs(due - 0.4 - time.time()) < 30, "told by the database's clock"
            claim = other.claim("orders", "billing", client="c", wait="20s", lease="1500ms", start="earliest")
            assert claim is not None
            assert time.time() >= due
            # Its lease is over by nobody's clock but the database's.
            claimed = time.monotonic()
            again = one.claim("orders", "billing", client="d", wait="20s")
            assert again is not None
            assert again.messages[0].attempt == 2
            assert time.monotonic() - claimed > 1
            one.ack(again)
        for one in (ahead, behind):
            wait_until(lambda one=one: [node["node"] for node in one.nodes() if node["alive"]] == ["ahead", "behind"])  # type: ignore[misc]
            for node in one.nodes():
                assert abs(datetime.fromisoformat(node["renewed_at"]).timestamp() - time.time()) < 30
        assert ahead.renew("worker").timestamp() - time.time() < 60
        wait_until(lambda: any(client["client"] == "worker" for client in behind.clients()))
    for server in servers:
        log = server.tail(1_000_000)
        assert not [what for what in ("node_dead", "taken_for_dead", "clock_jumped", "client_dead") if what in log]
