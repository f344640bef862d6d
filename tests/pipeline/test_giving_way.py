"""A job takes what is left over of its machine: those who serve there come first."""

import os
import platform
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


_SANDBOX = """
import ctypes, struct
calls = ((0x20, 0, 0, 0), (0x15, 0, 1, 144), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000))  # 144 is EPERM
filter_ = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *call) for call in calls))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(calls), ctypes.addressof(filter_)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
assert libc.prctl(22, 2, program, 0, 0) == 0  # seccomp
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls of the system have other numbers elsewhere")
def test_where_it_may_not_give_way_it_works_all_the_same() -> None:
    job = [sys.executable, "-P", "-c", _SANDBOX + _JOB, "archive", "--help"]
    told = subprocess.run(job, capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.splitlines()[-1].split() == ["0", str(min(os.nice(0) + 10, 19)), str(os.SCHED_OTHER)]
