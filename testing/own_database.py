"""A database of a test's own, on a MySQL or MariaDB that its user names: made at the beginning, dropped at the end.

**Only a database that was made here is dropped.** CREATE DATABASE fails if it is there already, and its maker leaves a
random word in it. It is dropped only if that word is found, in the same session: not if the answer to CREATE was lost,
if another database has taken its place since, or if the name leads to another server by then.
"""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import attrs
import trio

from ..store.errors import Denied, Locked, StoreError
from ..store.mysql.connection import Connection, connect
from ..store.mysql.dsn import Dsn
from ..store.mysql.literals import Statement

PREFIX = "tarry_test_"
"""The beginning of names that were generated."""

_FORM = "mysql://user:password@host/"
_THERE, _NO_DATABASE, _NO_TABLE, _REFUSED_LOGIN = 1007, 1049, 1146, 1045
_MARK = "made_for_a_test"


class NoDatabase(Exception):
    """There is no database for the test, or it could not be dropped; the text says why, and what to do."""


class OwnDatabase:
    """A database to `make`, and then to `drop`, which does nothing if none was made."""

    def __init__(self, dsn: str) -> None:
        """Raises ValueError, which names the part that is wrong."""
        if not isinstance(dsn, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users are not all typed
            raise TypeError(f"dsn: it is text, {_FORM}, and no {type(dsn).__name__}")
        try:
            self.text = dsn if _names_database(dsn) else _with_new_name(dsn)
            self.dsn = Dsn.parse(self.text)
        except ValueError as error:
            raise ValueError(f"dsn: {error}") from None
        if self.dsn.others:
            raise ValueError(f"dsn: a test's database is on one server: name one host, {_FORM}")
        self._word = secrets.token_hex(16)
        self._made = False

    @property
    def name(self) -> str:
        """The name of the database."""
        return self.dsn.database

    @property
    def login(self) -> dict[str, Any]:
        """The arguments with which drivers connect to it."""
        dsn = self.dsn
        where = {"host": dsn.host, "port": dsn.port} if dsn.socket is None else {"unix_socket": dsn.socket}
        return where | {"user": dsn.user, "password": dsn.password, "database": dsn.database}

    async def make(self) -> None:
        """Makes it, under its name, or under a new one if it is there and empty. Raises `NoDatabase`."""
        try:
            async with self._session() as session:
                with trio.CancelScope(shield=True):  # otherwise nobody would know whether it was made
                    if await self._is_there(session):
                        self.text = _with_new_name(self.text)
                        self.dsn = Dsn.parse(self.text)
                    await self._make(session)
        except Denied as error:
            raise NoDatabase(
                f"dsn: {self.dsn.user!r} may not make the database {self.name}: GRANT ALL ON {_quoted(self._pattern)}.*"
                f" TO this user, or name one that may: {error}"
            ) from error
        except StoreError as error:
            fix = "name one that answers"
            if error.code == _THERE:
                fix = "leave the name of the database out"
            elif error.code == _REFUSED_LOGIN:
                fix = "say its user and password"
            raise NoDatabase(f"dsn: no MySQL or MariaDB for tests; {fix}, {_FORM}: {error}") from error

    async def _is_there(self, session: Connection) -> bool:
        """Whether the database exists. Raises `NoDatabase` if it holds tables, which must not be touched."""
        name = Statement("?").bind(self.name)
        there = b"SELECT 1 FROM information_schema.schemata WHERE schema_name = " + name
        if not await session.fetch(there):
            return False
        held = b"SELECT table_name FROM information_schema.tables WHERE table_schema = " + name
        tables = [str(table) for (table,) in await session.fetch(held)]
        if _MARK in tables:
            raise NoDatabase(
                f"dsn: the database {self.name} is of another test that is at work, or was killed: if none is, DROP"
                f" DATABASE {self.name}; or leave its name out, {_FORM}"
            )
        for table in tables[:1]:
            raise NoDatabase(
                f"dsn: the database {self.name} holds tables ({table}), and is left alone, for a test's database is"
                f" dropped at the end: leave its name out, {_FORM}"
            )
        return True

    async def _make(self, session: Connection) -> None:
        name = _quoted(self.name)
        await session.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4".encode())
        try:
            await session.execute(
                f"CREATE TABLE {name}.{_MARK} (word CHAR(32) CHARACTER SET ascii NOT NULL PRIMARY KEY)"
                " COMMENT='tarry.testing has made this database, and drops it'".encode()
            )
            await session.execute(Statement(f"INSERT INTO {name}.{_MARK} VALUES ?").bind((self._word,)))  # noqa: S608  # the name is quoted
        except BaseException:
            if not session.closed:
                await session.execute(f"DROP DATABASE {name}".encode())
            raise
        self._made = True

    async def drop(self) -> None:
        """Drops it. Raises `NoDatabase`, which says what is left behind."""
        if not self._made:
            return
        try:
            async with self._session() as session:
                if await self._is_ours(session):
                    await self._drop(session)
        except StoreError as error:
            by_hand = f"DROP DATABASE {_quoted(self.name)}"
            raise NoDatabase(
                f"the database {self.name} is left behind: close what is open in it, and {by_hand}: {error}"
            ) from error

    async def _drop(self, session: Connection) -> None:
        drop = f"DROP DATABASE {_quoted(self.name)}".encode()
        try:
            await session.execute(drop)
        except Locked:  # a transaction in it is open, mostly that of the test, which has failed
            for id_, _, _, database, *_ in await session.fetch(b"SHOW PROCESSLIST"):
                if database == self.name and id_ != session.id:
                    await session.execute(f"KILL {id_:d}".encode())
            await session.execute(drop)

    async def _is_ours(self, session: Connection) -> bool:
        try:
            words = await session.fetch(f"SELECT word FROM {_quoted(self.name)}.{_MARK}".encode())  # noqa: S608  # quoted
        except StoreError as error:
            if error.code in (_NO_DATABASE, _NO_TABLE):
                return False  # somebody has dropped it
            raise
        return words == [(self._word,)]

    @property
    def _pattern(self) -> str:
        name = PREFIX + "%" if self.name.startswith(PREFIX) else self.name
        return name.replace("_", "\\_")

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[Connection, None]:
        session = await connect(attrs.evolve(self.dsn, database=""), write=False)
        try:
            yield session
        finally:
            session.close()


def _names_database(dsn: str) -> bool:
    return bool(dsn.partition("?")[0].partition("://")[2].partition("/")[2])


def _with_new_name(dsn: str) -> str:
    """The DSN with a new database name, so that parallel runs do not collide; it says when the database was made."""
    head, mark, options = dsn.partition("?")
    scheme, _, rest = head.partition("://")
    now = datetime.now(UTC)
    name = f"{PREFIX}{now:%Y%m%d_%H%M%S}_{secrets.token_hex(6)}"
    return f"{scheme}://{rest.partition('/')[0]}/{name}{mark}{options}"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
