"""What RQ's workers run: a line for each job, into a file of the process."""

import os
import time

FOLDER = "TARRY_BENCH_ARRIVALS"
"""The variable that names the folder of the files."""
WIDTH = 48
"""Bytes of a line."""

_files: dict[int, int] = {}


def handle(number: int, due: int, filler: str) -> None:
    """Notes when it came."""
    at = time.time_ns()
    pid = os.getpid()
    if pid not in _files:
        _files[pid] = os.open(f"{os.environ[FOLDER]}/{pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(_files[pid], f"{number} {due} {at}".ljust(WIDTH - 1).encode() + b"\n")
