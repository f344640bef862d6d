"""Where others reach a server: what it tells of itself to whoever asks a server of the same database.

What it listens on may be no address at all: 0.0.0.0 and :: stand for all that the machine has. Then it is the one from
which the machine talks to the world; no packet is sent to find it. A machine of several networks may need another:
that is what the setting `advertise` is for.
"""

import socket
from collections.abc import Sequence
from ipaddress import ip_address

from .settings import Settings

# Addresses of the world that nobody has (RFC 5737, RFC 3849): only the route to them is asked for.
_WORLD = {socket.AF_INET: ("192.0.2.1", 9), socket.AF_INET6: ("2001:db8::1", 9)}


def others_reach(settings: Settings, sockets: Sequence[socket.socket]) -> str:
    """A URL; of a Unix socket `listen` itself, which others of its machine can use."""
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
            return None  # no route: a machine by itself
        return str(probe.getsockname()[0])
