"""Two private MariaDBs, the second an asynchronous replica of the first, and a manual switch-over between them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import attrs
import pymysql
import pymysql.connections
import pymysql.cursors

from support.servers import PrivateServer, mariadb, run_sql

_OPTIONS = ("--log-bin", "--gtid-strict-mode=ON", "--skip-log-slave-updates=0", "--innodb-buffer-pool-size=32M")
_SECONDS = 20


HOW_TO = (Path(__file__).parents[2] / "docs/how-to/failover.md").read_text("utf-8")


def steps() -> list[list[str]]:
    """The SQL statements of the how-to, block by block."""
    blocks = re.findall(r"^```sql\n-- At the \w+ one\.[^\n]*\n(.*?)^```$", HOW_TO, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    return [[one for one in block.strip().split(";") if one] for block in blocks]


@attrs.define
class Pair:
    """`leader` takes the writes; `follower` is read-only and applies them. Users: `tarry`, who may do anything, and
    `app`, who may not write on a read-only server."""

    leader: PrivateServer
    follower: PrivateServer

    @property
    def dsn(self) -> str:
        """The DSN of both servers for `app`, the leader first."""
        return f"mysql://app:app@{place_of(self.leader)},{place_of(self.follower)}/tarry"

    def switch(self) -> None:
        """Switches over as in the how-to, so that nothing that was committed is lost."""
        stop, ask, wait, *_ = steps()
        run_sql(self.leader.dsn, *stop)
        ((position,),) = run_sql(self.leader.dsn, *ask)
        assert run_sql(self.follower.dsn, *(one.replace("0-1-1234", str(position)) for one in wait)) == [(0,)]
        self.promote()

    def promote(self) -> None:
        """Makes the follower the leader, even if it lags behind."""
        run_sql(self.follower.dsn, *steps()[3])
        self.leader, self.follower = self.follower, self.leader

    def follow(self) -> None:
        """Makes the follower replicate from its current position, as in the how-to."""
        place = {"db2.example": "127.0.0.1", "3306": str(urlsplit(self.leader.dsn).port), "'password'": "'repl'"}
        for word in place:
            assert word in steps()[4][1]
        statements = [re.sub("|".join(place), lambda found: place[found[0]], one) for one in steps()[4]]
        run_sql(self.follower.dsn, "SET GLOBAL read_only = 1", *statements)

    def catch_up(self) -> None:
        """Waits until the follower has applied all that the leader has committed."""
        ((position,),) = run_sql(self.leader.dsn, "SELECT @@gtid_binlog_pos")
        assert run_sql(self.follower.dsn, f"SELECT MASTER_GTID_WAIT('{position}', {_SECONDS})") == [(0,)]

    def ask(self, dsn: str, query: str) -> list[tuple[object, ...]]:
        """Runs a query on the leader, in the database of `dsn`."""
        return run_sql(urlsplit(self.leader.dsn)._replace(path=urlsplit(dsn).path).geturl(), query)

    def limit_sessions(self, many: int) -> None:
        """Limits the sessions of `app`, at both servers; 0: no limit."""
        run_sql(self.leader.dsn, f"GRANT USAGE ON *.* TO app@'%' WITH MAX_USER_CONNECTIONS {many}")

    def log_in(self, dsn: str) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
        """Opens a session of `app` at the leader."""
        port = urlsplit(self.leader.dsn).port or 0
        return pymysql.connect(host="127.0.0.1", port=port, user="app", password="app", database=urlsplit(dsn).path[1:])

    @contextmanager
    def database(self) -> Iterator[str]:
        """Creates a database at both servers; yields `dsn` with its name."""
        name = f"tarry_{uuid4().hex[:12]}"
        run_sql(self.leader.dsn, f"CREATE DATABASE {name}")
        self.catch_up()
        yield urlsplit(self.dsn)._replace(path=f"/{name}").geturl()
        run_sql(self.leader.dsn, f"DROP DATABASE {name}")


@contextmanager
def pair_of_servers() -> Iterator[Pair]:
    """Starts both servers. Raises `NoServerError`."""
    with mariadb(*_OPTIONS, "--server-id=1") as first, mariadb(*_OPTIONS, "--server-id=2") as second:
        for server in (first, second):
            run_sql(server.dsn, "RESET MASTER")  # the setup of each server must not be replicated
        pair = Pair(first, second)
        run_sql(
            first.dsn,
            "CREATE USER app@'%' IDENTIFIED BY 'app'",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON `tarry%`.* TO app@'%'",
            "CREATE USER repl@'%' IDENTIFIED BY 'repl'",
            "GRANT REPLICATION SLAVE ON *.* TO repl@'%'",
        )
        pair.follow()
        pair.catch_up()
        yield pair


def place_of(server: PrivateServer) -> str:
    return f"127.0.0.1:{urlsplit(server.dsn).port}"
