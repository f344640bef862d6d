"""MariaDB Galera: three real nodes, all in the DSN, of which a server writes to one. That one dies under load; then the
majority goes and comes back. Nothing that was answered is lost, and what is wrong is named."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.commands import doctor
from support.publishing import Publishing, there
from support.server import client_of, start_server
from support.servers import skip_or_fail
from support.waiting import wait_until
from tarry.bench.campaign.galera import LIBRARY, replicated
from tarry.bench.campaign.group import Replicated, send
from tarry.service.demo.server_process import ServerProcess

QUICK = "evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.keepalive_period=PT0.5S"
"""A node is given up sooner than after five seconds."""


@pytest.fixture
def galera() -> Iterator[Replicated]:
    if not LIBRARY.exists():
        skip_or_fail(f"no {LIBRARY}, which Debian has in galera-4")
    with replicated(QUICK) as galera:
        yield galera


def readiness(server: ServerProcess) -> httpx.Response:
    return httpx.get(f"{server.url}/readyz?verbose", timeout=60)


def found(dsn: str, check: str) -> list[tuple[str, str]]:
    """By the doctor."""
    return [(state, detail) for one, state, detail in doctor(dsn) if one == check]


def test_a_writer_that_dies_and_a_majority_that_goes_and_comes_back(galera: Replicated, tmp_path: Path) -> None:
    dsn, group = galera.dsn, galera.group
    with start_server(tmp_path, dsn) as server:
        publishing = Publishing([server.url])
        with publishing.going_on():
            publishing.more(50)
            ((state, detail),) = found(dsn, "group")
            assert (state, "of 3 nodes" in detail) == ("ok", True)
            ((state, detail),) = found(dsn, "hosts")
            assert (state, "They are one cluster" in detail) == ("ok", True)
            writer = group.primary
            writer.program.kill()
            publishing.more(50)
            left = group.others(writer)
            assert any("of 2 nodes none may be lost" in detail for _, detail in found(dsn, "group"))
            (other,) = (one for one in left if not one.takes_writes)
            send([other], signal.SIGSTOP)
            try:
                wait_until(lambda: "its Galera has no majority here" in readiness(server).text, 60)
                assert readiness(server).status_code == 503
            finally:
                send([other], signal.SIGCONT)
            publishing.more(50)
        wait_until(lambda: readiness(server).status_code == 200)
        with client_of(server) as tarry:
            assert publishing.answered <= there(tarry)
