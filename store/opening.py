"""Opens the store of a DSN: `sqlite:///tarry.db`, `sqlite:////var/lib/tarry/tarry.db`, `mysql://user:pw@host/db`."""

from pathlib import Path

from .errors import SchemaError, StoreError
from .migrations import Migration, load_migrations, pending
from .mysql.dsn import Dsn
from .ports import Backend, Guest

_SQLITE = "sqlite:///"


class BadDSN(StoreError):
    """The DSN names no kind of store that Tarry has; the text says what it should look like."""


def check_dsn(dsn: str) -> None:
    """Raises `BadDSN` for a DSN that `open_backend` would refuse; opens nothing."""
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
        # Without "://" the first part may be a password, so it is not shown.
        what = f"a store of kind {scheme!r} is unknown" if mark else "a store begins with its kind"
        raise BadDSN(f"{what}: use sqlite:///FILE or mysql://USER:PASSWORD@HOST/DATABASE")


def is_shared(dsn: str) -> bool:
    """Whether several processes may serve on this store."""
    return not dsn.startswith(_SQLITE)


async def open_backend(dsn: str, redis: str | None = None) -> Backend:
    """Opens the store named by `dsn`; the caller closes it. Raises `BadDSN`, `StoreInUse` or `Unavailable`.

    `redis` is the address of a Redis that may draw the offsets of topics, on MySQL.
    """
    check_dsn(dsn)
    if dsn.startswith(_SQLITE):
        from .sqlite.backend import SQLiteBackend  # imported here: a MySQL node need not load it

        return SQLiteBackend(Path(dsn.removeprefix(_SQLITE)))
    from .mysql.backend import MySQLBackend  # imported here: the embedded store need not load the driver

    return MySQLBackend(dsn, redis)


async def open_guest(dsn: str) -> Guest:
    """Opens the store named by `dsn` beside its server: without its lock, and without changing its schema.

    Raises `SchemaError` when there is no store yet or its schema has another version; also `BadDSN` and `Unavailable`.
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
    """The name of the database or file of a DSN, which is the same for all nodes on one database."""
    return dsn.partition("?")[0].rpartition("/")[2]


def migrations_for(dsn: str) -> list[Migration]:
    """The migrations that `open_backend(dsn).migrate()` would apply to an empty store."""
    check_dsn(dsn)
    return load_migrations("sqlite" if dsn.startswith(_SQLITE) else "mysql")
