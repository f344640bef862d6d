"""Two MariaDBs of the tests' own, the second a replica of the first that follows behind, and a switch-over by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import attrs

from support.servers import PrivateServer, mariadb, run_sql

_OPTIONS = ("--log-bin", "--gtid-strict-mode=ON", "--skip-log-slave-updates=0", "--innodb-buffer-pool-size=32M")
_SECONDS = 20


@attrs.define
class Pair:
    """`leader` takes the writes, `follower` is read-only and applies them. Users: `tarry`, who may do anything, and
    `app`, who may not write where it is read-only."""

    leader: PrivateServer
    follower: PrivateServer

    @property
    def dsn(self) -> str:
        """Of both, for `app`, the leader first."""
        return f"mysql://app:app@{place_of(self.leader)},{place_of(self.follower)}/tarry"

    def switch(self) -> None:
        """As `docs/how-to/failover.md` has it: nothing that was committed is lost."""
        run_sql(self.leader.dsn, "SET GLOBAL read_only = 1")
        self.catch_up()
        run_sql(self.follower.dsn, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")
        self.leader, self.follower = self.follower, self.leader

    def catch_up(self) -> None:
        """Waits until the follower has applied all that the leader has committed."""
        ((position,),) = run_sql(self.leader.dsn, "SELECT @@gtid_binlog_pos")
        assert run_sql(self.follower.dsn, f"SELECT MASTER_GTID_WAIT('{position}', {_SECONDS})") == [(0,)]

    def follow(self) -> None:
        """The follower begins where it stands."""
        ((position,),) = run_sql(self.follower.dsn, "SELECT @@gtid_current_pos")
        run_sql(
            self.follower.dsn,
            "SET GLOBAL read_only = 1",
            f"SET GLOBAL gtid_slave_pos = '{position}'",
            f"CHANGE MASTER TO master_host='127.0.0.1', master_port={urlsplit(self.leader.dsn).port},"
            " master_user='repl', master_password='repl', master_use_gtid=slave_pos, master_connect_retry=1",
            "START SLAVE",
        )

    def ask(self, dsn: str, query: str) -> list[tuple[object, ...]]:
        """The leader, in the database of `dsn`."""
        return run_sql(urlsplit(self.leader.dsn)._replace(path=urlsplit(dsn).path).geturl(), query)

    @contextmanager
    def database(self) -> Iterator[str]:
        """A new one at both; `dsn` with its name."""
        name = f"tarry_{uuid4().hex[:12]}"
        run_sql(self.leader.dsn, f"CREATE DATABASE {name}")
        self.catch_up()
        yield urlsplit(self.dsn)._replace(path=f"/{name}").geturl()
        run_sql(self.leader.dsn, f"DROP DATABASE {name}")


@contextmanager
def pair_of_servers() -> Iterator[Pair]:
    """Raises `NoServerError`."""
    with mariadb(*_OPTIONS, "--server-id=1") as first, mariadb(*_OPTIONS, "--server-id=2") as second:
        for server in (first, second):
            run_sql(server.dsn, "RESET MASTER")  # what each was made with is not to be replicated
        pair = Pair(first, second)
        pair.follow()
        run_sql(
            first.dsn,
            "CREATE USER app@'%' IDENTIFIED BY 'app'",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON `tarry%`.* TO app@'%'",
            "CREATE USER repl@'%' IDENTIFIED BY 'repl'",
            "GRANT REPLICATION SLAVE ON *.* TO repl@'%'",
        )
        pair.catch_up()
        yield pair


def place_of(server: PrivateServer) -> str:
    return f"127.0.0.1:{urlsplit(server.dsn).port}"
