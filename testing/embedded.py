"""`EmbeddedServer`: a real server on a free port, in a thread of this process, with a store of its own."""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import trio

from ..client.durations import Seconds, seconds
from ..client.outbox.moved import moved
from ..client.tarry import Tarry
from ..service.serve import embed
from ..service.settings import Settings
from ..store.sqlite.backend import SQLiteBackend
from ..store.steady_clock import SteadyClock
from .idle import wait_until_idle
from .moved_time import MovedTime

if TYPE_CHECKING:
    from .own_database import OwnDatabase

_START = 60.0
"""Seconds to wait for the start. On MySQL the schema is made first."""
_LOOK = 0.1
"""Seconds between two looks whether the server's thread is alive, while waiting for it."""

_NO_OUTBOX = (
    "{}: this server is on SQLite, which has no outbox: say EmbeddedServer(dsn='mysql://user:password@host/'), a MySQL"
    " or MariaDB for tests"
)


class EmbeddedServer:
    """A server for a `with`: HTTP over a real socket, on a real store, with nothing else shared.

    Without `dsn` the store is on SQLite, in a folder of its own. `dsn="mysql://user:password@host/"` names a MySQL or
    MariaDB, where a database is made for it and dropped at the end; `outbox` in this process then follows `clock`. A
    database named in the DSN is made; if it is there and empty, it is left as it is, and another one is made; if it
    holds tables, it is refused.

    Settings are those of `tarry serve`, by name: `EmbeddedServer(ladder=["1m", "1h"])`. Neither the environment nor a
    `tarry.toml` is read.
    """

    def __init__(self, *, dsn: str | None = None, **settings: Any) -> None:
        for name in ("listen", "processes", "redis"):
            if name in settings:
                raise ValueError(f"{name}: an embedded server has a store and a port of its own; leave it out")
        self.clock = MovedTime()
        self.url = ""
        """The address of the server, once it runs."""
        self._database = None if dsn is None else _own_database(dsn)
        self._settings = settings
        self._ready = Event()
        self._failed: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_over = trio.Event()
        self._everything = trio.CancelScope()
        self._folder: Path | None = None
        self._thread = Thread(target=self._run, name="tarry", daemon=True)

    @property
    def dsn(self) -> str:
        """The DSN of its own database, `mysql://user:password@host/database`. Raises ValueError on SQLite."""
        return self._own("dsn").text

    @property
    def database(self) -> str:
        """The name of its own database, for tables of yours beside Tarry's, or for `Outbox(database=...)`. Raises
        ValueError on SQLite."""
        return self._own("database").name

    @property
    def login(self) -> dict[str, Any]:
        """The arguments with which drivers connect to it: `pymysql.connect(**server.login)`. They are `host` and `port`
        or `unix_socket`, `user`, `password` and `database`, and nothing of TLS. Raises ValueError on SQLite."""
        return self._own("login").login

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            if not self._ready.wait(_START):
                raise TimeoutError(f"the embedded server was not ready after {_START:.0f} s")
        except BaseException:
            self._tell(self._everything.cancel)
            self._end()
            raise
        if self._failed is not None:
            self._end()
            raise self._failed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell(self._is_over.set)
        self._end()
        if self._failed is None:
            return
        if error is None:
            raise self._failed
        error.add_note(f"and the embedded server has failed: {self._failed}")

    def drain(self, timeout: Seconds = 10.0) -> None:
        """Waits until the groups have handled everything that is due, their retries too.

        Something has to consume meanwhile: a worker of yours, in a thread or process. Raises `NotDrained`, which tells
        what is left, after `timeout` seconds of real time.
        """
        with Tarry(self.url) as tarry:
            if self._database is not None:
                tarry.nudge()  # the server sees rows of an outbox within a second, or now
            wait_until_idle(tarry, self.clock.now, seconds(timeout, "timeout"))

    def _own(self, what: str) -> "OwnDatabase":
        if self._database is None:
            raise ValueError(_NO_OUTBOX.format(what))
        return self._database

    def _tell(self, what: Callable[[], object]) -> None:
        """Calls a function in the server's thread, if that runs."""
        if self._token is not None:
            try:
                self._token.run_sync_soon(what)
            except trio.RunFinishedError:
                return

    def _end(self) -> None:
        self._thread.join()
        self.clock.move = lambda change: change()

    def _run(self) -> None:
        try:
            trio.run(self._serve, clock=self.clock)
        except BaseException as error:
            self._failed = _alone(error)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        settings = Settings.load(config=os.devnull, environment={}, flags={"listen": "127.0.0.1:0"} | self._settings)
        with self._everything:
            if self._database is None:
                await self._serve_on_sqlite(settings)
            else:
                await self._serve_on_mysql(settings, self._database)

    async def _serve_on_sqlite(self, settings: Settings) -> None:
        self.clock.move = partial(self._within, _at_once)
        with TemporaryDirectory(prefix="tarry-") as folder:
            self._folder = Path(folder)
            backend = SQLiteBackend(self._folder / "tarry.db", SteadyClock(self.clock.host, self.clock.elapsed))
            await embed(backend, settings, self.clock.elapsed, self._is_over, self._tell_url)

    async def _serve_on_mysql(self, settings: Settings, database: "OwnDatabase") -> None:
        from .still_store import StillStore  # one on SQLite need not load it

        await database.make()
        try:
            with moved(database.name, self.clock.ahead):
                store = StillStore(database.text)
                self.clock.follow(await store.exact_now())
                self.clock.move = partial(self._within, store.between)
                ahead = self.clock.ahead
                await embed(store, settings, self.clock.elapsed, self._is_over, self._tell_url, ahead)
        finally:
            with trio.CancelScope(shield=True):
                await database.drop()

    def _tell_url(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def _within(self, between: Callable[[Callable[[], None]], Awaitable[None]], change: Callable[[], None]) -> None:
        """Has the server's thread make a change, and waits for it; also from a thread in which an event loop runs."""
        changed = Event()

        async def make() -> None:
            try:
                await between(change)
            finally:
                changed.set()

        self._tell(partial(trio.lowlevel.spawn_system_task, make))
        while not changed.wait(_LOOK):
            if not self._thread.is_alive():
                change()
                return


async def _at_once(change: Callable[[], None]) -> None:
    change()


def _own_database(dsn: str) -> "OwnDatabase":
    if str(dsn).startswith("sqlite:"):
        raise ValueError("dsn: an embedded server on SQLite has a file of its own; leave it out")
    from .own_database import OwnDatabase  # one on SQLite need not load it

    return OwnDatabase(dsn)


def _alone(error: BaseException) -> BaseException:
    """The error itself, where it is the only one of its group."""
    errors: Any = getattr(error, "exceptions", ())
    return _alone(errors[0]) if len(errors) == 1 else error
