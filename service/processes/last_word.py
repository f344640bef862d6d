"""The last word: a process that waits for the supervisor's end, and logs it if the supervisor did not log it itself.

If the supervisor is killed, the kernel kills the serving processes with it, so none of them could log why. This process
holds no connection and no address, and ends at once afterwards.
"""

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

import structlog

log = structlog.get_logger()


class LastWord:
    """Forked by the supervisor before the other processes, with the supervisor's signals blocked: a terminal sends its
    signals to the whole process group."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self.pipe: int | None = None
        """The pipe that closes when the supervisor ends, so no other process may keep it open; None if the fork
        failed."""
        supervisor = os.getpid()
        reads, writes = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:  # the server runs all the same
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
        """Ends the process without a log line: the supervisor ends regularly, and has logged that."""
        if self.pipe is not None:
            with suppress(BrokenPipeError):  # the process was killed
                os.write(self.pipe, b".")
            os.close(self.pipe)
            self.pipe = None
