"""A job takes what is left over of its machine: those who serve there come first."""

import os
import subprocess
import sys

_JOB = """
import os, sys
from tarry.pipeline.cli.app import main
sys.argv = ["tarry pipeline", "--version"]
try:
    main()
except SystemExit as end:
    print(end.code, os.nice(0))
"""


def test_a_job_is_nicer_than_who_started_it() -> None:
    told = subprocess.run([sys.executable, "-P", "-c", _JOB], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.splitlines()[-1].split() == ["0", str(min(os.nice(0) + 10, 19))]
