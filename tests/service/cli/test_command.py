"""`tarry` as it is installed, where the extra is missing, or only a part of it."""

import subprocess
import sys

import pytest

from tarry import __version__

_RUN = """
import sys
sys.modules[sys.argv.pop(1)] = None  # as where it is not installed
from tarry.service.cli.command import main
main()
"""


def ask(missing: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-c", _RUN, missing, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def run(missing: str, *arguments: str) -> tuple[int, str]:
    done = ask(missing, *arguments)
    return done.returncode, done.stderr


@pytest.mark.parametrize("missing", ["cyclopts", "structlog"])
def test_what_is_missing_names_the_extra(missing: str) -> None:
    """At once, or where a command first wants it."""
    told = f"the server and its commands are not installed ({missing} is missing): pip install 'tarry[server]'"
    assert run(missing, "serve") == (1, f"tarry: {told}\n")


def test_help_and_version_lack_nothing() -> None:
    told = "the server and its commands are not installed (cyclopts is missing): pip install 'tarry[server]'"
    for asked, answer in {
        "--version": __version__,
        "--help": f"tarry {__version__}, the client for Python alone: {told}",
        "-h": f"tarry {__version__}, the client for Python alone: {told}",
    }.items():
        done = ask("cyclopts", asked)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{answer}\n", "")


def test_the_pipeline_names_its_own() -> None:
    told = "the pipeline is not installed (cyclopts is missing): pip install 'tarry[spark]'"
    assert run("cyclopts", "pipeline", "audit") == (1, f"tarry pipeline: {told}\n")


@pytest.mark.slow
def test_a_fault_of_our_own_is_seen() -> None:
    code, told = run("tarry.service.cli.printing", "serve")
    assert code == 1
    assert "Traceback" in told
    code, told = run("tarry.service.serve", "serve")
    assert code == 1
    assert told.startswith("tarry: a fault of its own, ModuleNotFoundError: import of tarry.service.serve halted")


@pytest.mark.slow
def test_nothing_stands_between_where_all_is_there() -> None:
    assert run("nothing", "--version") == (0, "")
    assert run("nothing", "serve", "--nonsense")[0] == 2
