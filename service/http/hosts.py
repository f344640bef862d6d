"""By which names the server may be called: a page whose name was bound to this machine's address must not get in.

A browser lets a page read what comes from its own host name, and the page's owner says which address that is. So the
names are known beforehand; an address is no name, and cannot be bound to another.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from .asgi import Request
from .problems import Problem

_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]@/]+))(?::[0-9]*)?", re.ASCII)
_MOST_SEEN = 100
FOR_PROBES = ("/livez", "/readyz")
"""They tell nobody anything, and are asked by whatever name a probe has."""


class Hosts:
    """Says no to what is not meant for this server."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {"localhost"} | {name.lower() for name in names}
        self._seen = set[bytes]()
        """Hosts that were found to be ours."""

    def check(self, request: Request) -> None:
        """Raises a `Problem`, 421, for another's."""
        if request.path in FOR_PROBES:
            return
        hosts = request.headers(b"host")
        if (hosts or request.scope["http_version"] != "1.0") and not (len(hosts) == 1 and self.is_ours(hosts[0])):
            named = " and ".join(host.decode("latin-1")[:100] for host in hosts) or "nobody"
            detail = f"the request is for {named!r}: call this server by its address, or put the name into `hosts`"
            raise Problem("wrong-host", detail, executed=False)

    def is_ours(self, host: bytes) -> bool:
        """Whether a Host names this server; its port does not matter."""
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
