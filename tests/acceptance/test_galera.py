"""MariaDB Galera: three real nodes, all in the DSN, of which a server writes to one. That one dies under load; then the
majority goes and comes back. Nothing that was answered is lost, and what is wrong is named."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from support.commands import doctor
from support.publishing import Publishing, there
from support.server import client_of, start_server
from support.servers import skip_or_fail
from support.waiting import wait_until
from tarry.bench.campaign.galera import LIBRARY, replicated
from tarry.bench.campaign.group import Member, Replicated, send
from tarry.service.demo.server_process import ServerProcess

QUICK = "evs.suspect_timeout=PT3S;evs.inactive_timeout=PT6S"
"""A node is given up sooner than after five seconds."""


@pytest.fixture
def galera() -> Iterator[Replicated]:
    if not LIBRARY.exists():
        skip_or_fail(f"no {LIBRARY}, which Debian has in galera-4")
    with replicated(QUICK) as galera:
        yield galera


def readiness(server: ServerProcess) -> httpx.Response:
    return httpx.get(f"{server.url}/readyz?verbose", timeout=60)


def told(dsn: str, check: str, state: str, words: str) -> Callable[[], bool]:
    """Whether the doctor says so."""
    return lambda: any((one, how) == (check, state) and words in detail for one, how, detail in doctor(dsn))


def idle(members: list[Member]) -> Member:
    """The one that nobody is at work on; a look at it may be under way."""
    found: list[Member] = []

    def one_is() -> bool:
        found[:] = [one for one in members if not one.takes_writes]
        return len(found) == 1

    wait_until(one_is)
    return found[0]


@pytest.mark.long
def test_a_writer_that_dies_and_a_majority_that_goes_and_comes_back(galera: Replicated, tmp_path: Path) -> None:
    dsn, group = galera.dsn, galera.group
    with start_server(tmp_path, dsn) as server:
        publishing = Publishing([server.url])
        with publishing.going_on():
            publishing.more(50)
            wait_until(told(dsn, "group", "ok", "of 3 nodes"))
            wait_until(told(dsn, "hosts", "ok", "They are one cluster"))
            writer = group.primary
            writer.program.kill()
            publishing.more(50)
            wait_until(told(dsn, "group", "note", "of 2 nodes none may be lost"))
            other = idle(group.others(writer))
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
