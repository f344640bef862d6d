"""Where a bench writes: a database of its own on the server that `--dsn` names, gone at the end; and how durable it is.

    mysql://root@127.0.0.1:3306/any     a new database on this server, which stays as it was
    sqlite:///any/tarry.db              a new file in a new folder beside this one
    mariadb, mysql, sqlite              a private server, or a file in the system's temporary folder

Administration goes through PyMySQL, so that nothing under measurement has a part in it.
"""

import argparse
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pymysql
import pymysql.cursors

from ..service.demo.server_process import free_port
from ..store.mysql.dsn import Dsn
from ..store.sqlite.connection import connect as connect_sqlite
from .programs import Program, found, listens, running
from .report import Figures, say, show

SQLITE = "sqlite:///"
CONNECTIONS = 400
"""Of a private server: the published design wants one for each caller."""

LOOK = 3
"""Statements that a look at the counter asks by itself, for it logs in anew."""

_COMMITS = 200


def options(bench: str, doc: str | None, default: str = "mariadb", *, runs: int = 0) -> argparse.ArgumentParser:
    """A bench by its name and the docstring of its module, with the options that every bench of a store has.

    `runs`: how many there are unless said; 0 for a bench that has none.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m tarry.bench.{bench}",
        description=(doc or "").splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--dsn",
        default=default,
        help="mysql://user:password@host:port/any or sqlite:///file: a database of the bench's own is made there and"
        " dropped; or mariadb, mysql or sqlite for a private one",
    )
    if runs:
        parser.add_argument("--runs", type=count, default=runs, help="of which the figures are medians")
    return parser


def count(text: str) -> int:
    """The value of an option: a whole number, 1 at least."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("it is 1 at least")
    return number


def seconds(text: str) -> float:
    """The value of an option: more than none."""
    if (number := float(text)) <= 0:
        raise argparse.ArgumentTypeError("it is more than 0")
    return number


