"""What a JVM writes to stderr is passed on, but for the line that it always begins with."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.spark_wanted import need_spark
from tarry.pipeline.jvm_noise import kept_out

_WRITES = r"""
import os, sys
for part in sys.argv[1:]:
    os.write(2, part.encode())
"""
NOISE = "WARNING: Using incubator modules: jdk.incubator.vector"


def _fail_to_start(parts: list[str]) -> None:
    with kept_out():  # of which all last words are waited for
        subprocess.run([sys.executable, "-c", _WRITES, *parts], check=True)
        raise LookupError


@pytest.mark.parametrize(
    ("parts", "passed"),
    [
        ([NOISE, "\n", "[Stage 0:>", "  (0 + 1) / 1]\r"], "[Stage 0:>  (0 + 1) / 1]\r"),
        (["setlocale: no\n" + NOISE + "\nOutOfMemoryError\n"], "setlocale: no\nOutOfMemoryError\n"),
        (["WARNING: Usin"], "WARNING: Usin"),
        (["WARNING: another\n"], "WARNING: another\n"),
        ([], ""),
    ],
)
def test_all_but_the_one_line_is_passed_on(capfd: pytest.CaptureFixture[str], parts: list[str], passed: str) -> None:
    with pytest.raises(LookupError):
        _fail_to_start(parts)
    sys.stderr.write("and Python's own\n")
    sys.stderr.flush()
    assert capfd.readouterr().err == passed + "and Python's own\n"


@pytest.mark.long
def test_a_job_says_nothing_of_its_own(tmp_path: Path) -> None:
    need_spark()
    script = "from tarry.pipeline.session import open_session; open_session('tests', 'local[1]').range(3).count()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stderr == ""
