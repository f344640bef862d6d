"""Parses the DSN of a MySQL database: `mysql://user:password@host:port/database?option=value`.

    ssl_mode=MODE    DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY, as in MySQL's own clients; by default
                     DISABLED on loopback and sockets, else VERIFY_IDENTITY
    ssl_ca=path      the certificates to trust instead of the system's (PEM)
    socket=path      a Unix socket; the host is then left empty: mysql://user@/database?socket=/run/mysqld/mysqld.sock

Several hosts are separated by commas, `host1:3306,host2:3306`: see `hosts`. In all parts the characters `:/@?#[]%` are
percent-encoded. No message here repeats the password.
"""

from difflib import get_close_matches
from ipaddress import ip_address
from typing import Literal, get_args
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import attrs

DEFAULT_PORT = 3306

_OPTIONS = ("ssl_mode", "ssl_ca", "socket")

SslMode = Literal["DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"]
"""No TLS; TLS if the server offers it; TLS with any server; TLS with a server whose certificate is trusted; and whose
certificate is also for the host's name."""
_MODES: dict[str, SslMode] = {mode: mode for mode in get_args(SslMode)}
_VERIFYING: tuple[SslMode, ...] = ("VERIFY_CA", "VERIFY_IDENTITY")
_FORM = "mysql://user:password@host:port/database"
_SEVERAL = "mysql://user:password@host1:3306,host2:3306/database"
_BRACKETS = "the host: an IPv6 address stands in brackets, mysql://user@[::1]/database"
_COMMAS = f"several hosts stand with commas between them, {_SEVERAL}"


@attrs.frozen(kw_only=True)
class Dsn:
    """A parsed DSN. `str()` and `repr()` leave the password out."""

    user: str
    password: str = attrs.field(default="", repr=False)
    host: str = ""
    port: int = DEFAULT_PORT
    database: str
    ssl_mode: SslMode = "DISABLED"
    ssl_ca: str | None = None
    socket: str | None = None
    others: tuple["Dsn", ...] = ()
    """The DSNs of the other hosts, in their order, alike but for the host."""

    @property
    def each(self) -> tuple["Dsn", ...]:
        """A DSN for each host."""
        return (attrs.evolve(self, others=()), *self.others)

    @property
    def place(self) -> str:
        """The host and the port, or the socket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.socket is None else self.socket

    @classmethod
    def parse(cls, text: str) -> "Dsn":
        """Raises ValueError, which names the part that is wrong and what to write instead."""
        parsed: list[Dsn] = []
        texts = one_for_each_host(text)
        if len(texts) == 1:
            return cls._parse_one(text)
        for number, one in enumerate(texts, 1):
            try:
                parsed.append(cls._parse_one(one))
            except ValueError as error:
                raise ValueError(f"with host {number}: {error}") from None
            if parsed[-1] in parsed[:-1]:
                raise ValueError(f"the hosts: number {number} stands there before, {_SEVERAL}")
        return attrs.evolve(parsed[0], others=tuple(parsed[1:]))

    @classmethod
    def _parse_one(cls, text: str) -> "Dsn":
        if not text.startswith("mysql://"):
            raise ValueError(f"the DSN begins with mysql://: {_FORM}")
        try:
            parts = urlsplit(text)
            host = parts.hostname or ""
        except ValueError:
            raise ValueError(_BRACKETS) from None
        if "@" in parts.netloc and "[" not in parts.netloc and parts.netloc.rpartition("@")[2].count(":") > 1:
            raise ValueError(f"{_BRACKETS}; {_COMMAS}")
        if parts.fragment or "#" in text:
            raise ValueError("the DSN holds a '#': write it %23")
        try:
            port = parts.port
        except ValueError:
            # The cause is left out: it quotes the supposed port, which may be a part of the password.
            raise ValueError(_wrong_port(parts)) from None
        if port == 0:
            raise ValueError(_wrong_port(parts))
        if not parts.username:
            raise ValueError(f"the user is missing: {_FORM}")
        options = _options(parts.query)
        socket = options.get("socket")
        if socket is None and not host:
            raise ValueError(f"the host is missing: {_FORM}, or add ?socket=path")
        if socket is not None and host:
            raise ValueError("a host and a socket: leave one of them out (mysql://user@/database?socket=path)")
        database = unquote(parts.path[1:])
        if not database or "/" in parts.path[1:]:
            raise ValueError(f"the database: one name after the host, {_FORM}")
        return cls(
            user=unquote(parts.username),
            password=unquote(parts.password or ""),
            host=host,
            port=port or DEFAULT_PORT,
            database=database,
            ssl_mode=_ssl_mode(options, local=socket is not None or _is_loopback(host)),
            ssl_ca=options.get("ssl_ca"),
            socket=socket,
        )

    def __str__(self) -> str:
        where = ",".join(dsn.place for dsn in self.each) if self.socket is None else ""
        query = "" if self.socket is None else f"?socket={quote(self.socket)}"
        return f"mysql://{quote(self.user, safe='')}@{where}/{quote(self.database, safe='')}{query}"


def _wrong_port(parts: SplitResult) -> str:
    """The message for a wrong port. It blames the password when that may have ended the host: with an '@' behind it, or
    none before."""
    wrong = "the port is not a number from 1 to 65535"
    if "@" in parts.netloc and "@" not in parts.path + parts.query:
        return f"{wrong}; {_COMMAS}"
    return f"{wrong}; if the password holds ':', '/', '@', '?' or '%', percent-encode it (%3A, %2F, %40, %3F, %25)"


def one_for_each_host(text: str) -> list[str]:
    """The DSN once for each of its hosts, with that host alone, in order. Raises ValueError when a host is empty."""
    end = min((place for mark in "/?#" if (place := text.find(mark, len("mysql://"))) > 0), default=len(text))
    user, mark, hosts = text[:end].rpartition("@")
    if "," in user.partition("@")[2]:
        raise ValueError(
            f"user and password stand once, before the first host: {_SEVERAL}; if the password holds '@', write it %40"
        )
    if not mark or "," not in hosts:
        return [text]
    each = [host.strip() for host in hosts.split(",")]
    if "" in each:
        raise ValueError(f"the hosts: number {each.index('') + 1} is empty, {_SEVERAL}")
    return [f"{user}@{host}{text[end:]}" for host in each]


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise ValueError("the options after '?' are name=value, with '&' between them") from None
    for name, value in pairs:
        if name not in _OPTIONS:
            near = get_close_matches(name, _OPTIONS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_OPTIONS)}"
            raise ValueError(f"unknown option {name!r}: {hint}")
        if name in options:
            raise ValueError(f"the option {name} is given twice")
        if not value:
            raise ValueError(f"the option {name} is empty: leave it out or give it a value")
        options[name] = value
    return options


def _ssl_mode(options: dict[str, str], *, local: bool) -> SslMode:
    said = options.get("ssl_mode")
    mode: SslMode | None = None if said is None else _MODES.get(said.upper())
    if said is not None and mode is None:
        raise ValueError(f"ssl_mode={said}: it is one of {', '.join(_MODES)}")
    if mode not in (None, "DISABLED") and "socket" in options:
        raise ValueError(f"ssl_mode={mode} over a socket: nobody listens there, leave ssl_mode out")
    if "ssl_ca" in options:
        if (mode is not None and mode not in _VERIFYING) or "socket" in options:
            raise ValueError("ssl_ca without a look at the certificate: say ssl_mode=VERIFY_IDENTITY, or leave it out")
        return mode or "VERIFY_IDENTITY"
    return mode or ("DISABLED" if local else "VERIFY_IDENTITY")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
