"""Polls for conditions that give no signal."""

import os
import threading
import time
from collections.abc import Callable

import trio


def paced(seconds: float) -> float:
    """`seconds` on an idle machine, more on a busy one: the time by which a test's preparations are done."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(done: Callable[[], bool], seconds: float = 30) -> None:
    """Polls until it is done; fails after `seconds`."""
    pause, began = threading.Event(), time.monotonic()
    while not done():
        waited = time.monotonic() - began
        assert waited < seconds
        # The longer it takes, the rarer the polls, since each one keeps a server from its work.
        pause.wait(min(max(0.01, (waited - 1) / 20), 0.2))


async def until(done: Callable[[], object], seconds: float = 30) -> None:
    """Polls until it is done, in a task of Trio; fails after `seconds`."""
    with trio.fail_after(seconds):
        while not done():
            await trio.sleep(0.001)
