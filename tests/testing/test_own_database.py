"""The database of a test's own on a MySQL or MariaDB: made, dropped whatever happens, and no other is ever touched."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from support.drivers import DRIVERS
from support.servers import free_port, run_sql
from tarry.client import Tarry, outbox
from tarry.client.outbox import moved
from tarry.testing import EmbeddedServer, NoDatabase
from tarry.testing.own_database import PREFIX, OwnDatabase


@pytest.fixture(params=["mysql", "mariadb"])
def host(request: pytest.FixtureRequest) -> str:
    """A DSN that names no database."""
    dsn: str = request.getfixturevalue(f"{request.param}_server")
    return dsn.rpartition("/")[0] + "/"


@pytest.fixture
def on_mysql(mysql_server: str) -> str:
    return mysql_server.rpartition("/")[0] + "/"


def databases(host: str) -> set[str]:
    return {str(name) for (name,) in run_sql(host, "SHOW DATABASES")}


def test_it_is_made_and_dropped(host: str) -> None:
    before = databases(host)
    with EmbeddedServer(dsn=host) as server:
        assert databases(host) - before >= {server.database}
        assert server.database.startswith(PREFIX)
        assert urlsplit(server.dsn).path == f"/{server.database}"
        assert server.login["database"] == server.database
        run_sql(server.dsn, "CREATE TABLE shop_order (word VARCHAR(20))", "INSERT INTO shop_order VALUES ('schön 🙂')")
        assert run_sql(server.dsn, "SELECT word FROM shop_order") == [("schön 🙂",)]
        assert moved.is_anywhere()
    assert server.database not in databases(host)
    assert not moved.is_anywhere()


def test_it_is_dropped_when_the_test_fails_with_a_transaction_open(host: str) -> None:
    left: list[Any] = []

    def fail() -> None:
        with EmbeddedServer(dsn=host) as server, Tarry(server.url) as tarry:
            left.append(server.database)
            tarry.put_topic("orders")
            user = DRIVERS["pymysql"](server.dsn)
            left.append(user)
            outbox.publish(user.cursor(), "orders", 1)
            raise KeyError("as planned")

    with pytest.raises(KeyError, match="as planned") as caught:
        fail()
    assert left[0] not in databases(host)
    assert not hasattr(caught.value, "__notes__")
    left[1].close()


def test_what_cannot_be_dropped_is_named_and_hides_no_error(
    on_mysql: str, fresh_database: Callable[[str], str]
) -> None:
    """A transaction of a session in another database holds a table of it."""
    with closing(DRIVERS["pymysql"](fresh_database(on_mysql))) as user:
        server = EmbeddedServer(dsn=on_mysql)

        def fail() -> None:
            with server:
                user.cursor().execute(f"SELECT * FROM {server.database}.topic")
                raise KeyError

        with pytest.raises(KeyError) as caught:
            fail()
        assert f"DROP DATABASE `{server.database}`" in caught.value.__notes__[0]
        user.rollback()
    run_sql(on_mysql, f"DROP DATABASE {server.database}")


def test_a_database_that_holds_something_is_refused_and_not_touched(
    host: str, fresh_database: Callable[[str], str]
) -> None:
    dsn = fresh_database(host)
    run_sql(dsn, "CREATE TABLE precious (a INT)", "INSERT INTO precious VALUES (7)")
    before = databases(host)
    name = urlsplit(dsn).path[1:]
    with pytest.raises(NoDatabase, match=f"dsn: the database {name} holds tables .precious.*leave its name out"):
        EmbeddedServer(dsn=dsn).__enter__()
    assert run_sql(dsn, "SHOW TABLES") == [("precious",)]
    assert run_sql(dsn, "SELECT a FROM precious") == [(7,)]
    assert databases(host) == before


def test_one_that_is_empty_is_left_as_it_is(on_mysql: str, fresh_database: Callable[[str], str]) -> None:
    dsn = fresh_database(on_mysql)
    name = urlsplit(dsn).path[1:]
    with EmbeddedServer(dsn=dsn) as server:
        assert server.database not in (name, "")
        assert urlsplit(server.dsn).path[1:] == server.database
        assert run_sql(dsn, "SHOW TABLES") == []
    assert name in databases(on_mysql)
    assert server.database not in databases(on_mysql)


def test_one_that_is_named_and_not_there_is_made_by_that_name(on_mysql: str) -> None:
    name = f"Shop-{uuid4().hex[:8]}"
    with EmbeddedServer(dsn=on_mysql + name) as server, Tarry(server.url) as tarry:
        assert server.database == name
        tarry.put_topic("orders")
        server.clock.advance("1h")
        with closing(DRIVERS["pymysql"](server.dsn)) as user:
            assert abs((outbox.publish(user.cursor(), "orders", 1).deliver_at - server.clock.now()).total_seconds()) < 2
    assert name not in databases(on_mysql)


@pytest.mark.parametrize("then", ["empty", "another's", "gone"])
def test_another_by_the_same_name_is_left_alone(on_mysql: str, then: str) -> None:
    """It was dropped meanwhile, and somebody has made one of that name."""
    with EmbeddedServer(dsn=on_mysql) as server:
        run_sql(on_mysql, f"DROP DATABASE {server.database}")
        if then != "gone":
            run_sql(on_mysql, f"CREATE DATABASE {server.database}")
        if then == "another's":
            mark = f"{server.database}.made_for_a_test"
            run_sql(on_mysql, f"CREATE TABLE {mark} (word CHAR(32))", f"INSERT INTO {mark} VALUES ('another word')")
    assert (server.database in databases(on_mysql)) == (then != "gone")
    run_sql(on_mysql, f"DROP DATABASE IF EXISTS {server.database}")


def test_what_two_make_at_once_is_of_the_first(on_mysql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and CREATE DATABASE another has made it."""
    name = f"shop_{uuid4().hex[:8]}"

    async def not_there(*_: object) -> bool:
        run_sql(on_mysql, f"CREATE DATABASE {name}")
        return False

    monkeypatch.setattr(OwnDatabase, "_is_there", not_there)
    with pytest.raises(NoDatabase, match=r"dsn: .*leave the name of the database out"):
        EmbeddedServer(dsn=on_mysql + name).__enter__()
    assert name in databases(on_mysql)
    run_sql(on_mysql, f"DROP DATABASE {name}")


