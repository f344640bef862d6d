"""The archive that goes on: every few seconds it archives what has come, from the lake's own positions on."""

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from .archive import Archiver

_TIMED_EVERY = 300.0
"""Seconds between looks for dead letters, cancelled messages and fires, which go by time."""


def watch(archiver: Archiver, every: int, over: threading.Event) -> None:
    """Archives until `over` is set, looking each `every` seconds; ends the step that it has begun."""
    timed_at = time.monotonic()
    while not over.is_set():
        archiver.catch_up(over)
        if not over.is_set() and time.monotonic() >= timed_at:
            archiver.step_timed()
            archiver.erase()
            timed_at = time.monotonic() + _TIMED_EVERY
        over.wait(every)


@contextmanager
def until_told(over: threading.Event) -> Generator[None, None, None]:
    """SIGTERM and SIGINT set the event, inside of it."""

    def end(_number: int, _frame: Any) -> None:
        over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
