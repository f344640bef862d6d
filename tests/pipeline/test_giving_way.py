"""A job takes what is left over of its machine: those who serve there come first."""

import os
import subprocess
import sys

import pytest

_JOB = """
import os, sys
from tarry.pipeline.cli.app import main
sys.argv[0] = "tarry pipeline"
try:
    main()
except SystemExit as end:
    print(end.code, os.nice(0), os.sched_getscheduler(0))
"""


@pytest.mark.parametrize(
    ("command", "policy"),
    [(["--version"], os.SCHED_OTHER), (["report", "--help"], os.SCHED_OTHER), (["archive", "--help"], os.SCHED_IDLE)],
)
def test_a_job_is_nicer_than_who_started_it_and_the_archive_waits_for_all(command: list[str], policy: int) -> None:
    job = [sys.executable, "-P", "-c", _JOB, *command]
    told = subprocess.run(job, capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.splitlines()[-1].split() == ["0", str(min(os.nice(0) + 10, 19)), str(policy)]
