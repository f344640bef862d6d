"""Places that settings name: stores, addresses and files. Each is checked, and shown without what is secret of it.

What is no good raises ValueError, which says what to write instead.
"""

import re
from ipaddress import ip_network
from typing import cast


def dsn(value: object) -> str:
    """A store."""
    if not isinstance(value, str) or not value.startswith(("sqlite:///", "mysql://")):
        raise ValueError("a store is sqlite:///path or mysql://user:password@host:port/database")
    return value


def redis(value: object) -> str:
    """A Redis; empty for none."""
    if value == "none":
        return ""
    if not isinstance(value, str) or (value and not value.startswith(("redis://", "rediss://", "unix://"))):
        raise ValueError("a Redis is redis://[:password@]host:port/number")
    return value


UNIX = "unix:"
"""Before the path of a Unix socket."""
_LONGEST_PATH = 96
"""Bytes of a Unix socket's path: Linux takes 107, and it is made under a longer name first."""


def listen(value: object) -> str:
    """Where HTTP is served."""
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
    """Names by which the server may be called."""
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
    """Where a server is reached; empty for what it finds itself."""
    if value in ("", "none"):
        return ""
    match = re.fullmatch(_SERVER, value) if isinstance(value, str) else None
    if match is None or int((match["port"] or ":0")[1:]) > 65535:
        raise ValueError(f"{value!r} is not where a server is reached, such as https://tarry-1.internal:8277")
    return match[0].removesuffix("/")


def host_of(url: str) -> str:
    """The host in what `server` has read."""
    match = re.fullmatch(_SERVER, url)
    return match["host"].strip("[]") if match else ""


def networks(value: object) -> tuple[str, ...]:
    """Networks, each an address and how many bits of it count."""
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
    """The mode of a Unix socket."""
    if isinstance(value, str) and re.fullmatch("0?[0-7]{3}", value):
        value = int(value, 8)
    if not isinstance(value, int) or isinstance(value, bool) or value & ~0o777 or value & 0o600 != 0o600:
        raise ValueError(f'{value!r} is not a mode that lets its owner in: write "600" or "660"')
    return value


def show_mode(mode: int) -> str:
    """As `chmod` takes it."""
    return f"{mode:o}"


def file(value: object) -> str:
    """A file's name; empty for none."""
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(f"{value!r} is not a file's name")
    return "" if value == "none" else value


def show(text: str) -> str:
    """As it is."""
    return text or "none"


def alarm_url(value: object) -> str:
    """Where events are posted; empty for nowhere."""
    if value in ("", "none"):
        return ""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/?#]+\S*", value):
        raise ValueError("an alarm goes to http:// or https:// and a host")
    return value


def show_alarm_url(url: str) -> str:
    """Its host alone: webhooks carry their secret in the path, the query or before the @."""
    match = re.match(r"(https?://)[^/?#]*?([^/?#@]+)(?:[/?#]|$)", url)
    return f"{match[1]}{match[2]}/***" if match else "none"


def show_hosts(hosts: tuple[str, ...]) -> str:
    """With commas."""
    return ",".join(hosts) or "none"


def show_redis(url: str) -> str:
    """Without its password."""
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
    """The DSN without its secrets, which stand before the @ and in options."""
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
