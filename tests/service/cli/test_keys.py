"""`tarry keys`: on the store itself, with and without a server beside it."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from support.command_line import CommandLine
from support.generations import adding
from tarry.service.access.tokens import digest
from tarry.service.cli.app import run
from tarry.store.migrations import load_migrations
from tarry.store.sqlite.backend import SQLiteBackend


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> Path:
    """A store in the folder that the command is given in."""
    monkeypatch.chdir(tmp_path)
    tarry("migrate")
    return tmp_path / "tarry.db"


def rows(store: Path) -> list[tuple[bytes, ...]]:
    with closing(sqlite3.connect(store)) as connection:
        return connection.execute("SELECT name, digest, scopes FROM access_key").fetchall()


def test_the_key_is_all_of_stdout_and_nowhere_else(store: Path, tarry: CommandLine) -> None:
    printed = tarry("keys", "create", "billing", "--scope", "publish:a*", "--scope", "consume:a/b")
    token = printed.out.strip()
    assert re.fullmatch("tarry_[A-Za-z0-9_-]{43}", token)
    assert token not in printed.err
    assert rows(store) == [(b"billing", digest(token), b"publish:a* consume:a/b")]
    listed = tarry("keys", "list", "--json").out
    assert token not in listed
    assert digest(token).hex() not in listed
    assert json.loads(listed)["scopes"] == ["publish:a*", "consume:a/b"]
    for file in store.parent.glob("tarry.db*"):
        assert token.encode() not in file.read_bytes()


def test_revoke(tarry: CommandLine) -> None:
    tarry("keys", "create", "billing", "--scope", "admin")
    assert "there is no key 'biling' (did you mean \"billing\"?)\n" in tarry("keys", "revoke", "biling", code=3).err
    tarry("keys", "revoke", "billing")
    tarry("keys", "revoke", "billing")
    assert "there is no key 'Billing'" in tarry("keys", "revoke", "Billing", code=3).err
    assert tarry("keys", "list", "--json").json["revoked_at"]


def test_a_name_is_given_once(tarry: CommandLine) -> None:
    tarry("keys", "create", "billing", "--scope", "admin")
    assert "a name is given once" in tarry("keys", "create", "billing", "--scope", "admin", code=2).err


def test_without_a_store(tmp_path: Path, tarry: CommandLine) -> None:
    missing = tmp_path / "missing.db"
    assert "tarry migrate" in tarry("keys", "list", "--dsn", f"sqlite:///{missing}", code=1).err
    assert not missing.exists()


def test_of_an_older_schema(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    more = adding("sqlite")
    monkeypatch.setattr("tarry.store.opening.load_migrations", lambda _: [*load_migrations("sqlite"), more])
    assert f"lacks {more.version:04} (later)" in tarry("keys", "list", code=1).err


def test_beside_a_server_that_is_writing(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that holds the file for longer than SQLite itself waits."""
    monkeypatch.setattr("tarry.store.sqlite.connection._PRAGMAS", ("PRAGMA busy_timeout = 10",))
    other = sqlite3.connect(store, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    done: list[int] = []

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(release)
            done.append(await trio.to_thread.run_sync(run, ["keys", "create", "billing", "--scope", "admin"]))

    async def release() -> None:
        await trio.sleep(0.5)
        other.execute("COMMIT")

    trio.run(both)
    other.close()
    assert done == [0]
    assert len(rows(store)) == 1


def test_the_server_keeps_its_lock(store: Path) -> None:
    async def serve() -> None:
        backend = SQLiteBackend(store)
        assert await trio.to_thread.run_sync(run, ["keys", "create", "billing", "--scope", "admin"]) == 0
        await backend.aclose()

    trio.run(serve)
    assert len(rows(store)) == 1
