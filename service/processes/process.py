"""Connects a process to its supervisor and to the other processes: receives orders, and collects the metrics of all.

Orders are numbers of signals, sent through a pipe. A terminal and systemd send signals to supervisor and processes
alike, so a process could not tell a second signal from the first, passed on. When the pipe closes, the supervisor has
ended, and the process ends as if it were killed with it; on Linux the kernel kills it already, even if its loop hangs.

The process that is asked for metrics asks the others: each has a datagram socket, to which a socket for the answer is
sent. So there is no file and no address that others could see.
"""

import array
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator, Callable, Sequence

import structlog
import trio
from attrs import define, field

from .board import Share
from .exposition import merge

_PATIENCE = 2.0
"""Seconds to wait for an answer, and for an answer to be taken."""
_LENGTH = 8
"""Bytes before an answer that hold its length, since it may be cut off."""

log = structlog.get_logger()


@define(eq=False)
class Asking:
    """The sockets by which a process is asked: others write to `to`, it reads from `at`."""

    to: socket.socket
    at: socket.socket


@define(eq=False)
class Process:
    """One of several processes, numbered from 1."""

    number: int
    sockets: Sequence[socket.socket]
    """The listening sockets, which all processes share."""
    share: Share
    _orders: int
    """The descriptor from which orders are read."""
    _asking: Sequence[Asking]
    """The sockets of each process, in order of their numbers."""
    rest: float | None
    """Seconds between two signs of life; None if nobody watches for them."""
    _loaded: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Notes that it can serve: it takes connections from now on."""
        self.share.board.begin(self.number)
        if self._loaded:
            self.share.board.load(self.number)

    def end(self) -> None:
        self.share.board.end(self.number)

    def ready(self) -> None:
        """Notes that its timers are loaded; with few timers perhaps before it can serve."""
        self._loaded = True
        self.share.board.load(self.number)

    def stopping(self) -> None:
        """Does nothing: the supervisor has told systemd already."""

    async def run(self) -> None:
        """Gives signs of life until cancelled: a hung loop gives none."""
        while self.rest is not None:
            self.share.board.live(self.number, time.monotonic_ns())
            await trio.sleep(self.rest)

    async def orders(self) -> AsyncGenerator[int, None]:
        """The signals that the supervisor passes on. When the supervisor is gone, this kills the process."""
        async with trio.lowlevel.FdStream(self._orders) as pipe:
            while said := await pipe.receive_some(1):
                yield said[0]
        log.error("supervisor_gone")
        os.kill(os.getpid(), signal.SIGKILL)

    async def answer(self, text: Callable[[], bytes]) -> None:
        """Answers the other processes with the metrics of this one, for ever."""
        inbox = trio.socket.from_stdlib_socket(self._asking[self.number - 1].at)
        async with trio.open_nursery() as nursery:
            while True:
                _, ancillary, _, _ = await inbox.recvmsg(1, socket.CMSG_SPACE(array.array("i").itemsize))
                for _, _, data in ancillary:
                    (descriptor,) = array.array("i", data)
                    nursery.start_soon(_tell, socket.socket(fileno=descriptor), text())

    async def exposition(self, text: Callable[[], bytes]) -> bytes:
        """The metrics of all processes, including this one. One that does not answer is left out, and reported as not
        up."""
        texts: dict[int, str | None] = {self.number: text().decode()}

        async def ask(number: int) -> None:
            texts[number] = await self._ask(number)

        async with trio.open_nursery() as nursery:
            for number in range(1, len(self._asking) + 1):
                if number != self.number:
                    nursery.start_soon(ask, number)
        return merge(texts).encode()

    async def _ask(self, number: int) -> str | None:
        if number not in self.share.board.others(self.number):
            return None
        mine, theirs = socket.socketpair()
        with theirs, trio.SocketStream(trio.socket.from_stdlib_socket(mine)).socket as sock:
            try:
                socket.send_fds(self._asking[number - 1].to, [b"?"], [theirs.fileno()])
            except OSError:  # its queue is full of unanswered requests
                return None
            theirs.close()
            answer = bytearray()
            with trio.move_on_after(_PATIENCE):
                while piece := await sock.recv(1 << 16):
                    answer += piece
        whole = int.from_bytes(answer[:_LENGTH], "big") == len(answer) - _LENGTH
        return answer[_LENGTH:].decode() if whole else None


async def _tell(sock: socket.socket, text: bytes) -> None:
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    async with stream:
        with trio.move_on_after(_PATIENCE):
            try:
                await stream.send_all(len(text).to_bytes(_LENGTH, "big") + text)
            except trio.BrokenResourceError:
                log.debug("asker_gone")
