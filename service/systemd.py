"""What is told to systemd (sd_notify(3)): the server is ready, it stops, and it lives.

systemd names a datagram socket in NOTIFY_SOCKET; whoever has none hears nothing. Nobody waits for systemd: a datagram
for which there is no room is lost.
"""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

import trio
from attrs import frozen


@frozen
class Systemd:
    """The way to whoever has started this program; without an address it leads nowhere."""

    address: str | None = None
    patience: float | None = None
    """Seconds without a sign of life after which systemd takes the server for hung; None: it does not watch."""

    @classmethod
    def of(cls, environment: MutableMapping[str, str], pid: int) -> "Systemd":
        """As the environment says, from which it is taken: what this program starts is not systemd's."""
        address = environment.pop("NOTIFY_SOCKET", None)
        usec, watched = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        is_ours = not watched or watched == str(pid)
        patience = int(usec) / 1e6 if usec.isdecimal() and int(usec) and is_ours else None
        return cls(address, patience if address else None)

    @property
    def rest(self) -> float | None:
        """Seconds between two signs of life: two of them may be late."""
        return None if self.patience is None else self.patience / 3

    def ready(self) -> None:
        """It listens, its timers are loaded."""
        self._tell("READY=1\nSTATUS=Serving")

    def stopping(self) -> None:
        """It finishes what is under way."""
        self._tell("STOPPING=1\nSTATUS=Finishing what is under way")

    def alive(self) -> None:
        """It is not hung."""
        self._tell("WATCHDOG=1")

    async def run(self) -> None:
        """Signs of life of the event loop, until cancelled: a loop that hangs gives none."""
        while (rest := self.rest) is not None:
            self.alive()
            await trio.sleep(rest)

    def _tell(self, text: str) -> None:
        if not self.address:
            return
        # An @ stands for the zero byte of a name that is in no folder.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:  # the next sign is as good
            sock.setblocking(False)
            sock.sendto(text.encode(), address)


def here() -> Systemd:
    """Of this program."""
    return Systemd.of(os.environ, os.getpid())
