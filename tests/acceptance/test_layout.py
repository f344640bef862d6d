"""The root is the package, whatever the checkout is called, and tools that read its files find their way."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.language_server import LanguageServer

_ROOT = Path(__file__).parents[2]


def _checkout(folder: Path) -> Path:
    """Enough of one to ask about the wheel: its room, its tests and its benchmark."""
    folder.mkdir()
    for name in ("wheel", "bench", "tests/wheel"):
        shutil.copytree(_ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(_ROOT / ".tree", folder / ".tree", symlinks=True)
    for name in ("__init__.py", "py.typed", "pyproject.toml"):
        shutil.copy(_ROOT / name, folder / name)
    return folder


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )


def test_references_lead_from_a_room_to_its_tests_and_back(tmp_path: Path) -> None:
    with LanguageServer(_checkout(tmp_path / "tarry")) as server:
        from_the_room = server.references("wheel/timing_wheel.py", "class TimingWheel")
        from_a_test = server.references("tests/wheel/test_timing_wheel.py", "import TimingWheel")
        from_the_bench = server.references("bench/wheel.py", "import TimingWheel")
    assert {"wheel/timing_wheel.py", "bench/wheel.py", "tests/wheel/test_timing_wheel.py"} <= from_the_room.keys()
    assert from_a_test == from_the_room
    assert from_the_bench == from_the_room


def test_another_checkout_beside_it_is_not_taken_for_this_one(tmp_path: Path) -> None:
    _checkout(tmp_path / "tarry")
    with LanguageServer(_checkout(tmp_path / "tarry-main")) as server:
        found = server.references("tests/wheel/test_timing_wheel.py", "import TimingWheel")
    assert ".tree/tarry/wheel/timing_wheel.py" in found


@pytest.mark.parametrize("name", ["tarry-main", "wheel"])
def test_ruff_does_not_judge_the_name_of_the_checkout(tmp_path: Path, name: str) -> None:
    checked = _run(_checkout(tmp_path / name), "ruff", "check", "--no-cache", ".")
    assert checked.returncode == 0, checked.stdout


def test_mypy_on_the_root_tells_what_to_type_instead(tmp_path: Path) -> None:
    checked = _run(_ROOT, "mypy", "--cache-dir", str(tmp_path), ".")
    assert checked.returncode == 2
    assert "use `make check`\n" in checked.stdout
    assert len(checked.stdout.splitlines()) < 8
