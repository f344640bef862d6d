"""Counts how many rows the tasks have written so far, as they report it to the driver, to be shown.

They report it in datagrams, which nobody waits for: one that is lost, or that a network does not let through, is
missing on the screen and nowhere else. This runs in Spark's workers too, and uses nothing of Spark.
"""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from attrs import define, field

Address = tuple[str, int]
"""Where the driver listens, host and port."""


@define
class Rows:
    """The rows that were reported so far."""

    address: Address | None = None
    """None: nobody listens."""
    count: int = field(default=0, init=False)


def tell(address: Address | None, rows: int) -> None:
    """Reports so many more rows."""
    if address is not None:
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.setblocking(False)
            line.sendto(rows.to_bytes(8), address)


@contextmanager
def listening(host: str) -> Generator[Rows]:
    """Counts while the `with` runs, on a free port of this host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        try:
            line.bind((host, 0))
        except OSError:  # a name that is not of this machine: rows are not shown
            yield Rows()
            return
        rows = Rows((host, line.getsockname()[1]))
        listener = threading.Thread(target=_listen, args=(line, rows), daemon=True)
        listener.start()
        try:
            yield rows
        finally:
            line.sendto(b"", line.getsockname())
            listener.join()


def _listen(line: socket.socket, rows: Rows) -> None:
    with suppress(OSError):
        while sent := line.recv(64):
            rows.count += int.from_bytes(sent[:8])
