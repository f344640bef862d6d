"""Migrations: plain SQL files, numbered, applied in order, each remembered with its checksum.

A file is never changed after a release: a checksum that differs is refused. So is a schema newer than the program.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Literal

from attrs import frozen

from .errors import SchemaError

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@frozen
class Migration:
    """One file: `0001_the_house.sql`."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> bytes:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def statements(self) -> list[str]:
        """The statements one by one. A semicolon at the end of a line ends one; remarks stand on lines of their own."""
        code = "\n".join(line for line in self.text.splitlines() if not line.startswith("--"))
        return [statement.strip() for statement in re.split(r";\s*(?:\n|$)", code) if statement.strip()]


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


def pending(known: Sequence[Migration], applied: Mapping[int, bytes]) -> list[Migration]:
    """What is still to be applied, given the checksums by version of what was."""
    newest = known[-1].version
    if applied and max(applied) > newest:
        raise SchemaError(
            f"the schema is at version {max(applied)}, newer than this program, which knows {newest}: "
            "install a newer Tarry, or give this one a database of its own"
        )
    for migration in known:
        if migration.version in applied and applied[migration.version] != migration.checksum:
            raise SchemaError(
                f"migration {migration.version:04} ({migration.name}) was changed after it was applied: "
                "install the Tarry that made this schema, or restore the file"
            )
    return [migration for migration in known if migration.version not in applied]
