"""What a report knows beside the rows: where they come from, what time it is, and what the store says of its topics.

It is looked up before Spark starts.
"""

import time

from attrs import frozen

from ..store_connection import StoreConnection, text_of


@frozen
class Known:
    """What only the other of store and lake would know is not in the report."""

    store: bool
    lake: str | None
    """Where it is; None: only the store was read."""
    now: int
    """By the clock of the store; without one by that of this machine. Milliseconds."""
    unread: frozenset[str] = frozenset()
    """Topics that have no group at all."""


def known_of(dsn: str | None, lake: str | None) -> Known:
    """Raises `PipelineError` when the store cannot be asked."""
    if dsn is None:
        return Known(store=False, lake=lake, now=round(time.time() * 1000))
    with StoreConnection(dsn) as connection:
        unread = frozenset(text_of(row["name"]) for row in connection.fetch("topic.unread"))
        return Known(store=True, lake=lake, now=connection.now(), unread=unread)
