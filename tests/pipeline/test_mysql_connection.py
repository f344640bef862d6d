"""MySQL as the pipeline opens it, to read and to write: with TLS, over a socket, and what is said when it cannot be."""

from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support import servers
from tarry.client.coroutines import drive
from tarry.client.outbox.cursors import CursorTransaction
from tarry.pipeline.errors import PipelineError, StoreAway
from tarry.pipeline.sending import mysql_import
from tarry.pipeline.source.reads import fetcher
from tarry.pipeline.store_connection import StoreConnection

SESSION = "SELECT @@session.time_zone, @@autocommit, @@sql_mode LIKE '%STRICT_ALL%'"
CIPHER = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"


@contextmanager
def opened(dsn: str) -> Generator[CursorTransaction]:
    """A session that writes."""
    with closing(mysql_import.connect(dsn)) as connection:
        yield CursorTransaction(connection.cursor(), None)


def test_sessions_to_read_and_to_write(mysql_dsn: str) -> None:
    with StoreConnection(mysql_dsn) as connection, opened(mysql_dsn) as session:
        assert connection.rows(SESSION) == [("+00:00", 1, 0)]
        assert drive(session.ask(SESSION)) == [("+00:00", 0, 1)]
        for rows in (connection.rows, lambda sql: drive(session.ask(sql))):
            assert {level for _, level in rows("SHOW VARIABLES LIKE 't%isolation'")} == {"READ-COMMITTED"}
        assert abs(connection.now() - drive(session.now())) < 60_000


def test_tls_with_an_authority_of_our_own(mariadb_server: str) -> None:
    ((ca,),) = servers.run_sql(mariadb_server, "SELECT @@ssl_ca")
    if not ca or not Path(str(ca)).is_file():
        pytest.skip("a server that is not the tests' own")
    dsn = f"{mariadb_server}?ssl_ca={ca}"
    with StoreConnection(dsn) as connection, opened(dsn) as session:
        for ((_, cipher),) in (connection.rows(CIPHER), drive(session.ask(CIPHER))):
            assert cipher
    assert fetcher(dsn)("SELECT 1 AS one").to_pylist() == [{"one": 1}]
    for mode in ("PREFERRED", "REQUIRED"):
        with StoreConnection(f"{mariadb_server}?ssl_mode={mode}") as connection:
            assert connection.rows(CIPHER)[0][1]
    wrong = dsn.replace("127.0.0.1", "localhost")
    with pytest.raises(StoreAway, match="CERTIFICATE_VERIFY_FAILED"):
        StoreConnection(wrong)
    with pytest.raises(StoreAway, match="CERTIFICATE_VERIFY_FAILED"):
        mysql_import.connect(wrong)


def test_over_a_socket(mysql_dsn: str) -> None:
    ((path,),) = servers.run_sql(mysql_dsn, "SELECT @@socket")
    if not Path(str(path)).is_socket():
        pytest.skip("the server is on another machine")
    to = urlsplit(mysql_dsn)
    login = to.netloc.rpartition("@")[0]
    dsn = f"mysql://{login}@{to.path}?socket={path}"
    with StoreConnection(dsn) as connection, opened(dsn) as session:
        assert connection.rows("SELECT 1") == drive(session.ask("SELECT 1")) == [(1,)]
    assert fetcher(dsn)("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_one_who_may_not_is_told_so(mysql_dsn: str) -> None:
    to = urlsplit(mysql_dsn)
    dsn = to._replace(netloc=f"nobody:secret@{to.hostname}:{to.port}").geturl()
    for opens in (StoreConnection, mysql_import.connect):
        with pytest.raises(PipelineError, match="refuses this user: 1045") as raised:
            opens(dsn)
        assert not isinstance(raised.value, StoreAway)
        assert "secret" not in str(raised.value)


def test_a_database_that_is_not_there_is_no_outage(mysql_dsn: str) -> None:
    dsn = urlsplit(mysql_dsn)._replace(path="/tarry_no_such").geturl()
    for opens in (StoreConnection, mysql_import.connect):
        with pytest.raises(PipelineError, match=r"there is no such database; correct the name") as raised:
            opens(dsn)
        assert not isinstance(raised.value, StoreAway)
