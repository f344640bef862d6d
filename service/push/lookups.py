"""Lookups of names, in threads, a few at once for each name.

One that hangs keeps its thread until the machine gives up, which may be a minute after its post did. So they have
threads of their own: neither other names nor what else the server does in threads waits for them.
"""

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import trio

from .addresses import Address, read_address

_AT_ONCE = 4
"""Lookups of one name."""

GetAddrInfo = Callable[..., Sequence[tuple[Any, ...]]]


class Lookups:
    """The addresses of a name, as the machine gives them. Raises OSError."""

    def __init__(self, getaddrinfo: GetAddrInfo = socket.getaddrinfo) -> None:
        self._getaddrinfo = getaddrinfo
        self._places: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()
        """Kept by the lookups that have a place, also when nobody waits for them any more."""

    async def __call__(self, host: str) -> Sequence[Address]:
        if (places := self._places.get(host)) is None:
            places = self._places[host] = trio.CapacityLimiter(_AT_ONCE)
        look_up = partial(self._getaddrinfo, host, None, type=socket.SOCK_STREAM)
        found = await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=places)
        addresses = (read_address(str(place[4][0]).partition("%")[0]) for place in found)
        return list(dict.fromkeys(address for address in addresses if address is not None))
