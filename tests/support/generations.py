"""The program of before, from the repository's history."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEFORE = "7f8b15bd7cc9dd2151f1bbc93ae825b3fdbe4b02"
"""A commit whose servers on one database know of each other, and none of what came later: migrations up to 0006."""


def unpack_old_program(folder: Path) -> Path:
    """Makes of it a folder for PYTHONPATH. Skips the test where there is no history, as in an sdist."""
    git = shutil.which("git")
    if git is None or subprocess.run([git, "-C", ROOT, "cat-file", "-e", BEFORE], capture_output=True).returncode:
        pytest.skip(f"there is no history here, and so no {BEFORE[:7]}")
    package = folder / "tarry"
    package.mkdir()
    archive = subprocess.run([git, "-C", ROOT, "archive", BEFORE], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", package], input=archive, check=True)
    assert not list(package.glob("store/mysql/migrations/0007_*"))
    return folder
