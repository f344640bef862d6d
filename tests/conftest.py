"""Database servers, each started once a session, when a test first asks for it.

A server that cannot be had skips the tests that want it on a person's machine, and fails them where CI is set.
"""

import math
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from support import authorities, fork_server, servers
from support.effort import take_quick
from support.in_turn import take_turns
from support.simulated import take_marks
from support.workers import ByFile, longest_first, named, whole_characters

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from trio.testing import MockClock

    from tarry.store.mysql.backend import MySQLBackend


fork_server.install()
authorities.forget()
# What no test captures is written as structlog writes by itself. It draws a traceback with the variables of each frame,
# which takes a second of the processor; a server's logs have it plain, too.
structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a shell sets it for what it runs in the background, which would go for all that tests start as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Before pytest leaves out what is long. Who names a test gets it."""
    if not any("::" in argument for argument in config.args):
        take_turns(items)
        take_quick(items)
    longest_first(items)
    take_marks(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """pytest-trio skips what skips itself within Trio once more, and without its reason."""
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, pytest.skip.Exception) and not error.msg:
        within = error.__context__
        while isinstance(within, BaseExceptionGroup):
            within = within.exceptions[0]
        if isinstance(within, pytest.skip.Exception):
            error.msg = within.msg


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests went without what, behind all else."""
    reports: list[pytest.TestReport] = terminalreporter.getreports("skipped")
    reasons = Counter(str(report.longrepr[2]) for report in reports if isinstance(report.longrepr, tuple))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """A process gives its reports on as UTF-8, and tests of half a character log one."""
    return whole_characters((yield))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)


@contextmanager
def _server(name: str, start: Callable[[], AbstractContextManager[servers.PrivateServer]]) -> Iterator[str]:
    if dsn := named(f"TARRY_TEST_{name}"):
        yield dsn
        return
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except servers.NoServerError as missing:
            servers.skip_or_fail(str(missing))
        yield server.dsn


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[str]:
    """The DSN of a MariaDB, with a user who may do anything. Take `fresh_database` or `mysql_dsn` to write to."""
    with _server("MARIADB", servers.mariadb) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[str]:
    """The DSN of a MySQL, likewise."""
    with _server("MYSQL", servers.mysql) as dsn:
        yield dsn


@pytest.fixture
def fresh_database() -> Iterator[Callable[[str], str]]:
    """A function: the DSN of a server to the DSN of a new, empty database on it, which is dropped after the test."""
    with ExitStack() as stack:
        yield lambda dsn: stack.enter_context(servers.database(dsn))


@pytest.fixture(params=["mariadb", "mysql"])
def mysql_dsn(request: pytest.FixtureRequest, fresh_database: Callable[[str], str]) -> str:
    """A new, empty database, on MariaDB and then on MySQL."""
    return fresh_database(request.getfixturevalue(f"{request.param}_server"))


@pytest.fixture
async def backend(mysql_dsn: str) -> "AsyncIterator[MySQLBackend]":
    """Of a new database, with all tables; of each of the two."""
    from tarry.store.mysql.backend import MySQLBackend  # not for all who have no use for it

    backend = MySQLBackend(mysql_dsn)
    await backend.migrate()
    yield backend
    await backend.aclose()


@pytest.fixture
def private_redis() -> Iterator[servers.PrivateRedis]:
    """A Redis of the test's own."""
    try:
        server = servers.PrivateRedis()
    except servers.NoServerError as missing:
        servers.skip_or_fail(str(missing))
    yield server
    server.stop()


@pytest.fixture
def autojump_clock(monkeypatch: pytest.MonkeyPatch) -> "MockClock":
    """pytest-trio's, but that it stands while the embedded store's threads are at work: of threads Trio's does not
    know, and goes on through hours in which everybody's rounds run thousands of times before a statement is done."""
    from trio.testing import MockClock  # not for all who have no use for it

    from tarry.store.sqlite.backend import SQLiteBackend

    clock, at_work = MockClock(autojump_threshold=0), 0

    def waited_for(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(ask)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            nonlocal at_work
            at_work += 1
            clock.autojump_threshold = math.inf
            try:
                return await ask(*args, **kwargs)
            finally:
                at_work -= 1
                if not at_work:
                    clock.autojump_threshold = 0

        return wait

    for name in ("read", "write", "note", "migrate", "applied", "aclose"):
        monkeypatch.setattr(SQLiteBackend, name, waited_for(getattr(SQLiteBackend, name)))
    return clock


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> "Iterator[InMemorySpanExporter]":
    """The spans of OpenTelemetry, by a provider of this test's own: that of the process can be set but once."""
    from opentelemetry import trace  # not for all who have no use for it
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()
