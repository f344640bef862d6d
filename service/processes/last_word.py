"""The last word: a process that waits for the supervisor's end, and logs one that the supervisor did not log itself.

The kernel kills those who serve together with it, so that none of them could say why. This one holds no connection and
no address, and ends at once.
"""

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

import structlog

log = structlog.get_logger()


class LastWord:
    """Begun by the supervisor, before there are others, with the signals blocked that it takes: a terminal's are for
    all of the group."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self.pipe: int | None = None
        """What ends with the supervisor, which nobody else may keep open; None where there is no room for a process."""
        supervisor = os.getpid()
        reads, writes = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:  # it serves all the same
            log.warning("no_last_word", error=str(error))
            os.close(reads)
            os.close(writes)
            return
        if pid:
            os.close(reads)
            self.pipe = writes
            return
        try:
            os.close(writes)
            for sock in sockets:
                sock.close()
            if not os.read(reads, 1):
                log.error("supervisor_gone", pid=supervisor, because="it was killed, and its processes with it")
                sys.stdout.flush()
        finally:
            os._exit(0)

    def spare(self) -> None:
        """The supervisor ends by itself, and has said so."""
        if self.pipe is not None:
            with suppress(BrokenPipeError):  # somebody has killed it
                os.write(self.pipe, b".")
            os.close(self.pipe)
            self.pipe = None
