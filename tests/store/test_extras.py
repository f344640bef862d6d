"""The sentence for whoever lacks an extra: for what the extra brings, and for nothing else."""

import sys
import tomllib
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tarry.store.extras import EXTRAS, lacking

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]


def required(extra: str) -> set[str]:
    """The distributions of an extra, and of those that it includes."""
    names: set[str] = set()
    for line in PROJECT["optional-dependencies"][extra]:
        needed = Requirement(line)
        names |= {canonicalize_name(needed.name)}.union(*map(required, needed.extras if needed.name == "tarry" else ()))
    return names - {"tarry"}


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_what_an_extra_brings(extra: str) -> None:
    """All of it is told, by the names under which it is imported."""
    assert {canonicalize_name(name) for name in EXTRAS[extra].values()} == required(extra)
    known = packages_distributions()
    for module, name in EXTRAS[extra].items():
        assert canonicalize_name(name) in map(canonicalize_name, known[module]), module


def imported(name: str) -> ModuleNotFoundError:
    with pytest.raises(ModuleNotFoundError) as raised:
        import_module(name)
    return raised.value


def test_what_is_missing_of_an_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    error = imported("cyclopts")
    assert lacking("server", error) == (
        "the server and its commands are not installed (cyclopts is missing): pip install 'tarry[server]'"
    )
    assert lacking("spark", error) == "the pipeline is not installed (cyclopts is missing): pip install 'tarry[spark]'"


@pytest.mark.parametrize("module", ["tarry.service.nowhere", "nowhere", "starlette.nowhere"])
def test_any_other_is_a_fault(module: str) -> None:
    assert lacking("server", imported(module)) is None


def test_the_client_lacks_nothing_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert lacking("server", imported("pyspark")) is None
    assert lacking("server", ImportError("cannot import name", name="cyclopts")) is None
