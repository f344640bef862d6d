"""Three servers on one database whose clock is set: each follows in its own time, and nobody is taken for dead."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.server import client_of, start_servers
from support.servers import skip_or_fail
from support.waiting import wait_until
from tarry.bench import databases
from tarry.bench.campaign.database import private
from tarry.bench.campaign.shims import Shim
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess

NAMES = ("a", "b", "c")
STEPS = (3_600, -3_600, 20)
"""Seconds by which the clock is set, forward and back: more than a server follows at once."""
WRONG = ("node_dead", "node_was_taken_for_dead")


@pytest.mark.long
def test_nobody_is_taken_for_dead(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        skip_or_fail("no cc")
    try:
        databases.program_of("mariadbd", "mariadb")
    except SystemExit as missing:
        skip_or_fail(str(missing))
    with ExitStack() as stack:
        database = stack.enter_context(private("mariadb", Shim("clock", tmp_path)))
        assert database.lever is not None
        servers = stack.enter_context(start_servers(tmp_path, database.dsn, *NAMES))
        with client_of(servers[0]) as tarry:
            wait_until(lambda: len(tarry.nodes()) == len(NAMES))
            for number in range(1, len(STEPS) + 1):
                database.lever.set(10**9 * sum(STEPS[:number]))
                wait_until(lambda number=number: min(followed(servers)) == number)  # type: ignore[misc]
                wait_for_renewals(tarry)
        for server in servers:
            told = server.tail(1_000_000)
            assert [event for event in WRONG if event in told] == [], told


def followed(servers: Sequence[ServerProcess]) -> list[int]:
    """How often each has come to believe what the database's clock shows."""
    return [server.tail(1_000_000).count("clock_followed") for server in servers]


def wait_for_renewals(tarry: Tarry) -> None:
    """Until each has renewed twice, and so looked at the others, too."""
    seen: dict[str, set[object]] = {name: set() for name in NAMES}

    def renewed() -> bool:
        for one in tarry.nodes():
            seen[one["node"]].add(one["renewed_at"])
        return min(map(len, seen.values())) >= 3

    wait_until(renewed)
