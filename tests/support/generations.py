"""The program of before, from the repository's history."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAST_ALONE = "b611676c7098f56b7b179b8f52ade56252b34310"
"""The last commit before servers on one database knew of each other: migrations up to 0005."""


def unpack_old_program(folder: Path) -> Path:
    """Makes of it a folder for PYTHONPATH. Skips the test where there is no history, as in an sdist."""
    git = shutil.which("git")
    if git is None or subprocess.run([git, "-C", ROOT, "cat-file", "-e", LAST_ALONE], capture_output=True).returncode:
        pytest.skip(f"there is no history here, and so no {LAST_ALONE[:7]}")
    package = folder / "tarry"
    package.mkdir()
    archive = subprocess.run([git, "-C", ROOT, "archive", LAST_ALONE], capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", package], input=archive, check=True)
    assert not (package / "service/nodes.py").exists()
    return folder
