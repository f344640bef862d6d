"""The line to the database is cut around COMMIT, for every verb of a real server: its caller hears what is true.

One id for a message, `cancelled` for what is never delivered, no claim that nobody holds, no `replayed` on a first
answer, and no error at all: the database can be asked. `make long ARGS="-k doubt"` runs it with 200 cuts of each kind.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import trio

from support import servers
from support.doubted import LANES, Doubted, Lane, make_ready
from support.servers import run_sql
from support.stores import open_tables
from tarry.bench.proxy import MOMENTS, Proxy
from tarry.service.demo.server_process import ServerProcess

DELAYS = (0, 5_000, 50_000)
"""Microseconds by which each commit is put off while its transaction holds its locks: no, a quick and a slow disk."""

_SLOWNESS = {
    "mysql": "SET GLOBAL binlog_group_commit_sync_delay = {0}",
    "mariadb": "SET GLOBAL binlog_commit_wait_usec = {0}",
}


@pytest.fixture(scope="module")
def mariadb_with_log() -> Iterator[str]:
    """Commits can be put off where there is a binary log, which Debian's MariaDB does not have by itself."""
    try:
        with servers.mariadb("--log-bin", "--server-id=1", "--binlog-commit-wait-count=1000000") as server:
            yield server.dsn
    except servers.NoServerError as missing:
        servers.skip_or_fail(str(missing))


@pytest.fixture(params=["mariadb", "mysql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server_dsn(kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    dsn: str = request.getfixturevalue("mariadb_with_log" if kind == "mariadb" else "mysql_server")
    yield dsn
    run_sql(dsn, _SLOWNESS[kind].format(0))


@pytest.fixture
async def doubted(
    server_dsn: str, fresh_database: Callable[[str], str], tmp_path: Path, nursery: trio.Nursery
) -> AsyncIterator[Doubted]:
    dsn = fresh_database(server_dsn)
    proxy: Proxy = await nursery.start(Proxy(dsn).run)
    server = ServerProcess(tmp_path, proxy.dsn)
    tables = open_tables(dsn)
    try:
        await trio.to_thread.run_sync(server.start)
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
            doubted = Doubted(http, proxy, tables)
            await make_ready(doubted)
            yield doubted
        assert await trio.to_thread.run_sync(server.stop) == 0
    except BaseException:
        print(f"The log of the server:\n{server.tail(10_000)}")
        raise
    finally:
        server.kill()
        tables.close()


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(len(DELAYS), id="few"),
        pytest.param(200, id="many", marks=[pytest.mark.long, pytest.mark.timeout(5400)]),
    ],
)
@pytest.mark.cases(1)
async def test_an_answer_is_true_wherever_the_line_is_cut(
    doubted: Doubted, kind: str, server_dsn: str, times: int
) -> None:
    for nth, delay in enumerate(DELAYS):
        run_sql(server_dsn, _SLOWNESS[kind].format(delay))
        async with trio.open_nursery() as nursery:
            for lane in LANES.values():
                nursery.start_soon(_cut, doubted, lane, range(nth, times, len(DELAYS)))
    assert doubted.proxy.counts == {moment: times * len(LANES) for moment in MOMENTS}
    assert not doubted.proxy.cuts
    for topic, published in doubted.published.items():
        state = await doubted.call("GET", f"/v1/topics/{topic}")
        assert state["accepted"] == published, state


async def _cut(doubted: Doubted, lane: Lane, numbers: range) -> None:
    for number in numbers:
        for moment in MOMENTS:
            await lane(doubted, moment, number)
