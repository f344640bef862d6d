"""Objects that lend a cursor of their own transaction: a `Session` of SQLAlchemy, or a `Connection`.

SQLAlchemy is not imported: these protocols are all that is used of it.
"""

from typing import Any, Protocol

from ..errors import BadRequest
from .cursors import Cursor


class Pooled(Protocol):
    """The driver's connection, as a pool hands it out."""

    def cursor(self) -> Any: ...


class LendingConnection(Protocol):
    """SQLAlchemy's `Connection`."""

    @property
    def connection(self) -> Pooled: ...


class LendingSession(Protocol):
    """SQLAlchemy's `Session`, or a `scoped_session`."""

    def connection(self) -> LendingConnection: ...


Lender = Cursor | LendingSession | LendingConnection
"""A cursor, or an object that has one."""


def cursor_of(lender: Lender) -> Cursor:
    """The cursor of a lender. Raises `BadRequest` for an object that has none."""
    if hasattr(lender, "fetchall"):
        return lender  # type: ignore[return-value]  # pyright: ignore[reportReturnType]  # which lenders have not
    lent: Any = getattr(lender, "connection", None)
    connection: Any = lent() if callable(lent) else lender
    pooled: Any = getattr(connection, "connection", None)
    if not hasattr(pooled, "cursor"):
        kind = type(lender).__name__
        raise BadRequest(
            f"cursor: an object of type {kind} is none, and lends none: give a cursor of the driver's connection, or a"
            " Session or Connection of SQLAlchemy"
        )
    cursor: Cursor = pooled.cursor()
    return cursor
