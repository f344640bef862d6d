"""What can go wrong with a store: one base, flat, and each docstring is the message's meaning.

Drivers' own errors are mapped to these in one place per backend, the cause kept.
"""


class StoreError(Exception):
    """The store could not do what was asked."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class Unavailable(StoreError):
    """The database is away, read-only or full. Nothing of the transaction is kept."""


class ReadOnly(Unavailable):
    """This server of the database takes no writes: it is read-only, a replica, or cut off from its cluster. Another may
    be the one that does, or this one in a while. Nothing of the transaction is kept."""


class Foreign(Unavailable):
    """This server takes writes, and what it has is not the database that was there before: none of Tarry's, another
    one, or one with an older schema; the text says which. Nothing is asked of it, and nothing kept."""


class Full(Unavailable):
    """The server lets in no more sessions: `max_connections` is reached, or a limit of the account's, which may also be
    one on what it asks in an hour; the text says which."""

    def __init__(self, message: str, code: int | None = None, *, quota: str | None = None) -> None:
        super().__init__(message, code)
        self.quota = quota
        """By its name, where it is one of an hour: it ends with that."""


class OutcomeUnknown(Unavailable):
    """The connection was lost at COMMIT: the transaction may or may not be kept."""


class Contention(StoreError):
    """Another transaction was in the way: a deadlock, or, as `Locked`, a lock wait that ran out."""


class Locked(Contention):
    """Somebody else's transaction holds a row that this one needs, and the wait for it is over."""


class Held(Locked):
    """The same of a row that is not waited for within a transaction: another look in a moment may find it free."""


class DuplicateKey(StoreError):
    """A row with this key exists."""

    def __init__(self, message: str, code: int | None = None, key: str | None = None) -> None:
        super().__init__(message, code)
        self.key = key


class Refused(StoreError):
    """The database refuses the statement or its data, and would again: too long, out of range, malformed."""


class Unfit(Refused):
    """What was asked is in order, and the database is not such as Tarry needs: by what it does, a setting, a right or a
    table. The text says by which."""

    def __init__(self, message: str, code: int | None = None, *, setting: str | None = None) -> None:
        super().__init__(message, code)
        self.setting = setting
        """What is to be changed, in words for whoever asks: it names no table, host or user."""


class Denied(Unfit):
    """The account that Tarry logs in with lacks a right: nothing is wrong with what was asked."""


class SchemaError(StoreError):
    """The schema in the database is not the one this program knows; the text says what to do."""


class StoreInUse(StoreError):
    """Another server holds the embedded store's file."""


class TopicGone(Refused):
    """The topic, or one of its queues, has been removed meanwhile."""


class GroupGone(Refused):
    """The group has been removed meanwhile."""


class Unsettled(StoreError):
    """The topic still has messages that wait or are unsettled; the text says how many."""


class NoSuchTable(StoreError):
    """The database has no such table, or there is no such database."""


def is_of_one(error: Exception) -> bool:
    """Whether it may be the fault of one of those that were written together: the store is there, its schema is known,
    and nobody stands in the way."""
    return not isinstance(error, Unavailable | Contention | SchemaError | StoreInUse | NoSuchTable)
