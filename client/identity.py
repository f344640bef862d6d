"""Names that the client generates: its own as a consumer, and an idempotency key for each request."""

import itertools
import os
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Callable
from urllib.parse import urlsplit


class Identity:
    """The default name of a consumer, `ip-pid-uuid-number`: it tells an operator where to look.

    `number` is that of the calling thread, or task. In an event loop no host name is resolved: that would hold it up.
    """

    def __init__(self, url: str, *, resolve: bool = True, number: Callable[[], int] = threading.get_native_id) -> None:
        self._ip = _own_address(url, resolve=resolve)
        self._uuid = uuid.uuid4()
        self._number = number
        self._consumers = itertools.count(1)

    def client(self) -> str:
        """The name of the calling thread, or task."""
        return f"{self._ip}-{os.getpid()}-{self._uuid}-{self._number()}"

    def consumer(self) -> str:
        """A name for one `consume` or `run`, deregistered at its end."""
        return f"{self.client()}-{next(self._consumers)}"


def new_idempotency_key() -> str:
    """Time first, like a UUID of version 7, so that rows made together are stored together; then 80 random bits."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def _own_address(url: str, *, resolve: bool) -> str:
    """The address from which this machine would talk to the server; no packet is sent.

    For a server known by name, and without `resolve`, it is the address from which it would talk to the internet.
    """
    parts = urlsplit(url)
    flags = 0 if resolve else socket.AI_NUMERICHOST
    try:
        return _address_towards(parts.hostname or "127.0.0.1", parts.port or 80, flags)
    except socket.gaierror:
        return "0.0.0.0" if resolve else _address_towards("192.0.2.1", 80, flags)  # noqa: S104 - a name, nothing listens


def _address_towards(host: str, port: int, flags: int) -> str:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=flags)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except socket.gaierror:
        raise
    except OSError:
        return "0.0.0.0"  # noqa: S104 - a name, nothing listens on it
