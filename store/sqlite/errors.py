"""Maps SQLite's errors to the store's, in one place."""

import sqlite3

from ..errors import Contention, DuplicateKey, Refused, StoreError, Unavailable

_CONTENTION = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_AWAY = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}
_DUPLICATE = {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_ROWID}


def translate(error: Exception) -> StoreError:
    """The store's error for one that `sqlite3` raised."""
    if isinstance(error, StoreError):
        return error
    code: int = getattr(error, "sqlite_errorcode", 0) or 0
    text = f"SQLite: {error}"
    if code in _DUPLICATE:
        return DuplicateKey(text, code)
    primary = code & 0xFF
    if primary in _CONTENTION:
        return Contention(text, code)
    if primary in _AWAY or isinstance(error, sqlite3.ProgrammingError):
        return Unavailable(text, code)
    return Refused(text, code)
