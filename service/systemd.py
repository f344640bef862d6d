"""Notifications to systemd (sd_notify(3)): the server is ready, is stopping, or is alive.

systemd names a datagram socket in NOTIFY_SOCKET; without one nothing is sent. Sending never waits: a datagram for which
there is no room is lost.
"""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

import trio
from attrs import frozen


@frozen
class Systemd:
    """Sends notifications to the service manager that started this program; without an address it does nothing."""

    address: str | None = None
    patience: float | None = None
    """Seconds without a sign of life after which systemd considers the server hung; None: systemd does not watch it."""

    @classmethod
    def of(cls, environment: MutableMapping[str, str], pid: int) -> "Systemd":
        """Reads the variables and removes them from the environment: child processes must not notify systemd."""
        address = environment.pop("NOTIFY_SOCKET", None)
        usec, watched = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        is_ours = not watched or watched == str(pid)
        patience = int(usec) / 1e6 if usec.isdecimal() and int(usec) and is_ours else None
        return cls(address, patience if address else None)

    @property
    def rest(self) -> float | None:
        """Seconds between two signs of life: a third of `patience`, so that two may be late."""
        return None if self.patience is None else self.patience / 3

    def ready(self) -> None:
        """Says that the server listens and its timers are loaded."""
        self._tell("READY=1\nSTATUS=Serving")

    def stopping(self) -> None:
        self._tell("STOPPING=1\nSTATUS=Finishing what is under way")

    def alive(self) -> None:
        self._tell("WATCHDOG=1")

    async def run(self) -> None:
        """Sends signs of life from the event loop until cancelled: a hung loop sends none."""
        while (rest := self.rest) is not None:
            self.alive()
            await trio.sleep(rest)

    def _tell(self, text: str) -> None:
        if not self.address:
            return
        # A leading @ stands for the zero byte of an abstract socket name.
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:  # the next one will do
            sock.setblocking(False)
            sock.sendto(text.encode(), address)


def here() -> Systemd:
    return Systemd.of(os.environ, os.getpid())
