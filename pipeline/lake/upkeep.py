"""Compaction and vacuum of the lake, by the table format's own means, while no archiver is at work."""

from attrs import frozen
from deltalake.exceptions import DeltaError

from ..errors import LakeError
from .lake import Lake
from .object_store import Access

LEAST_HOURS = 168
"""A file younger than that may be of a reader that has an older snapshot, or of another program at work."""


@frozen
class Kept:
    """What upkeep did to a table."""

    table: str
    files_before: int
    files: int
    removed: int
    """Files that no snapshot of the last hours lists."""


def keep_up(lake: Lake, *, compact: bool = False, vacuum: int | None = None) -> list[Kept]:
    """Puts small files together, then removes files that nobody can need after `vacuum` hours. Raises `LakeError`."""
    done: list[Kept] = []
    for table, snapshot in lake.tables(alone=True).items():
        before = len(snapshot.files())
        removed: list[str] = []
        try:
            if compact:
                snapshot.delta.optimize.compact()
            if vacuum is not None:
                removed = snapshot.delta.vacuum(
                    vacuum, dry_run=False, enforce_retention_duration=vacuum >= LEAST_HOURS, full=True
                )
        except (DeltaError, OSError) as error:
            raise LakeError(
                f"the lake at {snapshot.place} cannot be kept up: {Access.here().meant(error, snapshot.place)}"
            ) from error
        after = lake.open(table)
        done.append(Kept(table, before, 0 if after is None else len(after.files()), len(removed)))
    return done
