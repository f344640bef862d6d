"""Makes docs/explanation/modules.md from the first sentence of each file's docstring.

PYTHONPATH=.tree:tests .venv/bin/python -P -m support.module_tables
"""

import ast
import re
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "modules.md"
ROOMS = ("wheel", "store", "service", "client", "testing", "pipeline", "bench")
_SENTENCE_END = re.compile(r"(?<!\.\.)(?<=[.?!])\s+(?=\W*[A-Z])")
_TOP = """# What each file is for

Made from the first sentence of each file by `tests/support/module_tables.py`; a test fails when the two differ. \
[How Tarry is built](../../ARCHITECTURE.md) says how the rooms stand on each other.
"""


def first_sentence(path: Path) -> str:
    """The first sentence of a file's docstring, in one line; empty if there is none."""
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return _SENTENCE_END.split(" ".join(told.split("\n\n")[0].split()))[0]


def made() -> str:
    """The page: a part for each package, with a line for each file."""
    parts = [_TOP]
    for room in ROOMS:
        files = sorted((ROOT / room).rglob("*.py"), key=lambda path: (path.parent, path.name))
        for folder, some in groupby(files, key=lambda path: path.parent):
            told = {path.stem: first_sentence(path) for path in some}
            parts.append(f"{'##' if folder.name == room else '###'} {folder.relative_to(ROOT).as_posix()}/\n")
            if package := told.pop("__init__", ""):
                parts.append(f"{package}\n")
            if told:
                rows = [f"| `{name}` | {_cell(text)} |" for name, text in told.items()]
                parts.append("\n".join(["| file | |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(made(), "utf-8")
