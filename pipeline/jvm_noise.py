"""Passes on a JVM's stderr, but for the line that Spark's always writes at its start about a module of Java."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

_NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
_STDERR = 2
_PATIENCE = 5.0
"""Seconds to wait for the last output of a JVM that failed to start."""


@contextmanager
def kept_out() -> Generator[None, None, None]:
    """Passes on the stderr of a program that is started inside, without that line, for as long as the program lives."""
    reading, writing = os.pipe()
    stderr, mine = os.dup(_STDERR), os.dup(_STDERR)
    passing = threading.Thread(target=_pass_on, args=(reading, mine), name="tarry-jvm-stderr", daemon=True)
    os.dup2(writing, _STDERR)
    os.close(writing)
    passing.start()
    try:
        yield
    except BaseException:
        os.dup2(stderr, _STDERR)  # or the thread would wait for this process
        passing.join(_PATIENCE)
        raise
    finally:
        os.dup2(stderr, _STDERR)
        os.close(stderr)


def _pass_on(reading: int, stderr: int) -> None:
    """Passes on output until nobody writes any more, and at once, since progress is no whole line. Only a beginning of
    the noise waits."""
    held, found = b"", False
    while chunk := os.read(reading, 1 << 16):
        held += chunk
        if not found and _NOISE in held:
            held, found = held.replace(_NOISE, b"", 1), True
        waits = 0 if found else next(n for n in range(len(_NOISE), -1, -1) if held.endswith(_NOISE[:n]))
        _write(stderr, held[: len(held) - waits])
        held = held[len(held) - waits :]
    _write(stderr, held)
    os.close(reading)
    os.close(stderr)


def _write(stderr: int, text: bytes) -> None:
    while text:
        text = text[os.write(stderr, text) :]
