"""What a process knows of itself and the others: orders from its supervisor, and the metrics of all.

Orders are numbers of signals, through a pipe: a terminal and systemd send theirs to supervisor and processes alike,
and nobody could tell a second one from the first, handed on. When the pipe ends, so has the supervisor, and the process
ends as if it were killed with it; on Linux the kernel sees to that already, even where the loop stands still.

Whoever is asked for metrics asks the others: each has a datagram socket, to which one sends a socket for the answer. So
there is no file and no address that others could see.
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
"""Seconds for an answer, and for it to be taken."""
_LENGTH = 8
"""Bytes before an answer, which say how long it is: it may be cut off."""

log = structlog.get_logger()


@define(eq=False)
class Asking:
    """Where a process is asked: others write to `to`, it reads from `at`."""

    to: socket.socket
    at: socket.socket


@define(eq=False)
class Process:
    """One of several, counted from 1."""

    number: int
    sockets: Sequence[socket.socket]
    """To take connections from, which all share."""
    share: Share
    _orders: int
    """The descriptor from which orders are read."""
    _asking: Sequence[Asking]
    """Of each process, in order."""
    rest: float | None
    """Seconds between two signs of life; None where nobody watches for them."""
    _loaded: bool = field(default=False, init=False)

    def begin(self) -> None:
        """It can serve: connections are for it, too."""
        self.share.board.begin(self.number)
        if self._loaded:
            self.share.board.load(self.number)

    def end(self) -> None:
        """It takes none any more."""
        self.share.board.end(self.number)

    def ready(self) -> None:
        """Its timers are in memory; perhaps before it can serve, where little waits."""
        self._loaded = True
        self.share.board.load(self.number)

    def stopping(self) -> None:
        """It finishes what is under way: the supervisor has told of that."""

    async def run(self) -> None:
        """Signs of life, until cancelled: a loop that hangs gives none."""
        while self.rest is not None:
            self.share.board.live(self.number, time.monotonic_ns())
            await trio.sleep(self.rest)

    async def orders(self) -> AsyncGenerator[int, None]:
        """Signals that the supervisor hands on. When it is gone, the process ends here."""
        async with trio.lowlevel.FdStream(self._orders) as pipe:
            while said := await pipe.receive_some(1):
                yield said[0]
        log.error("supervisor_gone")
        os.kill(os.getpid(), signal.SIGKILL)

    async def answer(self, text: Callable[[], bytes]) -> None:
        """Tells the others the metrics of this one, for ever."""
        inbox = trio.socket.from_stdlib_socket(self._asking[self.number - 1].at)
        async with trio.open_nursery() as nursery:
            while True:
                _, ancillary, _, _ = await inbox.recvmsg(1, socket.CMSG_SPACE(array.array("i").itemsize))
                for _, _, data in ancillary:
                    (descriptor,) = array.array("i", data)
                    nursery.start_soon(_tell, socket.socket(fileno=descriptor), text())

    async def exposition(self, text: Callable[[], bytes]) -> bytes:
        """The metrics of all, those of this one included. Who does not answer is left out, and told to be away."""
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
            except OSError:  # it has not answered so many others that there is no room for one more
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
