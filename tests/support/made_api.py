"""Makes `client/api.py` from `client/async_api.py`: the same without `async`, `await` and the `Async` of names.

    PYTHONPATH=.tree:tests .venv/bin/python -P -m support.made_api

`tests/client/test_made.py` holds the file against what this makes. It does what unasync does, in two lines, and lays
the lines out anew, which unasync does not.
"""

import re
import subprocess
import sys
from pathlib import Path

_CLIENT = Path(__file__).parents[2] / "client"
API = _CLIENT / "api.py"


def made() -> str:
    """The file as it should be."""
    text = (_CLIENT / "async_api.py").read_text("utf-8")
    text = re.sub(r"\b(async|await) ", "", text)
    text = re.sub(r"\b(Async|async_)(?=\w)", "", text)
    head = "# Made from async_api.py by tests/support/made_api.py. Change that file, and make this one again.\n"
    return _formatted(head + text)


def _formatted(text: str) -> str:
    for command in (["check", "--fix-only", "--select", "I", "-q"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(API), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    API.write_text(made(), "utf-8")