@contextmanager
def server(dsn: str) -> Generator[str, None, None]:
    """The DSN of a server, started here if `dsn` says which kind. SIGTERM ends all that is begun from here on as Ctrl-C
    does, and also a bench that a shell has put into the background, where there is no Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    if dsn == "sqlite":
        with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
            yield f"{SQLITE}{folder}/tarry.db"
    elif dsn in ("mariadb", "mysql"):
        with _private(dsn) as private:
            yield private
    elif dsn.startswith("mysql://") and Dsn.parse(dsn).others:
        raise SystemExit("a bench measures one server: name one host in --dsn")
    else:
        yield dsn


@contextmanager
def scratch(dsn: str) -> Generator[str, None, None]:
    """The DSN of an empty database on the server of `dsn`, dropped at the end."""
    name = f"tarry_bench_{uuid4().hex[:12]}"
    if dsn.startswith(SQLITE):
        folder = Path(dsn.removeprefix(SQLITE)).absolute().parent / name
        folder.mkdir(parents=True)
        try:
            yield f"{SQLITE}{folder / 'tarry.db'}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    else:
        with log_in(dsn, database=None) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(dsn)._replace(path=f"/{name}").geturl()
        finally:
            with (
                suppress(pymysql.err.OperationalError),
                log_in(dsn, database=None) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(f"DROP DATABASE {name}")


def alternate(
    dsn: str, bench: str, runs: int, contestants: Mapping[str, Callable[[str], Figures]], **marks: object
) -> list[dict[str, Figures]]:
    """What each gave in each run, which is shown: all in turn, run after run, each on an empty database. Every second
    run is in reverse, so that nobody gains by his place.

    `marks` tell in the lines what the contestants are given, if the bench goes over several such things.
    """
    found: list[dict[str, Figures]] = []
    given = "".join(f"{name} {value}, " for name, value in marks.items())
    for run in range(1, runs + 1):
        found.append({})
        for subject in list(contestants) if run % 2 else reversed(list(contestants)):
            say(f"{given}run {run} of {runs}: {subject}")
            with scratch(dsn) as empty:
                found[-1][subject] = figures = contestants[subject](empty)
            show({"bench": bench, "subject": subject, **marks, "run": run, **figures})
    return found


@contextmanager
def log_in(
    dsn: str, *, database: str | None = ""
) -> Generator["pymysql.Connection[pymysql.cursors.Cursor]", None, None]:
    """PyMySQL on the database of `dsn`, in autocommit mode."""
    parts = urlsplit(dsn)
    connection = pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path[1:] if database == "" else database,
        autocommit=True,
    )
    try:
        yield connection
    finally:
        connection.close()


def ask(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, through a client that is not the one under test."""
    if dsn.startswith(SQLITE):
        with closing(sqlite3.connect(dsn.removeprefix(SQLITE), isolation_level=None)) as reader:
            return reader.execute(sql).fetchall()
    with log_in(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@contextmanager
def bulk(dsn: str) -> Generator[Callable[[str], object], None, None]:
    """Executes statements that may take hours, and that nobody measures."""
    if dsn.startswith(SQLITE):
        with closing(sqlite3.connect(dsn.removeprefix(SQLITE), isolation_level=None)) as writer:
            writer.execute("PRAGMA synchronous=OFF")
            yield writer.execute
        return
    with log_in(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION wait_timeout = 7200")
        yield cursor.execute


def expect_rows(dsn: str, table: str, rows: int) -> None:
    """So many are in the table, no fewer and no more; else `AssertionError`."""
    ((found,),) = ask(dsn, f"SELECT COUNT(*) FROM {table}")
    if found != rows:
        raise AssertionError(f"{rows} rows were written, {found} are in {table}")


def streamed(dsn: str, topic: str) -> tuple[int, int]:
    """How many messages of this topic are in the stream, and when the last came there, Unix milliseconds."""
    ((count, last),) = ask(
        dsn,
        "SELECT COUNT(*), MAX(m.streamed_at) FROM message m JOIN queue q ON q.id = m.queue_id"
        f" JOIN topic t ON t.id = q.topic_id WHERE t.name = x'{topic.encode().hex()}'",
    )
    return count, last or 0


def asked(dsn: str) -> int:
    """How many statements the server has counted since its start; 0 on SQLite, which does not count."""
    if dsn.startswith(SQLITE):
        return 0
    ((_, count),) = ask(dsn, "SHOW GLOBAL STATUS LIKE 'Questions'")
    return int(count)


def durability(dsn: str) -> dict[str, Any]:
    """What a commit on this server means: who keeps it, its settings, and what a commit of one row takes there."""
    if dsn.startswith(SQLITE):
        return _durability_of_sqlite()
    with scratch(dsn) as empty:
        return _durability_of_mysql(empty)


def _durability_of_mysql(dsn: str) -> dict[str, Any]:
    names = ("innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin", "innodb_buffer_pool_size")
    with log_in(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        ((version,),) = cursor.fetchall()
        cursor.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", (names,))
        settings: dict[str, Any] = dict(cursor.fetchall())
        cursor.execute("CREATE TABLE one_row (id INT NOT NULL PRIMARY KEY)")
        cursor.execute("SET SESSION wait_timeout = 600")
        commit_ms = _commit_ms(lambda number: cursor.execute("INSERT INTO one_row VALUES (%s)", (number,)))
    kind = "MariaDB" if "mariadb" in version.lower() else "MySQL"
    return {"store": f"{kind} {version}", **settings, "fsync_us": os.environ.get("FSYNC_US"), "commit_ms": commit_ms}


def _durability_of_sqlite() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder:
        connection = connect_sqlite(Path(folder) / "one.db")
        journal_mode, synchronous = connection.execute(
            "SELECT * FROM pragma_journal_mode, pragma_synchronous"
        ).fetchone()
        settings = {"journal_mode": journal_mode.decode(), "synchronous": synchronous}
        connection.execute("CREATE TABLE one_row (id INTEGER PRIMARY KEY)")
        commit_ms = _commit_ms(lambda number: connection.execute("INSERT INTO one_row VALUES (?)", (number,)))
        connection.close()
    return {"store": f"SQLite {sqlite3.sqlite_version}", **settings, "commit_ms": commit_ms}


def _commit_ms(insert: Callable[[int], object]) -> float:
    times: list[float] = []
    for number in range(_COMMITS):
        began = time.perf_counter()
        insert(number)
        times.append(time.perf_counter() - began)
    return round(median(times) * 1000, 3)


def answers(dsn: str) -> bool:
    """Whether MySQL or MariaDB is up there, with what it makes at its start."""
    try:
        return ask(dsn, "SELECT 1") == [(1,)]
    except pymysql.err.MySQLError:
        return False


@contextmanager
def redis() -> Generator[int, None, None]:
    """The port of a private Redis that keeps nothing on disk: as quick as it can be."""
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="tarry-bench-") as folder,
        running(Program(Path(folder) / "log", partial(listens, port)), redis_command(port)),
    ):
        yield port


def redis_command(port: int) -> list[str]:
    """What starts a Redis that keeps nothing; `SystemExit` where there is none."""
    program = found("redis-server")
    if program is None:
        raise SystemExit("no redis-server on PATH (Debian: apt-get install redis-server)")
    return [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]


@contextmanager
def _private(kind: str) -> Generator[str, None, None]:
    port = free_port()
    dsn = f"mysql://tarry:tarry@127.0.0.1:{port}/tarry"
    with tempfile.TemporaryDirectory(prefix="tarry-bench-", ignore_cleanup_errors=True) as folder:
        command = server_command(kind, Path(folder), port)
        with running(Program(Path(folder) / "log", partial(answers, dsn)), command):
            yield dsn


def server_command(kind: str, folder: Path, port: int) -> list[str]:
    """Makes the server's own tables in an empty folder; what starts it on them, with the user and database `tarry`."""
    program = program_of("mariadbd" if kind == "mariadb" else "mysqld", kind)
    # A MariaDB that starts takes away what lies in its tmpdir, whoever uses it.
    own = [f"--datadir={folder / 'data'}", f"--tmpdir={folder}", *(["--user=root"] if os.getuid() == 0 else [])]
    (folder / "init.sql").write_text(
        "SET SQL_LOG_BIN = 0;\n"  # each member of a replication group makes its own
        "CREATE USER IF NOT EXISTS tarry@'%' IDENTIFIED BY 'tarry';\n"
        "GRANT ALL ON *.* TO tarry@'%' WITH GRANT OPTION;\n"
        "CREATE DATABASE IF NOT EXISTS tarry;\n"
    )
    make = (
        ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        if kind == "mariadb"
        else [program, "--no-defaults", "--initialize-insecure"]
    )
    if subprocess.run([*make, *own], capture_output=True, check=False).returncode:
        raise SystemExit(f"{make[0]} failed")
    return [
        program,
        "--no-defaults",
        *own,
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        f"--socket={folder / 'socket'}",
        f"--pid-file={folder / 'pid'}",
        "--innodb-flush-log-at-trx-commit=1",
        "--sync-binlog=1",
        "--innodb-buffer-pool-size=1G",
        f"--max-connections={CONNECTIONS}",
        f"--init-file={folder / 'init.sql'}",
        *(
            ["--mysqlx=0", "--secure-file-priv=NULL", "--innodb-redo-log-capacity=1G"]
            if kind == "mysql"
            else ["--innodb-log-file-size=1G"]
        ),
    ]


def program_of(name: str, kind: str) -> str:
    """The path of the server `name`, if it is one of this kind; else `SystemExit`."""
    path = found(name)
    if path is not None:
        told = subprocess.run([path, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
        if ("mariadb" in told.lower()) == (kind == "mariadb"):  # Debian's mysqld is a link to MariaDB's
            return path
    raise SystemExit(f"no {name} of {kind} on PATH: name a running server with --dsn, or take --dsn sqlite")
