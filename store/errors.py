"""The errors of a store: one base class, flat; each docstring says what the error means.

Each backend maps its driver's errors to these in one place, and keeps the cause.
"""


class StoreError(Exception):
    """The store could not do what was asked."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Unavailable(StoreError):
    """The database is away, read-only or full. Nothing of the transaction is kept."""


class ReadOnly(Unavailable):
    """This server of the database takes no writes: it is read-only, a replica, or cut off from its cluster. Another
    server may take them, or this one after a while. Nothing of the transaction is kept."""


class Foreign(Unavailable):
    """This server takes writes, but it does not hold the same database as before: it has none of Tarry's, another one,
    or one with an older schema; the text says which. Nothing was asked of it, and nothing is kept."""


class Full(Unavailable):
    """The server accepts no more sessions: `max_connections` is reached, or a limit of the account, which may also be
    one per hour; the text says which."""

    def __init__(self, message: str, code: int | None = None, *, quota: str | None = None) -> None:
        super().__init__(message, code)
        self.quota = quota
        """The name of the limit, if it is one per hour: it ends with the hour."""


class OutcomeUnknown(Unavailable):
    """The connection was lost at COMMIT: the transaction may or may not have been committed."""


class Contention(StoreError):
    """Another transaction was in the way: a deadlock, or, as `Locked`, a lock wait that timed out."""


class Locked(Contention):
    """Another transaction holds a row that this one needs, and the lock wait timed out."""


class Held(Locked):
    """Another transaction holds a row whose lock is not waited for within a transaction: it may be free in a moment."""


class DuplicateKey(StoreError):
    """A row with this key exists."""


class Refused(StoreError):
    """The database refuses the statement or its data, and would do so again: too long, out of range, malformed."""


class Unfit(Refused):
    """The request is valid, but the database does not meet Tarry's needs: its behaviour, a setting, a right or a table.
    The text says which."""

    def __init__(self, message: str, code: int | None = None, *, setting: str | None = None) -> None:
        super().__init__(message, code)
        self.setting = setting
        """What has to be changed, in words fit for a caller over HTTP: they name no table, host or user."""


class Denied(Unfit):
    """The account that Tarry logs in with lacks a right; the request itself is valid."""


class SchemaError(StoreError):
    """The schema of the database is not the one that this program knows; the text says what to do."""


class StoreInUse(StoreError):
    """Another server holds the embedded store's file."""


class TopicGone(Refused):
    """The topic, or one of its queues, has been removed meanwhile."""


class GroupGone(Refused):
    """The group has been removed meanwhile."""


class Unsettled(StoreError):
    """The topic still has waiting or unsettled messages; the text says how many."""


class NoSuchTable(StoreError):
    """The database has no such table, or there is no such database."""


def is_of_one(error: Exception) -> bool:
    """Whether the error may be caused by a single one of the requests that were written together: the store is
    available, its schema is known, and no other transaction is in the way."""
    return not isinstance(error, Unavailable | Contention | SchemaError | StoreInUse | NoSuchTable)
