"""Looks up host names in threads, a few at once for each name.

A lookup that hangs keeps its thread until the system gives up, which may be a minute after the post has timed out. So
each name has a thread limit of its own, and neither other names nor other work in threads waits for it.
"""

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import trio

from .addresses import Address, read_address

_AT_ONCE = 4
"""The most lookups of one name at the same time."""

GetAddrInfo = Callable[..., Sequence[tuple[Any, ...]]]


class Lookups:
    """Call it with a name for the addresses that the system resolves it to. Raises OSError."""

    def __init__(self, getaddrinfo: GetAddrInfo = socket.getaddrinfo) -> None:
        self._getaddrinfo = getaddrinfo
        self._places: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()
        """The thread limit of each name; lookups under way keep it alive, even when nobody waits for them any more."""

    async def __call__(self, host: str) -> Sequence[Address]:
        if (places := self._places.get(host)) is None:
            places = self._places[host] = trio.CapacityLimiter(_AT_ONCE)
        look_up = partial(self._getaddrinfo, host, None, type=socket.SOCK_STREAM)
        found = await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=places)
        addresses = (read_address(str(place[4][0]).partition("%")[0]) for place in found)
        return list(dict.fromkeys(address for address in addresses if address is not None))
