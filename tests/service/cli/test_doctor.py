"""The doctor, on the embedded store, and on MySQL where it says more."""

import re
import socket
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio
from attrs import evolve

from support.certificates import write_certificates
from support.command_line import CommandLine
from support.scripted_server import Answer, scripted_server
from support.servers import NoServerError, PrivateRedis, free_port, run_sql, skip_or_fail
from tarry.service.cli.doctor import Finding, _connections, _hosts
from tarry.service.settings import Settings
from tarry.store.errors import ReadOnly, Refused, StoreError, Unavailable
from tarry.store.migrations import Migration, load_migrations, newest
from tarry.store.mysql import hosts
from tarry.store.mysql.group import ServerGroup
from tarry.store.mysql.hosts import Looked


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TARRY_LISTEN", f"127.0.0.1:{free_port()}")
    return tmp_path


def findings(tarry: CommandLine, code: int) -> dict[str, tuple[str, str]]:
    records = tarry("doctor", "--json", code=code).records
    return {record["check"]: (record["state"], record["detail"]) for record in records}


def test_an_empty_folder_is_well_and_stays_empty(folder: Path, tarry: CommandLine) -> None:
    found = findings(tarry, 0)
    assert {state for state, _ in found.values()} == {"ok"}
    assert "will be made" in found["store"][1]
    assert list(folder.iterdir()) == []


def test_a_store_that_is_up_to_date(tarry: CommandLine) -> None:
    tarry("migrate")
    found = findings(tarry, 0)
    assert set(found) == {"python", "sqlite", "store", "schema", "durability", "rows", "clock", "files", "port"}
    assert found["schema"][1].startswith("version ")


def test_a_store_that_everybody_may_read(folder: Path, tarry: CommandLine) -> None:
    tarry("migrate")
    assert findings(tarry, 0)["files"][0] == "ok"
    (folder / "tarry.db").chmod(0o644)
    state, detail = findings(tarry, 0)["files"]
    assert state == "note"
    assert "chmod 600 tarry.db" in detail


def test_a_store_with_two_names(folder: Path, tarry: CommandLine) -> None:
    tarry("migrate")
    (folder / "other.db").hardlink_to(folder / "tarry.db")
    state, detail = findings(tarry, 1)["store"]
    assert state == "wrong"
    assert "2 names" in detail


STANDING = """
INSERT INTO topic (id, name, kind, ordered, sequencer, created_at) VALUES (1, X'61', 0, 0, 0, 1);
INSERT INTO queue (id, topic_id, group_id, number, next_offset, straight, holes) VALUES (1, 1, 0, 0, 0, 0, 0);
INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at)
VALUES (1, 200000, 7, 0, X'31', 1, 1, 1);
"""


@pytest.mark.parametrize(
    ("sql", "check", "told"),
    [
        pytest.param(
            STANDING,
            "sealing",
            "queue 0 of a stands still: no message at its offsets 0 to 199999, and one at 200000",
            id="a queue that stands still",
        ),
        pytest.param("UPDATE migration SET version = 9999", "schema", "newer", id="a schema newer than the program"),
        pytest.param(
            "INSERT INTO migration SELECT 1, name, checksum, applied_at FROM migration LIMIT 1",
            "schema",
            "before the first release of Tarry, and cannot be taken over: give Tarry a new database",
            id="a schema of before the first release",
        ),
    ],
)
def test_what_is_wrong_in_a_store(folder: Path, tarry: CommandLine, sql: str, check: str, told: str) -> None:
    tarry("migrate")
    with closing(sqlite3.connect(folder / "tarry.db")) as store:
        store.executescript(sql)
    state, detail = findings(tarry, 1)[check]
    assert (state, told in detail) == ("wrong", True), detail


@pytest.mark.parametrize(
    ("more", "told"), [(0, f"servers that know {newest():04} may stay at work"), (1, "stop all servers first")]
)
def test_a_schema_of_before(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine, more: int, told: str) -> None:
    """What is missing may only add, or not."""
    tarry("migrate")
    known = [*load_migrations("sqlite"), Migration(newest() + 1, "later", f"-- beside: {newest() + more}\n")]
    monkeypatch.setattr("tarry.store.opening.load_migrations", lambda _: known)
    state, detail = findings(tarry, 0)["schema"]
    assert state == "note"
    assert detail.endswith(told)


