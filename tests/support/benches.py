"""Runs a program of the bench to its end."""

import os
import subprocess
import sys

from tarry.service.demo.server_process import python_path


def bench(module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", f"tarry.bench.{module}", *arguments],
        env=os.environ | python_path(),
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
