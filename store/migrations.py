"""Migrations: plain SQL files, numbered, applied in order, each remembered with its checksum.

A file is never changed after a release: a checksum that differs is refused. So is a schema that needs a newer program.

`-- beside: 5` in a file says that servers which know 0005, but not this migration, may go on and may start beside it,
since it only adds. Without that line all servers must know the migration. Migrations that all servers must know are
recorded in `migration`, which every version of the program compares with what it knows; the others are recorded in
`migration_beside`, which older versions do not read.

The first is 0021, which makes all tables. Earlier numbers were used before the first release; a database that has one
of them is refused.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Literal

from attrs import frozen

from .errors import SchemaError

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_BESIDE = re.compile(r"^-- beside: (\d+)$", re.MULTILINE)
FIRST = 21
"""The version of the first migration."""


@frozen
class Migration:
    """One file: `0021_the_house.sql`."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> bytes:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def beside(self) -> int:
        """The migration that a server must know at least to run beside this one."""
        said = _BESIDE.search(self.text)
        return int(said[1]) if said else self.version

    @property
    def statements(self) -> list[str]:
        """The statements of the file. A semicolon at the end of a line ends one; comments are lines of their own."""
        code = "\n".join(line for line in self.text.splitlines() if not line.startswith("--"))
        return [statement.strip() for statement in re.split(r";\s*(?:\n|$)", code) if statement.strip()]


@frozen
class Applied:
    """The migrations that were applied to a database: checksums by version."""

    needed: Mapping[int, bytes]
    """Every server must know these."""
    beside: Mapping[int, bytes]
    """Older servers need not know these."""

    @property
    def checksums(self) -> dict[int, bytes]:
        """The checksums of all applied migrations, by version."""
        return {**self.beside, **self.needed}

    @property
    def floor(self) -> int:
        """The migration that a server must know at least."""
        return max(self.needed, default=0)


def newest() -> int:
    """The version of the last migration that this program knows; the same on every store."""
    return load_migrations("mysql")[-1].version


def load_migrations(backend: Literal["mysql", "sqlite"]) -> list[Migration]:
    """The migrations of a backend, by version."""
    migrations: list[Migration] = []
    for path in files(f"{__package__}.{backend}").joinpath("migrations").iterdir():
        if match := _FILE.fullmatch(path.name):
            migrations.append(Migration(int(match[1]), match[2], path.read_text("utf-8")))
    return sorted(migrations, key=lambda migration: migration.version)


def pending(known: Sequence[Migration], applied: Applied) -> list[Migration]:
    """The migrations that are still to be applied. Raises `SchemaError`."""
    if applied.checksums and min(applied.checksums) < known[0].version:
        raise SchemaError(
            "the schema was made before the first release of Tarry, and cannot be taken over: give Tarry a new "
            "database; what is in this one is for the Tarry that made it. Nothing was changed"
        )
    if applied.floor > known[-1].version:
        raise SchemaError(
            f"the schema is at version {applied.floor}, newer than this program, which knows {known[-1].version}: "
            "install a newer Tarry, or give this one a database of its own"
        )
    checksums = applied.checksums
    for migration in known:
        if checksums.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaError(
                f"migration {migration.version:04} ({migration.name}) was changed after it was applied: "
                "install the Tarry that made this schema, or restore the file"
            )
    return [migration for migration in known if migration.version not in checksums]
