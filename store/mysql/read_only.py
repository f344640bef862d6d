"""What makes a server take no writes: two of its variables, for whoever opens a session, with whichever driver."""

from collections.abc import Sequence

COLUMNS = "@@global.read_only, @@global.innodb_read_only"
"""Of a query: what a replica is told, and what a cloud's reader is known by."""
NAMES = ("read_only", "innodb_read_only")


def why_read_only(values: Sequence[object]) -> str | None:
    """From the values of `COLUMNS`: which of them is on.

    A user with rights enough could write all the same. It must not, where another server takes the writes.
    """
    for name, value in zip(NAMES, values, strict=True):
        if value not in (0, "OFF", b"OFF"):
            return f"it is read-only (@@{name} is on)"
    return None
