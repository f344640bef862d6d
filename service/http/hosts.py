"""By which names the server may be called: a page whose name was bound to this machine's address must not get in.

A browser lets a page read what comes from its own host name, and the page's owner says which address that is. So the
names are known beforehand; an address is no name, and cannot be bound to another. ASGI, and nothing else.
"""

import re
from collections.abc import Iterable
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from .problems import Problem

_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]@/]+))(?::[0-9]*)?", re.ASCII)
FOR_PROBES = ("/livez", "/readyz")
"""They tell nobody anything, and are asked by whatever name a probe has."""


class Hosts:
    """Passes on what is meant for this server, and answers the rest with 421."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = {"localhost"} | {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in FOR_PROBES:
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            if (hosts or scope["http_version"] != "1.0") and not (len(hosts) == 1 and self.is_ours(hosts[0])):
                named = " and ".join(host.decode("latin-1")[:100] for host in hosts) or "nobody"
                detail = f"the request is for {named!r}: call this server by its address, or put the name into `hosts`"
                raise Problem("wrong-host", detail, executed=False)
        await self._app(scope, receive, send)

    def is_ours(self, host: bytes) -> bool:
        """Whether a Host names this server; its port does not matter."""
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
