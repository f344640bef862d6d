"""A primary that dies under load, and a replica that takes over: with semi-synchronous replication nothing that was
answered is lost, even where the replica had heard nothing for a while; without it, just that is. Two real servers each
of MariaDB and MySQL, two of Tarry."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pymysql.cursors
import pytest
from attrs import define, frozen

from support.publishing import Publishing, there
from support.replicas import pair_of_servers, place_of
from support.server import client_of, start_servers
from support.servers import NoServerError, PrivateServer, mysql, run_sql, skip_or_fail
from support.waiting import wait_until

_APPLIED = 30
"""Seconds for a replica to apply what it has."""


@frozen
class Dialect:
    """What it takes to have a pair, in a server's own words."""

    leader: Sequence[str]
    """Has it wait for a replica before it answers a commit."""
    follower: Sequence[str]
    """Has it say what it has received."""
    waits: str
    """The status that counts who waits."""
    heard_by: str
    """The status that counts who says so."""
    deaf: str
    received: str
    column: str
    applied: str
    promote: Sequence[str]


MARIADB = Dialect(
    leader=(
        "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
        "SET GLOBAL rpl_semi_sync_master_timeout = 3600000",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",
    ),
    follower=("SET GLOBAL rpl_semi_sync_slave_enabled = ON", "STOP SLAVE IO_THREAD", "START SLAVE IO_THREAD"),
    waits="Rpl_semi_sync_master_wait_sessions",
    heard_by="Rpl_semi_sync_master_clients",
    deaf="STOP SLAVE IO_THREAD",
    received="SHOW SLAVE STATUS",
    column="Gtid_IO_Pos",
    applied="SELECT MASTER_GTID_WAIT('{}', {})",
    promote=("STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF"),
)
MYSQL = Dialect(
    leader=(
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
        "SET GLOBAL rpl_semi_sync_source_timeout = 3600000",
        "SET GLOBAL rpl_semi_sync_source_enabled = ON",
    ),
    follower=(
        "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'",
        "SET GLOBAL rpl_semi_sync_replica_enabled = ON",
        "STOP REPLICA IO_THREAD",
        "START REPLICA IO_THREAD",
    ),
    waits="Rpl_semi_sync_source_wait_sessions",
    heard_by="Rpl_semi_sync_source_clients",
    deaf="STOP REPLICA IO_THREAD",
    received="SELECT received_transaction_set AS gtids FROM performance_schema.replication_connection_status",
    column="gtids",
    applied="SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', {})",
    promote=("STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL read_only = OFF"),
)


@define
class Pair:
    leader: PrivateServer
    follower: PrivateServer
    dialect: Dialect

    @property
    def dsn(self) -> str:
        return f"mysql://app:app@{place_of(self.leader)},{place_of(self.follower)}/tarry"

    def make_semi_synchronous(self) -> None:
        run_sql(self.leader.dsn, *self.dialect.leader)
        run_sql(self.follower.dsn, *self.dialect.follower)  # it asks whether the leader can
        wait_until(lambda: self.status(self.dialect.heard_by) == 1)

    def status(self, name: str) -> int:
        """Of the leader."""
        ((_, value),) = run_sql(self.leader.dsn, f"SHOW GLOBAL STATUS LIKE '{name}'")
        return int(str(value))

    def take_over(self) -> None:
        """The follower does, when it has applied all that it has received."""
        received = rows_of(self.follower, self.dialect.received)[0][self.dialect.column]
        applied = self.dialect.applied.format(str(received).replace("\n", ""), _APPLIED)
        assert run_sql(self.follower.dsn, applied) == [(0,)]
        run_sql(self.follower.dsn, *self.dialect.promote)


def rows_of(server: PrivateServer, query: str) -> Sequence[dict[str, object]]:
    parts = urlsplit(server.dsn)
    with (
        pymysql.connect(
            host=parts.hostname,
            port=parts.port or 0,
            user="tarry",
            password="tarry",
            cursorclass=pymysql.cursors.DictCursor,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(query)
        return cursor.fetchall()


@contextmanager
def mysql_pair() -> Iterator[Pair]:
    options = ("--log-bin=log", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--innodb-buffer-pool-size=64M")
    with mysql(*options, "--server-id=1") as leader, mysql(*options, "--server-id=2") as follower:
        for server in (leader, follower):
            run_sql(server.dsn, "RESET BINARY LOGS AND GTIDS")  # what each was made with is not to be replicated
        run_sql(
            leader.dsn,
            "CREATE USER repl@'%' IDENTIFIED BY 'repl'",
            "GRANT REPLICATION SLAVE ON *.* TO repl@'%'",
            "CREATE USER app@'%' IDENTIFIED BY 'app'",
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON `tarry%`.* TO app@'%'",
        )
        run_sql(
            follower.dsn,
            "SET GLOBAL read_only = ON",
            f"CHANGE REPLICATION SOURCE TO source_host = '127.0.0.1', source_port = {urlsplit(leader.dsn).port},"
            " source_user = 'repl', source_password = 'repl', source_auto_position = 1, get_source_public_key = 1",
            "START REPLICA",
        )
        yield Pair(leader, follower, MYSQL)


@contextmanager
def mariadb_pair() -> Iterator[Pair]:
    with pair_of_servers() as pair:
        yield Pair(pair.leader, pair.follower, MARIADB)


@pytest.mark.parametrize("semi_synchronous", [True, False])
@pytest.mark.parametrize("pair_of", [mariadb_pair, mysql_pair])
@pytest.mark.cases(1)
def test_what_was_answered_when_the_primary_dies(
    pair_of: Callable[[], AbstractContextManager[Pair]], semi_synchronous: bool, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        try:
            pair = stack.enter_context(pair_of())
        except NoServerError as error:
            if pair_of is mysql_pair and "TARRY_TEST_MYSQL" in os.environ:
                pytest.skip("the MySQL that TARRY_TEST_MYSQL names is one, not a pair of which one may be killed")
            skip_or_fail(str(error))
        if semi_synchronous:
            pair.make_semi_synchronous()
        servers = stack.enter_context(start_servers(tmp_path, pair.dsn, "first", "second"))
        publishing = Publishing([server.url for server in servers])
        with publishing.going_on():
            publishing.more(100)
            run_sql(pair.follower.dsn, pair.dialect.deaf)
            if semi_synchronous:
                wait_until(lambda: pair.status(pair.dialect.waits) > 0)
            else:
                publishing.more(50)
            pair.leader.kill()
            pair.take_over()
            publishing.more(100)
        with client_of(servers[1]) as tarry:
            lost = publishing.answered - there(tarry)
        assert bool(lost) is not semi_synchronous, lost
