"""One fixture, three backends: what is written here holds on each of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.store_homes import KINDS, dsn, homes, migrated_file, stage
from support.stores import Kind

__all__ = ["dsn", "homes", "migrated_file", "stage"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture
def bare_dsn(kind: Kind, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store without a schema, the test's own."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'tarry.db'}"
    fresh_database: Callable[[str], str] = request.getfixturevalue("fresh_database")
    return fresh_database(request.getfixturevalue(f"{kind}_server"))
