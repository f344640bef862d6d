"""Checks the Host header, against DNS rebinding: the names by which the server may be called.

A browser lets a page read answers from its own host name, and the page's owner decides which address that name has. So
the allowed names are fixed beforehand. An address is always allowed: it cannot be bound to another one.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from .asgi import Request
from .problems import Problem

_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]@/]+))(?::[0-9]*)?", re.ASCII)
_MOST_SEEN = 100
FOR_PROBES = ("/livez", "/readyz")
"""Paths that are not checked: they tell no secrets, and probes call them by any name."""


class Hosts:
    def __init__(self, names: Iterable[str]) -> None:
        self._names = {"localhost"} | {name.lower() for name in names}
        self._seen = set[bytes]()
        """Values of Host that were found to be ours, up to `_MOST_SEEN`."""

    def check(self, request: Request) -> None:
        """Raises a `Problem`, 421, if the request names another host."""
        if request.path in FOR_PROBES:
            return
        hosts = request.headers(b"host")
        if (hosts or request.scope["http_version"] != "1.0") and not (len(hosts) == 1 and self.is_ours(hosts[0])):
            named = " and ".join(host.decode("latin-1")[:100] for host in hosts) or "nobody"
            detail = f"the request is for {named!r}: call this server by its address, or put the name into `hosts`"
            raise Problem("wrong-host", detail, executed=False)

    def is_ours(self, host: bytes) -> bool:
        """Whether a value of Host names this server; its port does not matter."""
        if host in self._seen:
            return True
        ours = self._names_us(host)
        if ours and len(self._seen) < _MOST_SEEN:
            self._seen.add(host)
        return ours

    def _names_us(self, host: bytes) -> bool:
        match = _HOST.fullmatch(host.decode("latin-1"))
        if match is None:
            return False
        name = match["v6"] or match["name"].lower().removesuffix(".")
        return name in self._names or _is_address(name)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
