"""Who comes in: connections are taken as fast as they come, and no more of them than there is room for.

trio's own server takes one in a round of the event loop. Under load that is a few a second, the kernel's line runs
over, and clients hear nothing for long. Whoever is one too many hears 503 and is let go; when there is no room even for
that, he waits outside.
"""

import os
import resource
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import structlog
import trio
from attrs import define, field

from ..problems import KINDS, Problem
from .heads import refusal

MOST = 20_000
"""Connections, where the system allows for so many."""
_RESERVE = 200
"""Descriptors for all else: the store, the log, those who are refused."""
_REFUSING = 64
"""Requests that are answered at once that there is no room."""
_AT_ONCE = 64
"""Taken in a round of the event loop at most."""
_NO_DESCRIPTOR = 0.1
"""Seconds of rest when there is no room for a refusal."""
_LEAVING = 1.0
"""Seconds in which a refused client may take its answer, and shake hands before it where TLS is spoken."""
_HANDSHAKES = 20
"""With refused clients, a second: a few hundredths of a processor. More of them hear nothing."""

log = structlog.get_logger()

Serve = Callable[[trio.SocketStream], Awaitable[None]]


class Sharing(Protocol):
    """Others who take from the same listener."""

    def note(self, connections: int) -> None:
        """So many are open here."""
        ...

    def rest(self) -> float:
        """Seconds to leave who knocks now to others: 0 when he is to be let in here."""
        ...


class Alone:
    """There is nobody else."""

    def note(self, connections: int) -> None:
        """Nobody asks."""

    def rest(self) -> float:
        """None."""
        return 0


def room() -> int:
    """For how many connections there is room; takes as many descriptors as the system allows this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + _RESERVE
    allowed = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            soft = allowed
    if soft != resource.RLIM_INFINITY:
        allowed = min(allowed, soft)
    return max(1, allowed - _RESERVE)


def _refusal() -> bytes:
    detail = f"{KINDS['overloaded'][1]}: too many connections"
    return refusal(Problem("overloaded", detail, executed=False, headers={"Retry-After": "1"}))


@define(eq=False)
class Entrance:
    """`take` takes those who come to a listener, for ever, and gives each to `serve` in a task of its own."""

    most: int
    seal: Callable[[trio.SocketStream], trio.abc.SendStream] | None = None
    """Where TLS is spoken: what is sent goes behind a handshake, which comes about with it."""
    sharing: Sharing = field(factory=Alone)
    inside: int = field(default=0, init=False)
    _second: int = field(default=0, init=False)
    """In which the last handshake with a refused client began."""
    _handshakes: int = field(default=0, init=False)
    """With refused clients, in that second."""
    _leaving: int = field(default=0, init=False)
    """Refused, and not gone yet."""
    _short: bool = field(default=False, init=False)
    """The system has no more descriptors, or no memory."""
    _refusal: bytes = field(factory=_refusal, init=False)

    async def take(self, listener: trio.SocketListener, tasks: trio.Nursery, serve: Serve) -> None:
        """Closes the listener at its end."""
        # trio's sockets have no accept that does not wait; the copy of the descriptor has.
        async with listener:
            with socket.socket(fileno=os.dup(listener.socket.fileno())) as line:
                while True:
                    await trio.lowlevel.wait_readable(line)
                    if rest := self.sharing.rest():
                        await trio.sleep(rest)
                        continue
                    for _ in range(_AT_ONCE):
                        if not await self._take_one(line, tasks, serve) or self.sharing.rest():
                            break

    async def _take_one(self, line: socket.socket, tasks: trio.Nursery, serve: Serve) -> bool:
        """False when nobody waits."""
        if self.inside >= self.most and self._leaving >= _REFUSING:
            await trio.sleep(_NO_DESCRIPTOR)
            return False
        try:
            client, _ = line.accept()
        except BlockingIOError:
            return False
        except ConnectionError:
            return True  # gone before it was taken
        except OSError as error:  # no descriptors, no memory
            if not self._short:
                log.error("cannot_accept", error=str(error), connections=self.inside)
            self._short = True
            await trio.sleep(_NO_DESCRIPTOR)
            return False
        self._short = False
        client.setblocking(False)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(client))
        if self.inside < self.most:
            self._count(1)
            tasks.start_soon(self._serve, serve, stream)
        else:
            self._leaving += 1
            tasks.start_soon(self._refuse, stream)
        return True

    async def _serve(self, serve: Serve, stream: trio.SocketStream) -> None:
        try:
            await serve(stream)
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        self.inside += more
        self.sharing.note(self.inside)

    async def _refuse(self, stream: trio.SocketStream) -> None:
        try:
            with trio.move_on_after(_LEAVING), suppress(trio.BrokenResourceError):
                if self.seal is None:
                    await stream.send_all(self._refusal)
                elif self._may_shake_hands():
                    await self.seal(stream).send_all(self._refusal)
                await stream.send_eof()
                while await stream.receive_some(1 << 16):
                    pass  # a close at once would take the answer away
        finally:
            self._leaving -= 1
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    def _may_shake_hands(self) -> bool:
        second = int(trio.current_time())
        if second != self._second:
            self._second, self._handshakes = second, 0
        self._handshakes += 1
        return self._handshakes <= _HANDSHAKES
