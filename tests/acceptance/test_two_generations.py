"""A rolling upgrade to the next program, and back, under load, on MySQL and MariaDB.

The next one knows a migration more, which adds to tables that both write. Nothing may be lost, early, out of order by
key, or handed out twice without a reason, whichever of both are at work.
"""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.generations import adding
from support.rolling import Load
from support.server import client_of
from tarry.service.demo.server_process import ServerProcess
from tarry.store.migrations import newest

ENVIRONMENT = {"TARRY_CLIENT_TIMEOUT": "5s", "TARRY_LADDER": ",".join(["250ms", "500ms"] * 8)}


class Generations:
    """Servers of both on one database."""

    def __init__(self, folder: Path, dsn: str, next_program: Path, stack: ExitStack) -> None:
        self._folder, self._dsn, self._next_program, self._stack = folder, dsn, next_program, stack

    def start(self, name: str) -> ServerProcess:
        """`old` or `new`, with a number behind it."""
        folder = self._folder / name
        folder.mkdir()
        server = ServerProcess(folder, self._dsn, environment=environment(name, self._next_program))
        self._stack.callback(server.kill)
        server.start()
        with client_of(server) as tarry:
            levels = {node["node"]: node["level"] for node in tarry.nodes()}
        assert levels[name] == newest() + name.startswith("new"), "it is of the other generation"
        return server


def environment(name: str, next_program: Path) -> dict[str, str]:
    path = {"PYTHONPATH": os.fspath(next_program)} if name.startswith("new") else {}
    return ENVIRONMENT | {"TARRY_NODE": name} | path


@pytest.fixture
def generations(mysql_dsn: str, tmp_path: Path, next_program: Path) -> Iterator[Generations]:
    with ExitStack() as stack:
        yield Generations(tmp_path, mysql_dsn, next_program, stack)


@pytest.mark.timeout(180)
def test_there_and_back(generations: Generations) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    load = Load(seed)
    first = generations.start("old1")
    load.add("old1", first.url)
    with load.running():
        load.wait_for_work("old1")
        second = generations.start("new2")
        load.add("new2", second.url)
        load.wait_for_work("old1", "new2")
        assert first.stop() == 0
        load.drop("old1")
        load.wait_for_work("new2")
        third = generations.start("old3")
        load.add("old3", third.url)
        load.wait_for_work("new2", "old3")
        assert second.stop() == 0
        load.drop("new2")
        load.wait_for_work("old3")
    with client_of(third) as tarry:
        again = load.check(lambda id_: tarry.message(id_)["life"])
        state = tarry.group("orders", "crew")
        assert (state["acked"], state["backlog"], state["dead"]) == (load.published["orders"], 0, 0)
    assert third.stop() == 0
    print(f"published {dict(load.published)}, again {dict(again)}, without an answer {dict(load.doubts)}")


def test_an_embedded_store_goes_there_and_back(tmp_path: Path, next_program: Path) -> None:
    for number, name in enumerate(("old1", "new2", "old3", "new4")):
        server = ServerProcess(tmp_path, f"sqlite:///{tmp_path}/tarry.db", environment=environment(name, next_program))
        try:
            server.start()
            with client_of(server) as tarry:
                tarry.publish("orders", number)
                claim = tarry.claim("orders", "crew", client="c", wait="5s", start="earliest")
                assert claim is not None
                assert [message.body for message in claim.messages] == [number]
                tarry.ack(claim)
            assert server.stop() == 0
        finally:
            server.kill()
    with sqlite3.connect(tmp_path / "tarry.db") as connection:
        beside = connection.execute("SELECT version FROM migration_beside ORDER BY version").fetchall()
    connection.close()
    assert (adding("sqlite").version,) in beside
