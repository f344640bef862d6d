"""From a DSN to its backend: `sqlite:///tarry.db`, `sqlite:////var/lib/tarry/tarry.db`, `mysql://user:pw@host/db`."""

from pathlib import Path

from .errors import StoreError
from .migrations import Migration
from .mysql.dsn import Dsn
from .ports import Backend

_SQLITE = "sqlite:///"


class BadDSN(StoreError):
    """The DSN names no store that Tarry has; the text says what it should look like."""


def check_dsn(dsn: str) -> None:
    """Raises `BadDSN` for one that `open_backend` would not take; opens nothing."""
    if dsn.startswith(_SQLITE):
        _path(dsn)
    elif dsn.startswith("mysql://"):
        _parsed(dsn)
    else:
        raise _unknown(dsn)


async def open_backend(dsn: str, redis: str | None = None) -> Backend:
    """Opens the store named by `dsn`; the caller closes it. Raises `BadDSN`, `StoreInUse` or `Unavailable`.

    `redis` is the address of a Redis that may draw the offsets of topics, on MySQL.
    """
    if dsn.startswith(_SQLITE):
        from .sqlite.backend import SQLiteBackend  # a MySQL node need not load it

        return SQLiteBackend(_path(dsn))
    if dsn.startswith("mysql://"):
        from .mysql.backend import MySQLBackend  # nor the embedded store the MySQL driver

        _parsed(dsn)
        return MySQLBackend(dsn, redis)
    raise _unknown(dsn)


def database_of(dsn: str) -> str:
    """The name of a store among others of its kind: what nodes on one database have in common."""
    return dsn.partition("?")[0].rpartition("/")[2]


def migrations_for(dsn: str) -> list[Migration]:
    """The migrations that `open_backend(dsn).migrate()` would apply to an empty store."""
    if dsn.startswith(_SQLITE):
        from .sqlite.backend import migrations

        return migrations()
    if dsn.startswith("mysql://"):
        from .mysql.backend import migrations

        return migrations()
    raise _unknown(dsn)


def _path(dsn: str) -> Path:
    path = dsn.removeprefix(_SQLITE)
    if not path or "?" in path:
        raise BadDSN(f"{dsn} names no file: write sqlite:///tarry.db or, with four slashes, an absolute path")
    return Path(path)


def _parsed(dsn: str) -> Dsn:
    try:
        return Dsn.parse(dsn)
    except ValueError as error:
        raise BadDSN(f"the DSN: {error}") from None


def _unknown(dsn: str) -> BadDSN:
    scheme, mark, _ = dsn.partition("://")
    # Without the mark it may be a password that was written first.
    what = f"a store of kind {scheme!r} is unknown" if mark else "a store begins with its kind"
    return BadDSN(f"{what}: use sqlite:///FILE or mysql://USER:PASSWORD@HOST/DATABASE")
