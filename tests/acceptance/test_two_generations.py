"""A rolling upgrade from a program of before, and back, under load, on MySQL and MariaDB.

That program is taken from the repository's history. Nothing may be lost, early, out of order by key, or handed out
twice without a reason, whichever of both are at work.
"""

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from support.rolling import Load
from support.server import client_of
from tarry.service.demo.server_process import ServerProcess
from tarry.store.migrations import load_migrations

ENVIRONMENT = {"TARRY_CLIENT_TIMEOUT": "5s", "TARRY_LADDER": ",".join(["250ms", "500ms"] * 8)}


class Generations:
    """Servers of both on one database."""

    def __init__(self, folder: Path, dsn: str, old_program: Path, stack: ExitStack) -> None:
        self._folder, self._dsn, self._old_program, self._stack = folder, dsn, old_program, stack

    def start(self, name: str) -> ServerProcess:
        """`old` or `new`, with a number behind it."""
        folder = self._folder / name
        folder.mkdir()
        path = {"PYTHONPATH": os.fspath(self._old_program)} if name.startswith("old") else {}
        server = ServerProcess(folder, self._dsn, environment=ENVIRONMENT | path)
        self._stack.callback(server.kill)
        server.start()
        kind = httpx.get(f"{server.url}/problems/older-server").status_code
        assert kind == (404 if name.startswith("old") else 200), "it is of the other generation"
        return server


@pytest.fixture
def generations(mysql_dsn: str, tmp_path: Path, old_program: Path) -> Iterator[Generations]:
    with ExitStack() as stack:
        yield Generations(tmp_path, mysql_dsn, old_program, stack)


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


def test_an_embedded_store_goes_there_and_back(tmp_path: Path, old_program: Path) -> None:
    for number, name in enumerate(("old1", "new2", "old3", "new4")):
        path = {"PYTHONPATH": os.fspath(old_program)} if name.startswith("old") else {}
        server = ServerProcess(tmp_path, f"sqlite:///{tmp_path}/tarry.db", environment=ENVIRONMENT | path)
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
    assert beside == [(m.version,) for m in load_migrations("sqlite") if m.version > 6]
