"""Pages of the documents that are made from the code, or list others, are whole."""

import re
from pathlib import Path

import pytest

from support import module_tables

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
EXPLAINED = [ROOT / "ARCHITECTURE.md", *sorted(DECISIONS.glob("*.md"))]
_PATH = re.compile(r"\b((?:wheel|store|service|client|testing|pipeline|bench|tests)/[\w/]*\w(?:\.py|\.sql|/(?=[`,])))")


def test_the_list_of_files_is_as_they_say() -> None:
    again = "PYTHONPATH=.tree:tests .venv/bin/python -P -m support.module_tables"
    assert module_tables.PAGE.read_text("utf-8") == module_tables.made(), f"make it anew: {again}"


def test_each_file_says_what_it_is_for() -> None:
    files = [path for room in module_tables.ROOMS for path in (module_tables.ROOT / room).rglob("*.py")]
    silent = [str(path) for path in files if not module_tables.first_sentence(path)]
    assert len(files) > 100
    assert not silent


def test_every_decision_is_listed() -> None:
    listed = (DECISIONS / "README.md").read_text("utf-8")
    assert not [path.name for path in DECISIONS.glob("*.md") if path.name != "README.md" and path.name not in listed]


@pytest.mark.parametrize("page", EXPLAINED, ids=lambda page: page.stem)
def test_every_file_named_is_there(page: Path) -> None:
    assert not [path for path in _PATH.findall(page.read_text("utf-8")) if not _is_there(path)]


def _is_there(path: str) -> bool:
    return any((root / path).exists() for root in (ROOT, ROOT / "tests"))  # the promises name tests from there


@pytest.mark.parametrize(("page", "words"), [("ARCHITECTURE.md", 4500), ("docs/benchmarks.md", 5000)])
def test_long_pages_stay_readable(page: str, words: int) -> None:
    assert len((ROOT / page).read_text("utf-8").split()) <= words
