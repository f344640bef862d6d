"""Waiting for what nobody tells of: it is looked at until it is so."""

import threading
import time
from collections.abc import Callable


def wait_until(done: Callable[[], bool], seconds: float = 30) -> None:
    """Fails when it is not so by then."""
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        pause.wait(0.01)
