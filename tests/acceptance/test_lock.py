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
ENTRY = re.compile(
    r'(?P<name>[a-z0-9-]+)==(?P<version>[0-9a-z.+]+)( ; python_version == "(?P<python>3\.[0-9]+)")?'
    r"( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
)
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"
LOCKS = ("lock.txt", "lock-server.txt")


def text_of(lock: str) -> str:
    """Without its first line."""
    return (ROOT / ".make" / lock).read_text().partition("\n")[2]


def pins(lock: str = "lock.txt") -> dict[str, str]:
    """Versions by name, for the Python that runs."""
    found = ENTRY.finditer(text_of(lock))
    return {match["name"]: match["version"] for match in found if match["python"] in (None, THIS)}


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for lines in lists for line in lines if not line.startswith("tarry[")]


def closure(*extras: str) -> set[str]:
    """What is installed for tarry with these extras, by way of whatever."""
    seen: set[tuple[str, str]] = set()
    waiting = [("tarry", extra) for extra in extras]
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


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_pins_with_hashes_and_nothing_else(lock: str) -> None:
    """No index, no path, and no pin without a hash: pip would take any file for it."""
    assert ENTRY.sub("", text_of(lock)) == ""


def test_the_lock_fits_the_project() -> None:
    locked = pins()
    for needed in requirements():
        assert needed.specifier.contains(locked[canonicalize_name(needed.name)]), f"{needed}: renew it with .make/lock"


def test_the_lock_is_whole() -> None:
    assert sorted(closure("dev") - pins().keys()) == [], "renew it with .make/lock"


def test_that_of_servers_is_a_part_of_it() -> None:
    """What builds the project is in both: pip is to fetch nothing else for it."""
    assert pins("lock-server.txt").items() <= pins().items()
    assert pins("lock-server.txt").keys() == closure("server", "redis") | {"setuptools"}, "renew it with .make/lock"
    needed = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"])
    for one in needed:
        assert one.specifier.contains(pins("lock-server.txt")[canonicalize_name(one.name)])


@pytest.mark.parametrize("file", [".make/venv", "docs/operations/Containerfile"])
def test_what_installs_by_a_lock_holds_files_against_hashes(file: str) -> None:
    """The checkout itself has none; it is put in by itself, and without what it needs."""
    text = (ROOT / file).read_text("utf-8").replace("\\\n", " ")
    assert "--constraint" not in text
    assert re.search(r"install [^\n]*--require-hashes --requirement", text)
    assert re.search(r"install [^\n]*--no-deps --no-build-isolation", text)


@pytest.mark.skipif("CI" not in os.environ, reason="at home what is newest is tried")
def test_what_is_tested_is_what_is_locked() -> None:
    locked, all_ = pins(), closure("dev")
    assert {name: distribution(name).version for name in all_} == {name: locked[name] for name in all_}


@pytest.mark.parametrize(
    ("name", "version"),
    [("anyio", "4.4.0"), ("attrs", "24.1.0"), ("httpx", "0.27.0"), ("starlette", "0.38.6"), ("starlette", "0.46.2")],
)
def test_it_fits_beside_fastapi_0_115(name: str, version: str) -> None:
    """And what goes with it, in applications that pin all of it. The tests of the rooms pass with these."""
    (needed,) = [needed for needed in requirements() if needed.name == name]
    assert needed.specifier.contains(version)