def test_a_file_that_is_no_store(folder: Path, tarry: CommandLine) -> None:
    (folder / "tarry.db").write_text("Dear diary, " * 1000)
    assert "wrong" in {state for state, _ in findings(tarry, 1).values()}


def test_a_port_that_somebody_else_has(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        monkeypatch.setenv("TARRY_LISTEN", f"127.0.0.1:{other.getsockname()[1]}")
        assert findings(tarry, 1)["port"][0] == "wrong"


def test_a_port_that_a_tarry_has(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    with scripted_server() as script:
        script.say(Answer(200, {"ready": True}))
        monkeypatch.setenv("TARRY_LISTEN", script.url.removeprefix("http://"))
        assert findings(tarry, 0)["port"] == ("ok", f"a Tarry serves on {script.url.removeprefix('http://')}")


def test_as_a_table(tarry: CommandLine) -> None:
    assert tarry("doctor").lines[0] == "check\tstate\tdetail"


NO_DATABASE = "the database: one name after the host, mysql://user:password@host:port/database"


@pytest.mark.parametrize(
    ("dsn", "told"),
    [
        ("sqlite:///none/tarry.db", "none is no directory"),
        ("mysql://root@127.0.0.1", f"mysql://root@127.0.0.1: the DSN: {NO_DATABASE}"),
        ("mysql://root@127.0.0.1:9/tarry", "mysql://root@127.0.0.1:9/tarry"),
    ],
)
def test_a_dsn_that_leads_to_no_store(dsn: str, told: str, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    monkeypatch.setenv("TARRY_DSN", dsn)
    state, detail = findings(tarry, 1)["store"]
    assert (state, detail.count(told)) == ("wrong", 1), "it is named once"


def test_commits_that_take_100_ms(mysql_dsn: str, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    """By a setting that MySQL has, and MariaDB has not."""
    monkeypatch.setenv("TARRY_DSN", mysql_dsn)
    found = run_sql(mysql_dsn, "SHOW GLOBAL VARIABLES LIKE 'innodb_log_writer_threads'")
    if not found:
        assert "commits" not in findings(tarry, 0)
        return
    ((_, before),) = found
    try:
        run_sql(mysql_dsn, "SET GLOBAL innodb_log_writer_threads = OFF")
        state, detail = findings(tarry, 0)["commits"]
        assert (state, "SET PERSIST innodb_log_writer_threads = ON" in detail) == ("note", True)
        run_sql(mysql_dsn, "SET GLOBAL innodb_log_writer_threads = ON")
        assert "commits" not in findings(tarry, 0)
    finally:
        run_sql(mysql_dsn, f"SET GLOBAL innodb_log_writer_threads = {before}")


def test_a_redis(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    assert "redis" not in findings(tarry, 0)
    try:
        redis = PrivateRedis()
    except NoServerError as error:
        skip_or_fail(str(error))
    monkeypatch.setenv("TARRY_REDIS", redis.url)
    try:
        assert findings(tarry, 0)["redis"] == ("ok", f"{redis.url} answers")
    finally:
        redis.stop()
    state, detail = findings(tarry, 0)["redis"]
    assert (state, "works without" in detail) == ("note", True)


def test_a_redis_without_its_library(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setenv("TARRY_REDIS", "redis://:geheim@127.0.0.1:1/0")
    state, detail = findings(tarry, 1)["redis"]
    assert (state, "tarry[redis]" in detail, "geheim" in detail) == ("wrong", True, False)


def test_keys_where_others_reach_the_server(monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    monkeypatch.setenv("TARRY_LISTEN", f"0.0.0.0:{free_port()}")
    assert findings(tarry, 0)["keys"][0] == "note"
    tarry("migrate")
    state, detail = findings(tarry, 1)["keys"]
    assert state == "wrong"
    assert "tarry keys create" in detail
    tarry("keys", "create", "k", "--scope", "admin")
    assert findings(tarry, 0)["keys"] == ("ok", "1 that hold")
    tarry("keys", "revoke", "k")
    assert findings(tarry, 0)["keys"] == ("note", "0 that hold")


def test_a_socket_and_a_certificate(folder: Path, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine) -> None:
    monkeypatch.setenv("TARRY_LISTEN", "unix:t.sock")
    assert findings(tarry, 0)["port"] == ("ok", "unix:t.sock is free")
    (folder / "t.sock").write_text("")
    assert findings(tarry, 1)["port"][0] == "wrong"
    monkeypatch.setenv("TARRY_LISTEN", f"127.0.0.1:{free_port()}")
    monkeypatch.setenv("TARRY_TLS_CERT", "server.pem")
    monkeypatch.setenv("TARRY_TLS_KEY", "server-key.pem")
    assert findings(tarry, 1)["certificate"][0] == "wrong"
    write_certificates(folder)
    assert findings(tarry, 0)["certificate"][0] == "ok"


@pytest.mark.parametrize(
    ("limit", "processes", "alive", "state", "says"),
    [
        (151, 1, ["here"], "ok", "1 here and 0 elsewhere, of 25 each, may want 25"),
        (151, 6, ["here-1", "here-6"], "ok", "6 here and 0 elsewhere, of 25 each, may want 150"),
        (151, 6, ["there"], "note", "lets in 151 (max_connections, or this user's own limit); 6 here and 1 elsewhere"),
        (151, 6, ["there"], "note", "may want 175: raise it to 185 or more, or have fewer processes"),
        (150, 5, ["there"], "ok", "may want 150"),
    ],
)
def test_connections_are_counted(limit: int, processes: int, alive: list[str], state: str, says: str) -> None:
    settings = Settings(node="here", processes=processes, dsn="mysql://u@127.0.0.1/d")
    found = _connections(25, limit, settings, alive)
    assert (found.check, found.state) == ("connections", state)
    assert says in found.detail


Look = Callable[[Iterable[Looked]], Awaitable[list[Finding]]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """What the doctor says of hosts at which this is seen."""

    async def look(seen: Iterable[Looked]) -> list[Finding]:
        looked = list(seen)

        async def look_at_each(_: object) -> list[Looked]:
            await trio.lowlevel.checkpoint()
            return looked

        monkeypatch.setattr(hosts, "look_at_each", look_at_each)
        return list(await _hosts(f"mysql://u@{','.join(one.place for one in looked)}/d"))

    return look


READ_ONLY, AWAY, NOBODY = ReadOnly("it is read-only"), Unavailable("away"), Refused("no such user (1045)")


@pytest.mark.parametrize(
    ("found", "state", "says"),
    [
        ([("one", None), ("two", READ_ONLY)], "ok", "a: takes writes; b: it is read-only"),
        ([("one", None), ("one", None)], "ok", "b: takes writes"),
        ([("one", None), ("two", None)], "wrong", "set read_only on all but one"),
        ([("one", READ_ONLY), ("two", READ_ONLY)], "wrong", "b: it is read-only"),
        ([("one", None), ("", AWAY)], "note", "b: away"),
        ([("one", None), ("", NOBODY)], "wrong", "no such user"),
        ([("one two", None), ("three", READ_ONLY)], "wrong", "a leads to 2 servers in turn"),
        ([("one two", None)], "wrong", "a leads to 2 servers in turn"),
        ([("one", None)], None, ""),
        ([("", AWAY)], None, ""),
    ],
)
async def test_the_hosts(found: list[tuple[str, StoreError | None]], state: str | None, says: str, look: Look) -> None:
    told = await look(Looked(at, frozenset(names.split()), why) for at, (names, why) in zip("ab", found, strict=False))
    assert [(one.check, one.state) for one in told] == ([] if state is None else [("hosts", state)])
    assert all(says in one.detail for one in told)


async def test_the_hosts_of_one_cluster(look: Look) -> None:
    one, other = (ServerGroup(name, True, 3, "several", ()) for name in ("f595", "0000"))
    told, group = await look(Looked(at, frozenset({at}), group=one) for at in "ab")
    assert (told.state, "They are one cluster (f595)" in told.detail) == ("ok", True)
    assert group.state == "ok"
    told, group = await look(Looked(at, frozenset({at}), group=its) for at, its in (("a", one), ("b", other)))
    assert (told.state, told.detail) == ("wrong", "a: takes writes; b: takes writes")
    assert (group.state, "a: f595; b: 0000. Name those of one" in group.detail) == ("wrong", True)


GROUP = ServerGroup("one", False, 3, "group one", ("group_replication_consistency is EVENTUAL",))


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        ([GROUP, GROUP, GROUP], [("ok", "group one"), ("note", "group_replication_consistency is EVENTUAL")]),
        ([evolve(GROUP, advice=())], [("ok", "group one"), ("note", "the DSN names one member of its group")]),
        ([evolve(GROUP, advice=(), all_named=False)], [("ok", "group one")]),
        ([GROUP, evolve(GROUP, name="two")], [("wrong", "not all of one group or Galera: a: one; b: two. Name")]),
        ([GROUP, None], [("wrong", "not all of one group or Galera: a: one; b: none. Name")]),
        ([None, None], []),
    ],
)
async def test_the_hosts_of_replication_groups(
    groups: list[ServerGroup | None], told: list[tuple[str, str]], look: Look
) -> None:
    seen = [
        Looked(at, frozenset({at}), None if at == "a" else READ_ONLY, group=group)
        for at, group in zip("abc", groups, strict=False)
    ]
    found = [one for one in await look(seen) if one.check == "group"]
    assert [one.state for one in found] == [state for state, _ in told]
    assert all(says in one.detail for one, (_, says) in zip(found, told, strict=True))


@pytest.fixture
def orders(mysql_dsn: str) -> Iterator[str]:
    """A table of a user's, and the name of its database."""
    shop = f"{urlsplit(mysql_dsn).path[1:]}_shop"
    run_sql(mysql_dsn, f"CREATE DATABASE `{shop}`")
    run_sql(mysql_dsn, f"CREATE TABLE `{shop}`.orders (number INT NOT NULL, status VARCHAR(20), KEY (number))")
    yield shop
    run_sql(mysql_dsn, f"DROP DATABASE `{shop}`")


def test_each_guard_is_asked(
    orders: str, mysql_dsn: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tarry: CommandLine
) -> None:
    monkeypatch.setenv("TARRY_DSN", mysql_dsn)
    declared = {"unpaid": ("orders", "status = 'UNPAID'"), "open": ("orders", "state = 'OPEN'"), "gone": ("bills", "1")}
    (folder / "tarry.toml").write_text(
        "".join(
            f'[guards.{name}]\ntable = "{orders}.{table}"\nkey_column = "number"\ncondition = "{condition}"\n'
            f'dsn = "{mysql_dsn}"\ntimeout = "5s"\n'
            for name, (table, condition) in declared.items()
        ),
        "utf-8",
    )

    def said(name: str = "unpaid", code: int = 1) -> tuple[str, str]:
        return findings(tarry, code)[f"guard {name}"]

    state, detail = said()
    assert (state, detail.endswith("there is no row, and a message without one is not sent")) == ("note", True)
    run_sql(mysql_dsn, f"INSERT INTO `{orders}`.orders VALUES (4711, 'PAID')")
    state, detail = said()
    assert state == "ok"
    shape = rf"answers in \d+ ms, of 5s that it may take; {orders}\.orders\.number holds whole numbers; .* is false"
    assert re.fullmatch(shape, detail), detail
    run_sql(mysql_dsn, f"UPDATE `{orders}`.orders SET status = 'UNPAID'")
    assert said()[1].endswith("is true")
    for index in ("KEY (status, number)", "KEY (number, status)"):
        run_sql(mysql_dsn, f"ALTER TABLE `{orders}`.orders DROP KEY number, ADD {index.replace('KEY', 'KEY number')}")
        state, detail = said()
        first = index.startswith("KEY (number")
        assert (state, "no index begins with number" in detail) == ("ok" if first else "note", not first), detail
    run_sql(mysql_dsn, f"CREATE VIEW `{orders}`.bills AS SELECT number FROM `{orders}`.orders")
    state, detail = said("gone")
    assert (state, "no index" in detail) == ("ok", False), "a view has none of its own"
    run_sql(mysql_dsn, f"DROP VIEW `{orders}`.bills")
    run_sql(mysql_dsn, f"INSERT INTO `{orders}`.orders VALUES (4711, 'PAID')")
    state, detail = said()
    assert (state, "two rows for one key" in detail) == ("note", True)
    for name, why in (("open", "state"), ("gone", "there is no column")):
        state, detail = said(name)
        assert (state, why in detail, "its messages are held" in detail) == ("wrong", True, True), detail
    assert "4711" not in str(findings(tarry, 1)), "what a table holds is nobody's to see"
