"""Endpoints: parses and checks the URL to which messages are posted. Pure.

Only forms that every parser reads in the same way are accepted: no user, no fragment, no number that some parsers read
as an address, nothing beyond ASCII.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from attrs import frozen

from .addresses import Address, Network, is_allowed, read_address, refused

LONGEST = 2048
"""The most bytes of a URL."""
_URL = re.compile(r"(https?)://([^/?#\\]*)([/?]?[!-~]*)", re.ASCII | re.IGNORECASE)
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", re.ASCII)
_NAME = re.compile(
    r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?"
)
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)\.?")


@frozen
class Endpoint:
    """The parts of the URL. `host` is a name, or the text of `address`."""

    tls: bool
    host: str
    port: int
    target: str
    """Path and query, as in the request line."""
    netloc: str
    """The value of the header Host."""
    address: Address | None

    @property
    def shown(self) -> str:
        """The URL without path and query, which may hold a secret: for the log."""
        return f"{'https' if self.tls else 'http'}://{self.netloc}"


def read_endpoint(url: str, allowed: Sequence[Network]) -> Endpoint:
    """Parses the URL of an endpoint. Raises ValueError, which says what to write instead."""
    if len(url) > LONGEST:
        raise ValueError(f"it has {len(url)} characters, and may have {LONGEST}")
    if not (url.isascii() and url.isprintable()) or " " in url or "\\" in url:
        raise ValueError("it has other than printable ASCII characters: percent-encode them, and a name as xn--...")
    if "#" in url:
        raise ValueError("leave out the fragment: it is never sent")
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("it is no URL such as https://example.com/hooks/7")
    tls, place, rest = match[1].lower() == "https", match[2], match[3]
    if "@" in place:
        raise ValueError("leave out the user and the password: posts are signed")
    parts = _PLACE.fullmatch(place)
    if parts is None:
        raise ValueError(f"{place[:100]!r} is not host or host:port")
    host, port = parts[1].lower().strip("[]"), int(parts[2] or (443 if tls else 80))
    if not 1 <= port <= 65535:
        raise ValueError(f"{port} is no port")
    address = _address(host)
    if urlsplit(url).hostname != host:
        raise ValueError("it is no URL such as https://example.com/hooks/7")
    if wrong := (refused(address, allowed) if address is not None else None):
        raise ValueError(wrong)
    if not tls and not (allowed and (address is None or is_allowed(address, allowed))):
        raise ValueError("write https://: without TLS messages go only to addresses that push_allow names")
    return Endpoint(
        tls, host.removesuffix("."), port, rest if rest.startswith("/") else f"/{rest}", place.lower(), address
    )


def _address(host: str) -> Address | None:
    """The address, if the host is one; None for a name. Raises ValueError if it is neither, or a number that some
    parsers read as an address."""
    if (address := read_address(host)) is not None:
        return address
    if _NUMBER.fullmatch(host):
        raise ValueError(f"{host[:100]!r} is no address: write one as four numbers, such as 192.0.2.7")
    if _NAME.fullmatch(host) is None or len(host) > 253:
        raise ValueError(f"{host[:100]!r} is no host's name")
    return None
