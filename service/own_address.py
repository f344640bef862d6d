"""The address at which others reach a server, as GET /v1/nodes of any server on the same database tells it.

The address it listens on may not be one to connect to: 0.0.0.0 and :: stand for all addresses of the machine. Then it
is the address from which the machine reaches the internet; no packet is sent to find it. A machine in several networks
may need another one, which the setting `advertise` names.
"""

import socket
from collections.abc import Sequence
from ipaddress import ip_address

from .settings import Settings

# Addresses reserved for documentation (RFC 5737, RFC 3849): only the route to them is looked up.
_WORLD = {socket.AF_INET: ("192.0.2.1", 9), socket.AF_INET6: ("2001:db8::1", 9)}


def others_reach(settings: Settings, sockets: Sequence[socket.socket]) -> str:
    """The URL at which others reach this server; for a Unix socket `listen` itself, which others on the machine can
    use."""
    if settings.advertise or settings.listen_path is not None:
        return settings.advertise or settings.url
    address, port = sockets[0].getsockname()[:2]
    if not ip_address(address).is_unspecified:
        return settings.url
    host = _towards_the_world(sockets[0].family) or socket.gethostname()
    return f"{settings.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _towards_the_world(family: int) -> str | None:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_WORLD[socket.AddressFamily(family)])
        except OSError:
            return None  # no route: the machine has no network
        return str(probe.getsockname()[0])
