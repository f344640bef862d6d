"""Places that settings name: checks stores, addresses and files, and shows them without their secrets.

A wrong value raises ValueError, which says what to write instead.
"""

import re
from ipaddress import ip_network
from typing import cast


def dsn(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(("sqlite:///", "mysql://")):
        raise ValueError("a store is sqlite:///path or mysql://user:password@host:port/database")
    return value


def redis(value: object) -> str:
    if value == "none":
        return ""
    if not isinstance(value, str) or (value and not value.startswith(("redis://", "rediss://", "unix://"))):
        raise ValueError("a Redis is redis://[:password@]host:port/number")
    return value


UNIX = "unix:"
"""The prefix of a Unix socket's path."""
_LONGEST_PATH = 96
"""The most bytes of a Unix socket's path: Linux takes 107, and the socket is first made under a longer name."""


def listen(value: object) -> str:
    """Checks where HTTP is served: host:port, or unix:PATH."""
    if isinstance(value, str) and value.startswith(UNIX):
        path = value.removeprefix(UNIX)
        if not path or "\0" in path or len(path.encode()) > _LONGEST_PATH:
            raise ValueError(
                f"{value!r} is not unix:PATH, such as unix:/run/tarry.sock, of {_LONGEST_PATH} bytes at most"
            )
        return value
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s]+):([0-9]{1,5})", value) if isinstance(value, str) else None
    if match is None or int(match[2]) > 65535:
        raise ValueError(f"{value!r} is not host:port, such as 127.0.0.1:8277 or [::1]:8277, nor unix:PATH")
    return match[0]


def hosts(value: object) -> tuple[str, ...]:
    """Checks the names by which clients may call the server."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")] if value not in ("", "none") else []
    if not isinstance(value, list | tuple):
        raise ValueError('they are a list of names, such as ["tarry.internal"]')
    for name in cast("list[object]", value):
        if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9._-]{1,253}", name):
            raise ValueError(f"{name!r} is not a host's name, without scheme and port")
    return tuple(cast("list[str]", value))


_SERVER = r"https?://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253})(?P<port>:[0-9]{1,5})?/?"


def server(value: object) -> str:
    """Checks the URL at which a server is reached; empty if the server is to find it itself."""
    if value in ("", "none"):
        return ""
    match = re.fullmatch(_SERVER, value) if isinstance(value, str) else None
    if match is None or int((match["port"] or ":0")[1:]) > 65535:
        raise ValueError(f"{value!r} is not where a server is reached, such as https://tarry-1.internal:8277")
    return match[0].removesuffix("/")


def host_of(url: str) -> str:
    """The host of a URL that `server` accepted."""
    match = re.fullmatch(_SERVER, url)
    return match["host"].strip("[]") if match else ""


def networks(value: object) -> tuple[str, ...]:
    """Checks networks, each an address and the length of its prefix in bits."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",")] if value not in ("", "none") else []
    if not isinstance(value, list | tuple):
        raise ValueError('they are a list of networks, such as ["10.1.0.0/16"]')
    found: list[str] = []
    for network in cast("list[object]", value):
        try:
            found.append(str(ip_network(network)) if isinstance(network, str) else "")
        except ValueError:
            found.append("")
        if not found[-1]:
            raise ValueError(f"{network!r} is no network: write 10.1.0.0/16, or 10.1.2.3/32 for one address")
    return tuple(found)


def socket_mode(value: object) -> int:
    if isinstance(value, str) and re.fullmatch("0?[0-7]{3}", value):
        value = int(value, 8)
    if not isinstance(value, int) or isinstance(value, bool) or value & ~0o777 or value & 0o600 != 0o600:
        raise ValueError(f'{value!r} is not a mode that lets its owner in: write "600" or "660"')
    return value


def show_mode(mode: int) -> str:
    """The mode as `chmod` takes it."""
    return f"{mode:o}"


def file(value: object) -> str:
    """Checks a file's name; empty for none."""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is not a file's name")
    return "" if value == "none" else value


def show(text: str) -> str:
    return text or "none"


def alarm_url(value: object) -> str:
    """Checks the URL to which events are posted; empty for none."""
    if value in ("", "none"):
        return ""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/?#]+\S*", value):
        raise ValueError("an alarm goes to http:// or https:// and a host")
    return value


def show_alarm_url(url: str) -> str:
    """The scheme and host alone: webhooks carry their secret in the path, the query or before the @."""
    match = re.match(r"(https?://)[^/?#]*?([^/?#@]+)(?:[/?#]|$)", url)
    return f"{match[1]}{match[2]}/***" if match else "none"


def show_hosts(hosts: tuple[str, ...]) -> str:
    return ",".join(hosts) or "none"


def show_redis(url: str) -> str:
    """The URL without its password."""
    return masked(url) or "none"


_OPEN = {
    "ssl_mode",
    "ssl_ca",
    "socket",
    "db",
    "protocol",
    "socket_timeout",
    "socket_connect_timeout",
    "health_check_interval",
}
"""Options of a DSN that anybody may see; the value of any other may be a password."""


def masked(dsn: str) -> str:
    """The DSN without its secrets, which are before the @ and in options."""
    scheme, mark, rest = dsn.partition("://")
    place, question, options = rest.partition("?")
    if "@" in options:
        return f"{scheme}{mark}***"  # a password with a bare `?` or `@` in it: nobody can tell where it ends
    # Up to the last @: a password that holds one unescaped must not show its tail.
    place = re.sub(r"^([^:@/]*):.*@", r"\1:***@", place, flags=re.DOTALL)
    return f"{scheme}{mark}{place}{question}{'&'.join(map(_masked_option, options.split('&')))}"


def _masked_option(option: str) -> str:
    name, equals, _ = option.partition("=")
    if not option or name in _OPEN:
        return option
    return f"{name}=***" if equals else "***"
