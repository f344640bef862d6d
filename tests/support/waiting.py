"""Waiting for what nobody tells of: it is looked at until it is so."""

import os
import threading
import time
from collections.abc import Callable


def paced(seconds: float) -> float:
    """So many on a machine at rest, more where others are at work: what a test prepares is ready by then."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(done: Callable[[], bool], seconds: float = 30) -> None:
    """Fails when it is not so by then."""
    pause, began = threading.Event(), time.monotonic()
    while not done():
        waited = time.monotonic() - began
        assert waited < seconds
        # What takes long is looked at rarely: each look keeps a server from its work.
        pause.wait(min(max(0.01, (waited - 1) / 20), 0.2))
