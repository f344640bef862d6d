"""A statement in, an Arrow table out: whichever of the two stores it is."""

from collections.abc import Callable

from ..arrow import pa
from ..link import kind_of
from . import mysql_reads, sqlite_reads

Fetch = Callable[[str], pa.Table]


def fetcher(dsn: str) -> Fetch:
    """Reads one statement from the store."""
    reads = mysql_reads if kind_of(dsn) == "mysql" else sqlite_reads
    return lambda sql: reads.fetch(dsn, sql)
