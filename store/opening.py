"""From a DSN to its backend: `sqlite:///tarry.db`, `sqlite:////var/lib/tarry/tarry.db`, `mysql://user:pw@host/db`."""

from pathlib import Path

from .errors import SchemaError, StoreError
from .migrations import Migration, load_migrations, pending
from .mysql.dsn import Dsn
from .ports import Backend, Guest

_SQLITE = "sqlite:///"


class BadDSN(StoreError):
    """The DSN names no store that Tarry has; the text says what it should look like."""


def check_dsn(dsn: str) -> None:
    """Raises `BadDSN` for one that `open_backend` would not take; opens nothing."""
    if dsn.startswith(_SQLITE):
        if dsn == _SQLITE or "?" in dsn:
            raise BadDSN(f"{dsn} names no file: write sqlite:///tarry.db or, with four slashes, an absolute path")
    elif dsn.startswith("mysql://"):
        try:
            Dsn.parse(dsn)
        except ValueError as error:
            raise BadDSN(f"the DSN: {error}") from None
    else:
        scheme, mark, _ = dsn.partition("://")
        # Without the mark it may be a password that was written first.
        what = f"a store of kind {scheme!r} is unknown" if mark else "a store begins with its kind"
        raise BadDSN(f"{what}: use sqlite:///FILE or mysql://USER:PASSWORD@HOST/DATABASE")


def is_shared(dsn: str) -> bool:
    """Whether several processes may serve on it."""
    return not dsn.startswith(_SQLITE)


async def open_backend(dsn: str, redis: str | None = None) -> Backend:
    """Opens the store named by `dsn`; the caller closes it. Raises `BadDSN`, `StoreInUse` or `Unavailable`.

    `redis` is the address of a Redis that may draw the offsets of topics, on MySQL.
    """
    check_dsn(dsn)
    if dsn.startswith(_SQLITE):
        from .sqlite.backend import SQLiteBackend  # a MySQL node need not load it

        return SQLiteBackend(Path(dsn.removeprefix(_SQLITE)))
    from .mysql.backend import MySQLBackend  # nor the embedded store the MySQL driver

    return MySQLBackend(dsn, redis)


async def open_guest(dsn: str) -> Guest:
    """Opens the store named by `dsn` beside its server: it is not locked, and its schema is not touched.

    Raises `SchemaError` where there is no store yet, or one of another version, `BadDSN` and `Unavailable`.
    """
    check_dsn(dsn)
    guest: Guest
    if dsn.startswith(_SQLITE):
        from .sqlite.guest import SQLiteGuest

        guest = SQLiteGuest(Path(dsn.removeprefix(_SQLITE)))
    else:
        guest = await open_backend(dsn)
    try:
        if todo := pending(migrations_for(dsn), await guest.applied()):
            raise SchemaError(
                f"the schema lacks {todo[0].version:04} ({todo[0].name}): "
                "`tarry migrate`, or a start of `tarry serve` of this version, brings it up to date"
            )
    except StoreError:
        await guest.aclose()
        raise
    return guest


def database_of(dsn: str) -> str:
    """The name of a store among others of its kind: what nodes on one database have in common."""
    return dsn.partition("?")[0].rpartition("/")[2]


def migrations_for(dsn: str) -> list[Migration]:
    """The migrations that `open_backend(dsn).migrate()` would apply to an empty store."""
    check_dsn(dsn)
    return load_migrations("sqlite" if dsn.startswith(_SQLITE) else "mysql")
