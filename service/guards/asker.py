"""Asks a guard: queries its table over a session of its own with that table's server, as a user who may only read."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import trio
from attrs import define, field

from ...store.errors import StoreError, Unavailable
from ...store.mysql.dsn import Dsn
from ..durations import format_duration
from . import question
from .declared import Guard
from .question import Answers, NoAnswer, Trial

_GRACE = 500
"""Milliseconds to wait for an answer beyond the time limit that the server itself enforces."""
_LOGIN = 3.0
"""Seconds within which a host must accept a session."""
_NOBODY = "0"
"""A key with which to try a table that has no rows; valid for numbers and texts."""
_TOO_LONG = frozenset({1969, 3024})
"""Error codes of MariaDB and MySQL for a statement that took too long."""


class Session(Protocol):
    @property
    def closed(self) -> bool: ...

    def is_stale(self) -> bool: ...

    async def execute(self, sql: bytes) -> int: ...

    async def fetch(self, sql: bytes) -> list[tuple[Any, ...]]: ...

    def close(self) -> None: ...


Connect = Callable[[Dsn, float, int], Awaitable[Session]]


async def connect(dsn: Dsn, timeout: float, longest: int) -> Session:
    """Opens a read-only session in which no statement takes more than `longest` milliseconds, even if the table is
    locked. Raises `Unavailable` after `timeout` seconds at the latest."""
    from ...store.mysql.connection import connect as open_session  # without guards the driver is not needed

    session = await open_session(dsn, write=False, timeout=timeout)
    in_mysql = session.server.flavour == "mysql"
    limit = f"max_execution_time = {longest}" if in_mysql else f"max_statement_time = {longest / 1000}"
    try:
        with trio.fail_after(timeout):
            await session.execute(b"SET SESSION TRANSACTION READ ONLY")
            wait = max(1, -(-longest // 1000))
            await session.execute(f"SET SESSION {limit}, SESSION lock_wait_timeout = {wait}".encode())
    except trio.TooSlowError:
        session.close()
        raise Unavailable(f"{dsn}: no answer within {timeout:g} s") from None
    except BaseException:
        session.close()
        raise
    return session


@define(eq=False)
class Asker:
    """Asks one guard, one question at a time."""

    guard: Guard
    _connect: Connect = connect
    _session: Session | None = field(default=None, init=False)
    _numbers: bool = field(default=False, init=False)
    """Whether the key column holds numbers, as the session has found."""

    async def ask(self, keys: Sequence[str]) -> Answers:
        session = await self._ready()
        asked, found = question.without_strangers(keys, numbers=self._numbers)
        some = await self._question(session, asked) if asked else Answers()
        for key in some.alone:
            one = await self._question(session, [key])
            found.said.update(one.said)
            found.unclear.update(one.unclear)
        found.said.update(some.said)
        found.unclear.update(some.unclear)
        return found

    async def try_it(self) -> Trial:
        """Asks the guard as at a message's time, about a key in its table, if there is one. Raises `NoAnswer`."""
        session = await self._ready()
        indexed = bool(await self._fetch(session, question.about_index(self.guard)))
        rows = await self._fetch(session, question.any_key(self.guard))
        key = question.as_text(rows[0][0]) if rows else _NOBODY
        began = trio.current_time()
        found = await self.ask([key])
        took = round((trio.current_time() - began) * 1000)
        return Trial(self._numbers, took, found.said.get(key) if rows else None, found.unclear.get(key), indexed)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    async def _question(self, session: Session, keys: Sequence[str]) -> Answers:
        rows = await self._fetch(session, question.question(self.guard, keys, numbers=self._numbers))
        return question.answers(keys, rows)

    async def _fetch(self, session: Session, sql: bytes) -> list[tuple[Any, ...]]:
        try:
            with trio.fail_after((self.guard.timeout + _GRACE) / 1000):
                return await session.fetch(sql)
        except trio.TooSlowError:
            raise self._late() from None
        except StoreError as error:
            raise self._late() if error.code in _TOO_LONG else NoAnswer(str(error), of_all=False) from error
        finally:
            if session.closed:
                self._session = None

    def _late(self) -> NoAnswer:
        self.close()
        return NoAnswer(f"no answer within {format_duration(self.guard.timeout)}", of_all=False)

    async def _ready(self) -> Session:
        """The session, or a new one. Raises `NoAnswer`, for all keys, if no session can be opened."""
        if self._session is not None and not self._session.is_stale():
            return self._session
        self.close()
        try:
            session = await self._log_in()
        except StoreError as error:
            raise NoAnswer(str(error), of_all=True) from error
        try:
            with trio.fail_after(_LOGIN):
                self._numbers = question.holds_numbers(
                    self.guard, await session.fetch(question.about_column(self.guard))
                )
        except trio.TooSlowError:
            session.close()
            raise NoAnswer(f"its server said nothing for {_LOGIN:g} s", of_all=True) from None
        except StoreError as error:
            session.close()
            raise NoAnswer(str(error), of_all=True) from error
        except BaseException:
            session.close()
            raise
        self._session = session
        return session

    async def _log_in(self) -> Session:
        error: StoreError = Unavailable("there is no host")
        for dsn in Dsn.parse(self.guard.dsn).each:
            try:
                return await self._connect(dsn, _LOGIN, self.guard.timeout)
            except StoreError as why:
                error = why
        raise error
