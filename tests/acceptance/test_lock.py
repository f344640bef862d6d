"""What Tarry is installed with: bounds that leave users their own versions, and a lock that CI and images install."""

import os
import re
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PIN = re.compile(r'(?P<name>[a-z0-9-]+)==(?P<version>[0-9a-z.+]+)( ; python_version == "(?P<python>3\.[0-9]+)")?')
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


def pins() -> dict[str, str]:
    """Versions by name, for the Python that runs."""
    lines = (ROOT / ".make" / "lock.txt").read_text().splitlines()
    found = [match for line in lines if not line.startswith("#") and (match := PIN.fullmatch(line))]
    return {match["name"]: match["version"] for match in found if match["python"] in (None, THIS)}


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for lines in lists for line in lines if not line.startswith("tarry[")]


def closure() -> set[str]:
    """What is installed for tarry[dev], by way of whatever."""
    seen: set[tuple[str, str]] = set()
    waiting = [("tarry", "dev")]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for line in distribution(name).requires or []:
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(needed.name), wanted) for wanted in ("", *needed.extras)]
    return {name for name, _ in seen} - {"tarry"}


def test_the_lock_holds_pins_and_nothing_else() -> None:
    """No index, no hash, no path."""
    lines = (ROOT / ".make" / "lock.txt").read_text().splitlines()
    assert [line for line in lines[1:] if not PIN.fullmatch(line)] == []


def test_the_lock_fits_the_project() -> None:
    locked = pins()
    for needed in requirements():
        assert needed.specifier.contains(locked[canonicalize_name(needed.name)]), f"{needed}: renew it with .make/lock"


def test_the_lock_is_whole() -> None:
    assert sorted(closure() - pins().keys()) == [], "renew it with .make/lock"


@pytest.mark.skipif("CI" not in os.environ, reason="at home what is newest is tried")
def test_what_is_tested_is_what_is_locked() -> None:
    locked = pins()
    assert {name: distribution(name).version for name in closure()} == {name: locked[name] for name in closure()}


@pytest.mark.parametrize(
    ("name", "version"),
    [("anyio", "4.4.0"), ("attrs", "24.1.0"), ("httpx", "0.27.0"), ("starlette", "0.38.6"), ("starlette", "0.46.2")],
)
def test_it_fits_beside_fastapi_0_115(name: str, version: str) -> None:
    """And what goes with it, in applications that pin all of it. The tests of the rooms pass with these."""
    (needed,) = [needed for needed in requirements() if needed.name == name]
    assert needed.specifier.contains(version)
