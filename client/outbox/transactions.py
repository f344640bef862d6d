"""Whether a cursor is in a transaction: asked of the server, since drivers, pools and frameworks report it differently.

In autocommit mode every statement is a transaction of its own: an outbox's rows would not be undone with the user's.
A savepoint shows it: outside of a transaction it is gone after the statement that made it.
"""

from ..errors import BadRequest
from .cursors import CursorTransaction, NoSuchSavepoint

_NONE = (
    "cursor: its connection is in autocommit mode, and no transaction is open, so nothing would be undone with your "
    "rows. Connect without autocommit, or begin a transaction before (START TRANSACTION, connection.begin(), "
    "transaction.atomic())"
)
_OTHER = (
    "connection: a transaction is open on it, and settle makes one of its own: commit or roll back yours before, or "
    "call once and ack within it"
)
_NOT_MYSQL = (
    "cursor: it is one of {}, and an outbox wants one on the MySQL or MariaDB that Tarry runs on. In tests that is"
    " EmbeddedServer(dsn='mysql://user:password@host/')"
)
_ELSEWHERE = {"sqlite3": "SQLite", "psycopg": "PostgreSQL", "psycopg2": "PostgreSQL", "asyncpg": "PostgreSQL"}


async def demand(tx: CursorTransaction) -> None:
    """Raises `BadRequest` if changes would be committed statement by statement."""
    if await _autocommits(tx) and not await _open(tx):
        raise BadRequest(_NONE)


async def begin(tx: CursorTransaction) -> None:
    """Begins a transaction in autocommit mode, and raises `BadRequest` if one is open. Without autocommit the first
    statement begins it."""
    if not await _autocommits(tx):
        return
    if await _open(tx):
        raise BadRequest(_OTHER)
    await tx.run("START TRANSACTION")


async def _autocommits(tx: CursorTransaction) -> bool:
    try:
        ((mode,),) = await tx.ask("SELECT @@autocommit AS mode")
    except Exception as error:
        drivers = {type(one).__module__.partition(".")[0] for one in (error, error.__cause__)}  # Django's has a cause
        for name, kind in _ELSEWHERE.items():
            if name in drivers:
                raise BadRequest(_NOT_MYSQL.format(kind)) from error
        raise
    return bool(mode)


async def _open(tx: CursorTransaction) -> bool:
    await tx.run("SAVEPOINT tarry_outbox")
    try:
        await tx.run("RELEASE SAVEPOINT tarry_outbox")
    except NoSuchSavepoint:
        return False
    return True
