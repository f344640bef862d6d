"""`completion`, read by a real bash, which completes by it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.command_line import CommandLine


@pytest.fixture
def script(tmp_path: Path, tarry: CommandLine) -> Path:
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    script = tmp_path / "completion"
    script.write_text(tarry("completion", "bash").out)
    return script


def complete(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    program = (
        'set -u; source "$1"; shift; complete -p tarry >/dev/null || exit; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
    )
    program += '_tarry; printf "%s\\n" "${COMPREPLY[@]}"'
    command = ["bash", "--norc", "-c", program, "bash", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_bash_completes_commands_flags_and_values(script: Path) -> None:
    assert complete(script, "tarry", "re") == ["reschedule", "redrive"]
    assert complete(script, "tarry", "dead", "") == ["list", "purge"]
    assert complete(script, "tarry", "find", "orders", "--st") == ["--state"]
    assert complete(script, "tarry", "find", "orders", "--state", "pa") == ["parked"]
    assert complete(script, "tarry", "topics", "--sort", "") == ["name", "rate", "backlog"]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_theirs(shell: str, tarry: CommandLine) -> None:
    assert "reschedule" in tarry("completion", shell).out


def test_an_unknown_shell(tarry: CommandLine) -> None:
    tarry("completion", "tcsh", code=2)
