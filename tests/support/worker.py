"""A program that consumes messages and prints what its handler does, one line of JSON for each event, at once.

    python tests/support/worker.py URL TOPIC GROUP NAME SECONDS

It uses `Tarry.run` with four workers; handling a message takes SECONDS. `at` is the time of CLOCK_MONOTONIC, which all
processes of a machine share. Warnings of the client are printed, too.
"""

import json
import logging
import os
import sys
import threading
import time
from typing import Any

from tarry.client import Delivery, Tarry

_WORKERS = 4


def tell(what: str, **facts: Any) -> None:
    """Prints one line in one write."""
    line = json.dumps({"what": what, "at": time.monotonic(), **facts}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


class Warnings(logging.Handler):
    """Prints each warning."""

    def emit(self, record: logging.LogRecord) -> None:
        tell("warning", text=record.getMessage())


def main(url: str, topic: str, group: str, name: str, seconds: str) -> None:
    """Consumes until SIGTERM."""
    work = threading.Event()

    def handle(message: Delivery) -> None:
        facts = {"id": message.id, "key": message.ordering_key, "number": message.body, "attempt": message.attempt}
        tell("start", **facts)
        work.wait(float(seconds))
        tell("end", **facts)

    logging.getLogger("tarry.client").addHandler(Warnings(logging.WARNING))
    with Tarry(url) as tarry:
        tarry.run(topic, group, handle, _WORKERS, pass_message=True, client=name, wait="500ms", max=8, drain="1s")
    tell("left")


if __name__ == "__main__":
    main(*sys.argv[1:])
