"""Accepts connections as fast as they come, and no more of them than there is room for.

trio's own server accepts one in each round of the event loop. Under load that is a few a second: the kernel's backlog
overflows, and clients wait for long. A client that is one too many is answered 503 and disconnected; if there is no
room even for that, it is left in the backlog.
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
"""The most connections, if the system allows for so many."""
_RESERVE = 200
"""Descriptors kept for everything else: the store, the log, refused clients."""
_REFUSING = 64
"""Clients that are being refused at the same time."""
_AT_ONCE = 64
"""The most connections accepted in a round of the event loop."""
_NO_DESCRIPTOR = 0.1
"""Seconds to wait when there is not even room for a refusal."""
_LEAVING = 1.0
"""Seconds in which a refused client must take its answer, including the handshake with TLS."""
_HANDSHAKES = 20
"""TLS handshakes a second with refused clients, a few hundredths of a processor; further ones get no answer."""

log = structlog.get_logger()

Serve = Callable[[trio.SocketStream], Awaitable[None]]


class Sharing(Protocol):
    """The other processes that accept from the same listener."""

    def note(self, connections: int) -> None:
        """Tells the others how many connections are open here."""

    def rest(self) -> float:
        """Seconds for which to leave a new connection to the others; 0 to accept it here."""
        ...


class Alone:
    """No other process accepts from the listener."""

    def note(self, connections: int) -> None:
        """Does nothing: nobody else needs the number."""

    def rest(self) -> float:
        return 0


def room() -> int:
    """How many connections there is room for; raises the limit of descriptors as far as the system allows."""
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
    """`take` accepts the connections of a listener, for ever, and serves each in a task of its own."""

    most: int
    seal: Callable[[trio.SocketStream], trio.abc.SendStream] | None = None
    """With TLS: wraps the stream; sending over the result does the handshake first."""
    sharing: Sharing = field(factory=Alone)
    inside: int = field(default=0, init=False)
    _second: int = field(default=0, init=False)
    """The second in which the last handshake with a refused client began."""
    _handshakes: int = field(default=0, init=False)
    """Handshakes with refused clients in that second."""
    _leaving: int = field(default=0, init=False)
    """Clients that were refused and are not gone yet."""
    _short: bool = field(default=False, init=False)
    """Whether the system has no more descriptors, or no memory."""
    _refusal: bytes = field(factory=_refusal, init=False)

    async def take(self, listener: trio.SocketListener, tasks: trio.Nursery, serve: Serve) -> None:
        """Accepts and serves for ever; closes the listener at its end."""
        # trio's sockets have no accept that does not wait; a socket on a copy of the descriptor has.
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
        """Accepts or refuses one client; False if none waits, or there is no room."""
        if self.inside >= self.most and self._leaving >= _REFUSING:
            await trio.sleep(_NO_DESCRIPTOR)
            return False
        try:
            client, _ = line.accept()
        except BlockingIOError:
            return False
        except ConnectionError:
            return True  # the client left before it was accepted
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
                    pass  # an immediate close would discard the answer
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
