"""Who lends a cursor: a `Session` of SQLAlchemy, or a `Connection`. It is the cursor of their own transaction.

SQLAlchemy is not imported: these protocols are all that is known of it.
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
    """Its `Session`, or a `scoped_session`."""

    def connection(self) -> LendingConnection: ...


Lender = Cursor | LendingSession | LendingConnection
"""Whatever has a cursor, or is one."""


def cursor_of(lender: Lender) -> Cursor:
    """Raises `BadRequest` for what has none."""
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
