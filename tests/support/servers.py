"""Starts private database servers for tests, on a free port, with their data in a temporary directory.

A server is named by a DSN, `mysql://user:password@127.0.0.1:port/tarry`. `TARRY_TEST_MARIADB` and `TARRY_TEST_MYSQL`
name running servers to use instead; their user must be allowed to create databases and to KILL.
"""

import ctypes
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit
from uuid import uuid4

import attrs
import pymysql
import pymysql.cursors
import pytest
import trio

from support.certificates import write_certificates
from support.waiting import wait_until
from tarry.bench.databases import log_in
from tarry.bench.proxy import connect_to, listen_before

START_SECONDS = 60.0
_ROOM = 4 << 30
"""Bytes of room that servers need in memory."""

# One statement a line, as MariaDB requires of an init file.
_INIT = """\
CREATE DATABASE IF NOT EXISTS tarry;
CREATE USER IF NOT EXISTS tarry@'%' IDENTIFIED BY 'tarry';
GRANT ALL ON *.* TO tarry@'%' WITH GRANT OPTION;
"""

_DURABLE = ("--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1")


class NoServerError(Exception):
    """There is no such server on this machine."""


def skip_or_fail(missing: str) -> NoReturn:
    """Skips the test since something is missing on this machine; fails it where CI is set."""
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        pytest.skip(missing)
    pytest.fail(missing)


@attrs.define
class PrivateServer:
    """A private server. `ca` is the certificate to trust for TLS."""

    dsn: str
    ca: str
    directory: Path
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Kills the server with SIGKILL, as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def mariadb(*options: str) -> Iterator[PrivateServer]:
    """A private MariaDB. Raises `NoServerError`."""
    program, install = _program("mariadbd", "mariadb"), shutil.which("mariadb-install-db")
    if program is None or install is None:
        raise NoServerError("no mariadbd with mariadb-install-db on PATH; TARRY_TEST_MARIADB may name a running server")
    make = [install, "--auth-root-authentication-method=normal", "--skip-test-db"]
    with _private("mariadb", program, make, *options) as server:
        yield server


@contextmanager
def mysql(*options: str) -> Iterator[PrivateServer]:
    """A private MySQL. Raises `NoServerError`."""
    program = _program("mysqld", "mysql")
    if program is None:
        raise NoServerError("no mysqld of MySQL on PATH; TARRY_TEST_MYSQL may name a running server")
    make = [program, "--initialize-insecure"]
    with _private("mysql", program, make, "--mysqlx=0", "--secure-file-priv=NULL", *options) as server:
        yield server


def has_mysql() -> bool:
    """Whether tests can use a MySQL: one is named, or `mysql` can start one."""
    return bool(os.environ.get("TARRY_TEST_MYSQL")) or _program("mysqld", "mysql") is not None