def test_a_start_that_fails_leaves_nothing_behind(on_mysql: str) -> None:
    before = databases(on_mysql)
    with pytest.raises(Exception, match=r"listen|in use|Address"):
        # The port is taken; `listen` is refused of users, so that this is the one way to fail behind CREATE.
        _with_a_taken_port(on_mysql)
    assert databases(on_mysql) <= before
    assert not moved.is_anywhere()


def _with_a_taken_port(host: str) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = EmbeddedServer(dsn=host)
        server._settings["listen"] = f"127.0.0.1:{taken.getsockname()[1]}"
        server.__enter__()


def test_who_may_not_make_one_is_told_which_right_is_missing(host: str) -> None:
    run_sql(host, "CREATE USER IF NOT EXISTS tester@'%' IDENTIFIED BY 'x'")
    at = urlsplit(host)
    theirs = f"mysql://tester:x@{at.hostname}:{at.port}/"
    try:
        with pytest.raises(NoDatabase, match=r"dsn: 'tester' may not make .* GRANT ALL ON `tarry\\_test\\_%`\.\*"):
            EmbeddedServer(dsn=theirs).__enter__()
        run_sql(host, "GRANT ALL ON `tarry\\_test\\_%`.* TO tester@'%'")
        with EmbeddedServer(dsn=theirs) as server:
            assert run_sql(server.dsn, "SHOW TABLES LIKE 'topic'") == [("topic",)]
        assert server.database not in databases(host)
    finally:
        run_sql(host, "DROP USER tester@'%'")


def test_who_is_not_let_in(host: str) -> None:
    at = urlsplit(host)
    with pytest.raises(NoDatabase, match=r"dsn: .*say its user and password"):
        EmbeddedServer(dsn=f"mysql://{at.username}:wrong-one@{at.hostname}:{at.port}/").__enter__()


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(NoDatabase, match=r"dsn: .*name one that answers"):
        EmbeddedServer(dsn=f"mysql://root@127.0.0.1:{free_port()}/").__enter__()


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("sqlite:///tarry.db", "dsn: .*a file of its own"),
        ("postgres://root@localhost/", "dsn: .*begins with mysql://"),
        ("mysql://localhost/", "dsn: the user is missing"),
        ("mysql://root@one,two/", "dsn: .*name one host"),
        ("mysql://root@localhost/?ssl_mod=x", "dsn: .*did you mean ssl_mode"),
        ("", "dsn: "),
    ],
)
def test_a_dsn_that_is_none_is_refused_at_once(dsn: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        EmbeddedServer(dsn=dsn)


def test_a_dsn_is_text() -> None:
    with pytest.raises(TypeError, match="dsn: it is text"):
        EmbeddedServer(dsn=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("what", ["dsn", "database", "login"])
def test_a_server_on_sqlite_says_that_it_has_no_outbox(what: str) -> None:
    with pytest.raises(ValueError, match=f"{what}: .*no outbox: say EmbeddedServer.dsn='mysql://"):
        getattr(EmbeddedServer(), what)


def test_where_no_name_is_said() -> None:
    """In each form of a DSN; each time another."""
    for dsn in ("mysql://root:p%2Fw@db/", "mysql://root:p%2Fw@db", "mysql://root:p%2Fw@/?socket=/run/x.sock"):
        one, other = OwnDatabase(dsn), OwnDatabase(dsn)
        assert one.name != other.name
        assert one.name.startswith(PREFIX)
        assert one.login["password"] == "p/w"
        assert one.login.get("unix_socket", "") == ("/run/x.sock" if "socket" in dsn else "")
        assert len(one.name) <= 64


def test_what_a_killed_run_leaves_is_found_by_its_name(on_mysql: str) -> None:
    """By the SELECT of the how-to; what it says is run, but for those that are at work."""
    program = f"""
from tarry.testing import EmbeddedServer
with EmbeddedServer(dsn={on_mysql!r}) as server:
    print("at", server.database, flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        name = next(line for line in run.stdout if line.startswith("at ")).split()[1]
        run.send_signal(signal.SIGKILL)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "test-your-code.md").read_text("utf-8")
    (query,) = page.partition("```sql\n")[2].partition("```")[0].strip().split(";\n")
    found = [str(statement) for (statement,) in run_sql(on_mysql, query.rstrip(";"))]
    (drop,) = [statement for statement in found if name in statement]
    run_sql(on_mysql, drop)
    assert name not in databases(on_mysql)
