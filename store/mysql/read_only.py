"""The two variables of a server that make it take no writes, for both the service's and the pipeline's driver."""

from collections.abc import Sequence

COLUMNS = "@@global.read_only, @@global.innodb_read_only"
"""Columns of a SELECT: the first is set on a replica, the second on the reader of a cloud's cluster."""
NAMES = ("read_only", "innodb_read_only")


def why_read_only(values: Sequence[object]) -> str | None:
    """Says, from the values of `COLUMNS`, which variable is on; None if neither is.

    A user with enough rights could write all the same, but must not where another server takes the writes.
    """
    for name, value in zip(NAMES, values, strict=True):
        if value not in (0, "OFF", b"OFF"):
            return f"it is read-only (@@{name} is on)"
    return None
