"""MySQL and MariaDB as teams have them: tables of others, settings of their own, few rights, and tables that somebody
has locked. What Tarry cannot work with it names, before it touches anything; with the rest it works."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest

from support.odd_settings import odd_settings
from support.server import client_of, start_server
from support.servers import run_sql, session_with
from support.waiting import wait_until
from tarry.service.demo.server_process import python_path

TOO_LONG = 9.0
"""Seconds of a request after which it hangs: Tarry's own clients give up after ten."""


def tarry(dsn: str, *arguments: str, code: int) -> str:
    """What a command says."""
    done = subprocess.run(
        [sys.executable, "-m", "tarry.service.cli.app", *arguments],
        env=os.environ | python_path() | {"TARRY_DSN": dsn, "TARRY_LISTEN": "127.0.0.1:0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def wrong(dsn: str) -> dict[str, str]:
    """What the doctor finds wrong."""
    found = [json.loads(line) for line in tarry(dsn, "doctor", "--json", code=1).splitlines()]
    return {one["check"]: one["detail"] for one in found if one["state"] == "wrong"}


@pytest.fixture
def user(mysql_dsn: str) -> Iterator[Callable[..., str]]:
    """A function that makes a user with these rights, and tells its DSN."""
    parts = urlsplit(mysql_dsn)
    made: list[str] = []

    def make(rights: str) -> str:
        name = f"u{len(made)}_{parts.path[-8:]}"
        made.append(name)
        run_sql(
            mysql_dsn, f"CREATE USER {name}@'%' IDENTIFIED BY 'x'", f"GRANT {rights} ON {parts.path[1:]}.* TO {name}"
        )
        return parts._replace(netloc=f"{name}:x@{parts.netloc.rpartition('@')[2]}").geturl()

    yield make
    for name in made:
        run_sql(mysql_dsn, f"DROP USER {name}@'%'")


def test_odd_settings_change_nothing(mysql_dsn: str, tmp_path: Path) -> None:
    """Of a server with all of them odd: its tables are made, and each of many messages comes once."""
    with (
        odd_settings(mysql_dsn),
        start_server(tmp_path, mysql_dsn) as server,
        client_of(server) as client,
    ):
        ids = [
            receipt.id
            for _ in range(9)
            for receipt in client.publish_many(
                "orders", [{"body": n, "delay": "300ms", "key": f"k-{n}"} for n in range(100)]
            )
        ]
        client.set_timer("orders", "t", "timer", delay="1h")
        assert client.cancel_timer("orders", "t") == "cancelled"
        client.put_schedule("daily", cron="0 9 * * *", topic="mails", body=1)
        taken: Counter[str] = Counter()
        while len(taken) < len(ids):
            claim = client.claim("orders", "billing", max=500, wait="20s")
            assert claim is not None
            taken.update(message.id for message in claim.messages)
            client.ack(claim)
        assert taken == Counter(ids)
        assert len(client.pull("orders", 0, 0, max=1000).messages) == len(ids)
        assert client.group("orders", "billing")["backlog"] == 0


def test_a_table_of_another_application(mysql_dsn: str) -> None:
    """Named by all who would touch it, and left as it was."""
    run_sql(mysql_dsn, "CREATE TABLE topic (id INT PRIMARY KEY, title VARCHAR(20))", "CREATE TABLE shop_order (id INT)")
    before = run_sql(mysql_dsn, "SHOW CREATE TABLE topic")
    for command in ("serve", "migrate"):
        told = tarry(mysql_dsn, command, code=1)
        assert "`topic`, not made by Tarry" in told
        assert "nothing of it was touched" in told
    assert "`topic`" in wrong(mysql_dsn)["tables"]
    assert run_sql(mysql_dsn, "SHOW CREATE TABLE topic") == before
    assert len(run_sql(mysql_dsn, "SHOW TABLES")) == 2


def test_tables_that_were_changed(mysql_dsn: str, tmp_path: Path) -> None:
    """An index that is hidden, a column that became text, one that is too narrow: a start names each, and so does the
    doctor beside a server that is at work; what they say makes it good."""
    is_mariadb = "MariaDB" in str(run_sql(mysql_dsn, "SELECT VERSION()"))
    hidden, shown = ("IGNORED", "NOT IGNORED") if is_mariadb else ("INVISIBLE", "VISIBLE")
    changes = {
        f"ALTER TABLE message ALTER INDEX udx_message_id {hidden}": f"ALTER INDEX `udx_message_id` {shown}",
        "ALTER TABLE topic MODIFY name VARCHAR(255) CHARSET utf8mb4 NOT NULL": "MODIFY `name` VARBINARY(255) NOT NULL",
        "ALTER TABLE message MODIFY body BLOB NOT NULL": "MODIFY `body` MEDIUMBLOB NOT NULL",
    }
    with start_server(tmp_path, mysql_dsn) as server:
        assert publish(server.url, 0).status_code == 201
        for change, cure in changes.items():
            run_sql(mysql_dsn, change)
            assert cure in wrong(mysql_dsn)["tables"]
        assert publish(server.url, 0, topic="read_anew").status_code == 201
    told = tarry(mysql_dsn, "serve", code=1)
    assert "Traceback" not in told
    for cure in changes.values():
        assert cure in told
        table = "topic" if "`name`" in cure else "message"
        run_sql(mysql_dsn, f"ALTER TABLE `{table}` {cure}")
    with start_server(tmp_path, mysql_dsn) as server:
        assert publish(server.url, 1).status_code == 201


def test_the_rights_that_it_takes(mysql_dsn: str, user: Callable[[str], str], tmp_path: Path) -> None:
    """To migrate, and then to work. The doctor says what is missing; a migration that lacks one does not begin."""
    runs = user("SELECT, INSERT, UPDATE, DELETE")
    assert "wants CREATE, which" in wrong(runs)["rights"]
    told = tarry(runs, "migrate", code=1)
    assert "lacks: GRANT CREATE ON" in told
    assert "nothing was changed" in told
    assert run_sql(mysql_dsn, "SHOW TABLES") == []
    assert "applied" in tarry(user("SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER"), "migrate", code=0)
    with start_server(tmp_path, runs) as server, client_of(server) as client:
        client.publish("orders", 1)
        claim = client.claim("orders", "billing", wait="10s")
        assert claim is not None
        assert [message.body for message in claim.messages] == [1]
        client.ack(claim)
    run_sql(mysql_dsn, f"REVOKE INSERT ON {urlsplit(runs).path[1:]}.* FROM {urlsplit(runs).username}")
    assert "wants INSERT, which the user" in wrong(runs)["rights"]


def publish(url: str, body: object, topic: str = "orders") -> httpx.Response:
    return httpx.post(f"{url}/v1/topics/{topic}/messages", json={"body": body}, timeout=TOO_LONG)


LOCKS = {"FLUSH TABLES WITH READ LOCK": 200, "LOCK TABLES message WRITE": 503, "LOCK TABLES queue READ": 200}
"""And what is answered to who reads."""


@contextmanager
def locked(dsn: str, statement: str) -> Iterator[None]:
    with session_with(dsn) as cursor:
        cursor.execute(statement)
        yield
        cursor.execute("UNLOCK TABLES")


@pytest.mark.cases(1)
def test_calls_have_an_end_while_a_table_is_locked(mysql_dsn: str, tmp_path: Path) -> None:
    with start_server(tmp_path, mysql_dsn) as server:
        assert publish(server.url, 0).status_code == 201
        with httpx.Client(base_url=server.url, timeout=TOO_LONG) as http:
            for statement, reads in LOCKS.items():
                with locked(mysql_dsn, statement):
                    answers = [
                        publish(server.url, 1),
                        http.post("/v1/topics/orders/groups/g/claim", json={"client": "c"}),
                    ]
                    looked = http.get("/v1/topics/orders/queues/0/messages?offset=0")
                    assert http.get("/livez").status_code == 200
                refused = [answer for answer in answers if answer.status_code == 503]
                assert refused, [answer.text for answer in answers]
                for answer in refused:
                    assert answer.headers["Retry-After"]
                    assert answer.json()["type"] == "/problems/busy", answer.text
                    assert answer.json()["executed"] is False
                assert looked.status_code == reads, looked.text
                wait_until(lambda: publish(server.url, 2).status_code == 201)
        # An ALTER that waits for a reader, and behind it who comes later.
        with session_with(mysql_dsn) as reader:
            reader.execute("START TRANSACTION")
            reader.execute("SELECT * FROM message")
            change = "ALTER TABLE message ADD COLUMN another INT NULL"
            alter = threading.Thread(target=run_sql, args=(mysql_dsn, change))
            alter.start()
            waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%' AND DB ="
            wait_until(lambda: run_sql(mysql_dsn, f"{waits} DATABASE() AND INFO LIKE 'ALTER%'") == [(1,)])
            answer = publish(server.url, 1)
            assert (answer.status_code, answer.json()["type"]) == (503, "/problems/busy")
            reader.execute("COMMIT")
        alter.join(30)
        assert not alter.is_alive()
        wait_until(lambda: publish(server.url, 2).status_code == 201)


@contextmanager
def planted(dsn: str, name: str, value: object) -> Iterator[None]:
    """A setting of the server's, for sessions that begin meanwhile."""
    with session_with(dsn) as cursor:
        cursor.execute(f"SELECT @@global.{name}")
        ((before,),) = cursor.fetchall()
        cursor.execute(f"SET GLOBAL {name} = %s", (value,))
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", (before,))


def test_a_packet_that_is_too_small(mysql_dsn: str, tmp_path: Path) -> None:
    """It is named, and small messages go."""
    with planted(mysql_dsn, "max_allowed_packet", 65536), start_server(tmp_path, mysql_dsn) as server:
        wait_until(lambda: "raise it to 1048576 or more" in server.tail(100_000))
        assert "max_allowed_packet" in wrong(mysql_dsn)["server"]
        assert publish(server.url, "x" * 20_000).status_code == 201
        answer = publish(server.url, "x" * 250_000)
        assert answer.status_code == 503
        assert "max_allowed_packet" in answer.json()["detail"]
        assert answer.json()["executed"] is False
        many = [{"body": "x" * 900} for _ in range(1000)]
        batch = httpx.post(f"{server.url}/v1/topics/orders/messages", json={"messages": many}, timeout=60)
        assert batch.status_code == 201, batch.text


def test_a_binary_log_of_statements(mysql_dsn: str, tmp_path: Path) -> None:
    if run_sql(mysql_dsn, "SELECT @@log_bin") != [(1,)]:
        pytest.skip("the server keeps no binary log")
    with planted(mysql_dsn, "binlog_format", "STATEMENT"):
        assert "binlog_format is STATEMENT" in wrong(mysql_dsn)["server"]
        assert "binlog_format is STATEMENT" in tarry(mysql_dsn, "serve", code=1)
    assert run_sql(mysql_dsn, "SHOW TABLES") == []


def test_a_binary_log_with_a_small_cache(mysql_dsn: str, tmp_path: Path) -> None:
    if run_sql(mysql_dsn, "SELECT @@log_bin") != [(1,)]:
        pytest.skip("the server keeps no binary log")
    with planted(mysql_dsn, "max_binlog_cache_size", 4096):
        assert "max_binlog_cache_size" in wrong(mysql_dsn)["server"]
        with start_server(tmp_path, mysql_dsn) as server:
            message = {"body": "x" * 40_000}
            answer = httpx.post(f"{server.url}/v1/topics/orders/messages", json=message, timeout=60)
            assert answer.status_code == 503
            assert "max_binlog_cache_size" in answer.json()["detail"]
            assert httpx.get(f"{server.url}/readyz", timeout=30).status_code == 200, "small ones are taken"


def test_an_option_that_prevents_statements(mysql_dsn: str) -> None:
    """It lasts, so that nobody waits as for a server that is read-only."""
    if run_sql(mysql_dsn, "SHOW VARIABLES LIKE 'max_session_mem_used'") == []:
        pytest.skip("MySQL has none")
    with planted(mysql_dsn, "max_session_mem_used", 600_000):
        assert "--max-session-mem-used" in tarry(mysql_dsn, "serve", code=1)


def test_a_database_that_lets_nobody_in(mysql_dsn: str, user: Callable[[str], str]) -> None:
    dsn = user("ALL")
    name = urlsplit(dsn).username
    run_sql(mysql_dsn, f"ALTER USER {name}@'%' WITH MAX_USER_CONNECTIONS 1")
    with session_with(dsn):
        assert "lets nobody in to look, for all its sessions are in use" in wrong(dsn)["connections"]


@pytest.mark.parametrize("quota", ["max_queries_per_hour", "max_connections_per_hour"])
def test_a_quota_of_an_hour(mysql_dsn: str, user: Callable[[str], str], quota: str) -> None:
    dsn = user("ALL")
    run_sql(mysql_dsn, f"ALTER USER {urlsplit(dsn).username}@'%' WITH {quota} 1")
    assert f"{quota} of Tarry's user of the database is used up" in wrong(dsn)["connections"]


def test_a_name_that_must_be_quoted(mysql_dsn: str, tmp_path: Path) -> None:
    """The database's, for the server and for the outbox."""
    from tarry.client.outbox import Outbox

    name = "my-db ?%s `é`"
    quoted = name.replace("`", "``")
    run_sql(mysql_dsn, f"CREATE DATABASE `{quoted}`")
    try:
        dsn = urlsplit(mysql_dsn)._replace(path=f"/{quote(name, safe='')}").geturl()
        with start_server(tmp_path, dsn) as server, client_of(server) as client:
            client.put_topic("orders")
            with session_with(mysql_dsn) as cursor:
                cursor.execute("START TRANSACTION")
                Outbox(database=name).publish(cursor, "orders", 7)
                cursor.execute("COMMIT")
            claim = client.claim("orders", "g", wait="10s")
            assert claim is not None
            assert [message.body for message in claim.messages] == [7]
    finally:
        run_sql(mysql_dsn, f"DROP DATABASE `{quoted}`")
