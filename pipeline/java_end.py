"""Makes sure that Spark's Java ends when its driver ends.

PySpark's Java reads its stdin, and exits when that ends; but in an orderly way, which may wait for an answer of the
driver, and a Java that is stopped or starved does not exit at all. So a small process of its own waits for the driver's
end: it holds one end of a pipe, and whatever ends the driver closes the other. It gives Java some seconds, and then
kills it. Run as a script this file is that process; it imports only the standard library.
"""

import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

_PATIENCE_MS = 5_000
"""Milliseconds for Java to exit by itself."""
_watched: dict[int, int] = {}
"""Our end of the pipe, by the process id of a Java: it is open for as long as this process lives."""


def watch(java: int) -> None:
    """Makes sure that this Java does not outlive this process. Does nothing on a system without pidfds, where another
    process might have got its id."""
    if java in _watched or not hasattr(os, "pidfd_open") or not sys.executable:
        return
    reading, writing = os.pipe()
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", str(Path(__file__).absolute()), str(java)],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                # A program that waits for the end of our output must not wait for this process.
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
        )
    finally:
        os.close(reading)
    _watched[java] = writing


def _wait_and_kill(java: int) -> None:
    try:
        process = os.pidfd_open(java)
    except OSError:
        return
    waiting = select.poll()
    waiting.register(0, select.POLLIN | select.POLLHUP)
    waiting.register(process, select.POLLIN)
    if any(number == process for number, _ in waiting.poll()):
        return
    waiting.unregister(0)
    if not waiting.poll(_PATIENCE_MS):
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)


if __name__ == "__main__":
    _wait_and_kill(int(sys.argv[1]))