class PrivateRedis:
    """A private Redis without persistence; it can be stopped and started again, empty, on the same port."""

    def __init__(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise NoServerError("no redis-server on PATH")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts it unless it runs."""
        if self._process is not None:
            return
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._answers, 10)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def database(dsn: str) -> Iterator[str]:
    """The DSN of a new, empty database on the server of `dsn`; dropped at the end if the server is still there."""
    name = f"tarry_{uuid4().hex[:12]}"
    run_sql(dsn, f"CREATE DATABASE {name}")
    try:
        yield urlsplit(dsn)._replace(path=f"/{name}").geturl()
    finally:
        with suppress(pymysql.err.OperationalError):
            run_sql(dsn, f"DROP DATABASE {name}")


async def until(happened: Callable[[], bool | Awaitable[object]]) -> None:
    """Polls until it happened; ten seconds at most."""
    with trio.fail_after(10):
        while True:
            result = happened()
            if result if isinstance(result, bool) else await result:
                return
            await trio.sleep(0.001)


@contextmanager
def session_with(dsn: str) -> Iterator[pymysql.cursors.Cursor]:
    """A session in autocommit mode, through a client other than the one under test."""
    with log_in(dsn) as connection, connection.cursor() as cursor:
        yield cursor


def run_sql(dsn: str, *statements: str) -> list[tuple[object, ...]]:
    """Runs the statements in a new session; returns the last one's rows."""
    with session_with(dsn) as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


class Line:
    """A proxy to a server that the test can stop or cut; `dsn` leads through it.

    line = await nursery.start(Line(dsn).run)
    """

    def __init__(self, dsn: str) -> None:
        self._to = urlsplit(dsn)
        self._open = trio.Event()
        self._open.set()
        self.dsn = dsn
        self.sent = b""
        """All bytes that clients have sent."""
        self.cut_before: bytes | None = None
        """The connection is cut when a client sends these bytes; the server does not get them."""
        self.cut_after: bytes | None = None
        """The server gets these bytes, and its answer is lost with the connection."""
        self.lose: bytes | None = None
        """The server does not get these bytes, and the connection stays open, so nobody notices."""
        self.lost = trio.Event()
        self.blank: tuple[bytes, ...] = ()
        """Bytes that are blanked in what clients send."""

    def stop(self) -> None:
        """Stops forwarding what clients send; soon it is not even read."""
        self._open = trio.Event()

    async def run(self, task_status: trio.TaskStatus["Line"]) -> None:
        listener, self.dsn = await listen_before(self._to)
        task_status.started(self)
        await trio.serve_listeners(self._join, [listener])

    async def _join(self, client: trio.SocketStream) -> None:
        server = await connect_to(self._to)
        answer_lost = trio.Event()

        async def up() -> None:
            async for data in client:
                self.sent += data
                if self.cut_before is not None and self.cut_before in data:
                    break
                if self.lose is not None and self.lose in data:
                    self.lost.set()
                    continue
                if self.cut_after is not None and self.cut_after in data:
                    answer_lost.set()
                await self._open.wait()
                for said in self.blank:
                    data = data.replace(said, b" " * len(said))
                await server.send_all(data)
            nursery.cancel_scope.cancel()

        async def down() -> None:
            async for data in server:
                if answer_lost.is_set():
                    break
                await client.send_all(data)
            nursery.cancel_scope.cancel()

        try:
            async with client, server, trio.open_nursery() as nursery:
                nursery.start_soon(up)
                nursery.start_soon(down)
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


def free_port(*beside: int) -> int:
    """A free port below 32768: the system gives higher ones to clients. Those at the offsets `beside` are free, too."""
    while True:
        port = random.randrange(20000, 32700)
        with suppress(OSError), ExitStack() as probes:
            for one in (0, *beside):
                probes.enter_context(socket.socket()).bind(("127.0.0.1", port + one))
            return port


def _program(name: str, flavour: str) -> str | None:
    """The program's path, if it is of that flavour: Debian's `mysqld` is a link to MariaDB's."""
    path = shutil.which(name)
    if path is None:
        return None
    version = subprocess.run([path, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
    return path if ("mariadb" in version.lower()) == (flavour == "mariadb") else None


_MEMORY = Path("/dev/shm")


def memory() -> Path | None:
    """A folder in memory, if there is room. After a kill -9 it holds the same files as a disk would.

    The folder may report free room although other programs use the memory, so that is checked, too.
    """
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ROOM:
        return None
    kibibytes = re.search(r"^MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return _MEMORY if kibibytes and int(kibibytes[1]) << 10 > 2 * _ROOM else None


@contextmanager
def _private(kind: str, program: str, make: Sequence[str], *options: str) -> Iterator[PrivateServer]:
    directory = Path(tempfile.mkdtemp(prefix=f"tarry-{kind}-", dir=memory()))
    data, log, ready = directory / "data", directory / "log", directory / "pid"
    (directory / "init.sql").write_text(_INIT)
    ca = write_certificates(directory)
    # MariaDB deletes files in its tmpdir at its start, even those of others.
    own = [f"--datadir={data}", f"--tmpdir={directory}", *(["--user=root"] if os.getuid() == 0 else [])]
    with log.open("wb") as output:
        making = subprocess.run([make[0], "--no-defaults", *make[1:], *own], stdout=output, stderr=output, check=False)
        if making.returncode:
            raise RuntimeError(f"{make[0]} failed:\n{log.read_text('utf-8', 'replace')[-2000:]}")
        port = free_port()
        process = subprocess.Popen(
            [
                program,
                "--no-defaults",
                *own,
                *_DURABLE,
                *options,
                f"--socket={directory / 'socket'}",
                f"--pid-file={ready}",
                f"--port={port}",
                "--bind-address=127.0.0.1",
                "--skip-name-resolve",
                "--max-connections=300",
                f"--ssl-ca={ca}",
                f"--ssl-cert={directory / 'server.pem'}",
                f"--ssl-key={directory / 'server-key.pem'}",
                f"--init-file={directory / 'init.sql'}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_end_with_the_tests,
        )
    server = PrivateServer(f"mysql://tarry:tarry@127.0.0.1:{port}/tarry", str(ca), directory, process)
    try:
        _wait_until_up(server, log)
        yield server
    finally:
        server.stop()


def _end_with_the_tests() -> None:
    """Makes the server end when this process is gone, for whatever reason (PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _wait_until_up(server: PrivateServer, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            run_sql(server.dsn, "SELECT 1")
            return
        except pymysql.err.OperationalError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"the server did not come up:\n{log.read_text('utf-8', 'replace')[-2000:]}"
                ) from None
            time.sleep(0.05)
