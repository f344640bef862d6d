"""Makes the program of a future version: this one with one or two more migrations."""

import shutil
from pathlib import Path
from typing import Literal

import tarry
from tarry.store.migrations import Migration, load_migrations

_LAST = load_migrations("mysql")[-1]
_MAKE = "{create} {name} (\n  id INT NOT NULL,\n  PRIMARY KEY (id)\n){end};\n"
_MYSQL = {"create": "CREATE TABLE IF NOT EXISTS", "end": " ENGINE=InnoDB COMMENT='of a version to come'"}
_SQLITE = {"create": "CREATE TABLE", "end": ""}
_ADD = """
ALTER TABLE delay ADD COLUMN later INT NOT NULL DEFAULT 0;
ALTER TABLE message ADD COLUMN later INT NULL;
ALTER TABLE consumer_group ADD COLUMN later INT NOT NULL DEFAULT 0;
"""
_ADD_INDEX = {
    "mysql": "ALTER TABLE consumer_group ADD KEY idx_consumer_group_later (later);\n",
    "sqlite": "CREATE INDEX idx_consumer_group_later ON consumer_group (later);\n",
}


def adding(kind: Literal["mysql", "sqlite"]) -> Migration:
    """The next migration; today's servers may run beside it."""
    made = _MAKE.format(name="later", **(_MYSQL if kind == "mysql" else _SQLITE))
    return Migration(_LAST.version + 1, "later", f"-- beside: {_LAST.beside}\n{made}{_ADD}{_ADD_INDEX[kind]}")


def taking_away() -> Migration:
    """The migration after that, on MySQL; all servers must know it."""
    made = _MAKE.format(name="latest", **_MYSQL)
    return Migration(_LAST.version + 2, "latest", f"{made}ALTER TABLE message DROP COLUMN later;\n")


def make_next_program(folder: Path) -> Path:
    """Puts a program that knows the next migration into a folder for PYTHONPATH."""
    package = folder / "tarry"
    shutil.copytree(Path(tarry.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for one, folder_of in ((adding("mysql"), "mysql"), (adding("sqlite"), "sqlite")):
        (package / f"store/{folder_of}/migrations/{one.version:04}_{one.name}.sql").write_text(one.text)
    return folder
