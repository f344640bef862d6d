"""The program of a version to come: this one, with one migration more, or two."""

import shutil
from pathlib import Path
from typing import Literal

import tarry
from tarry.store.migrations import Migration, load_migrations

Kind = Literal["mysql", "sqlite"]
_LAST = load_migrations("mysql")[-1]

_ADDS = {
    "mysql": """\
CREATE TABLE IF NOT EXISTS later (
  id BIGINT NOT NULL,
  text VARBINARY(255) NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='of a version to come';

INSERT IGNORE INTO later (id) VALUES (1);

ALTER TABLE delay ADD COLUMN later TINYINT UNSIGNED NOT NULL DEFAULT 0 COMMENT '1: later';

ALTER TABLE message ADD COLUMN later BIGINT NULL, ADD COLUMN latest INT NOT NULL DEFAULT 0;

ALTER TABLE consumer_group ADD COLUMN later TINYINT UNSIGNED NOT NULL DEFAULT 0;

ALTER TABLE consumer_group ADD KEY idx_consumer_group_later (later, seen_at);
""",
    "sqlite": """\
CREATE TABLE later (
  id INTEGER PRIMARY KEY,
  text BLOB NULL
);

INSERT INTO later (id) VALUES (1);

ALTER TABLE delay ADD COLUMN later INTEGER NOT NULL DEFAULT 0;

ALTER TABLE message ADD COLUMN later INTEGER NULL;
ALTER TABLE message ADD COLUMN latest INTEGER NOT NULL DEFAULT 0;

ALTER TABLE consumer_group ADD COLUMN later INTEGER NOT NULL DEFAULT 0;
CREATE INDEX idx_consumer_group_later ON consumer_group (later, seen_at);
""",
}
_TAKES_AWAY = """\
CREATE TABLE IF NOT EXISTS latest (
  id BIGINT NOT NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB COMMENT='of a version to come';

ALTER TABLE message DROP COLUMN later;

ALTER TABLE message DROP COLUMN latest;
"""


def adding(kind: Kind) -> Migration:
    """The next migration, which today's servers may be beside."""
    text = f"-- What a version to come adds.\n-- beside: {_LAST.beside}\n\n{_ADDS[kind]}"
    return Migration(_LAST.version + 1, "later", text)


def taking_away() -> Migration:
    """The one after it, on MySQL: all servers must know it."""
    return Migration(_LAST.version + 2, "latest", f"-- What nobody uses any more.\n\n{_TAKES_AWAY}")


def make_next_program(folder: Path) -> Path:
    """Makes of it a folder for PYTHONPATH, with a program that knows the next migration."""
    package = folder / "tarry"
    shutil.copytree(Path(tarry.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    kinds: tuple[Kind, Kind] = ("mysql", "sqlite")
    for kind in kinds:
        migration = adding(kind)
        file = package / "store" / kind / "migrations" / f"{migration.version:04}_{migration.name}.sql"
        file.write_text(migration.text)
    return folder
