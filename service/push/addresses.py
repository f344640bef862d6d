"""Decides which addresses may be posted to: those of the public internet, and networks that a setting allows. Pure.

A server that posts to URLs set by others can be abused to reach what only it can reach: its own machine, its
neighbours, the cloud's metadata. So the address itself is checked, at each post, and exactly that address is connected
to.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_CLOSED = (
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv4Network("168.63.129.16/32"),  # Azure's internal services, though the address looks public
)
"""Beside those that are not global by themselves, such as private ones."""
_PUBLIC = IPv6Network("2000::/3")
_CLOSED_OF_PUBLIC = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"""Includes Teredo and 6to4, which embed an IPv4 address and are hardly used otherwise any more."""
_NAT64 = IPv6Network("64:ff9b::/96")
_LAST_32 = (1 << 32) - 1


def read_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    return tuple(map(ip_network, texts))


def refused(address: Address, allowed: Sequence[Network]) -> str | None:
    """Why the address may not be posted to; None if it may."""
    meant = _meant(address)
    if is_allowed(address, allowed):
        return None
    if isinstance(meant, IPv4Address):
        closed = any(meant in network for network in _CLOSED)
    else:
        closed = meant not in _PUBLIC or any(meant in network for network in _CLOSED_OF_PUBLIC)
    if closed or not meant.is_global or meant.is_multicast:
        return f"{address} is not of the public internet, and push_allow does not name it"
    return None


def is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    meant = _meant(address)
    return any(meant.version == network.version and meant in network for network in allowed)


def _meant(address: Address) -> Address:
    """The IPv4 address that an IPv6 address embeds (mapped or NAT64); else the address itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & _LAST_32)
    return address


def read_address(text: str) -> Address | None:
    """Parses a literal address; None for a name."""
    try:
        return ip_address(text)
    except ValueError:
        return None
