"""The settings of a server, declared as a table, and the source of each value.

Later sources override earlier ones: defaults, `tarry.toml`, the environment (`TARRY_` and the name in capitals), flags.
An unknown name is an error that suggests the nearest known one. Nothing here prints a password.
"""

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar, cast

import attrs

from ..store.environment import FILE, secret
from ..store.named_files import toml_of
from ..store.records import MAX_HEADERS
from ..store.stream.sealing import WIDEST
from ..wheel.ladder import DEFAULT_RUNGS, Ladder
from . import places
from .durations import format_duration, parse_duration
from .guards import declared

CONFIG_NAME = "tarry.toml"

_PREFIX = "TARRY_"
# Not settings, though they begin with TARRY_: the path of the file itself, the clients' address and key, the tests'
# servers, and what Kubernetes sets in every pod beside a service that is called "tarry".
_FOREIGN = re.compile(r"TARRY_(CONFIG|URL|KEY|KEY_FILE|TOPIC|TEST_.*|BENCH_.*|SERVICE_.*|PORT|PORT_.*)")

_AT_MOST = {
    "horizon_step": "horizon",
    "lease": "max_lease",
    "max_body": "max_batch_bytes",
    "max_batch_bytes": "max_incoming",
    "retention": "hard_retention",
}
"""Settings that must not exceed another setting."""

_KIB, _MIB = 1 << 10, 1 << 20
_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
_DAY = 24 * _HOUR

T = TypeVar("T")
Parse = Callable[[object], T]


class SettingError(ValueError):
    """A setting is unknown or its value is wrong; the text names it and where it came from."""


def _within(value: int, low: int, high: int, show: Callable[[int], str]) -> int:
    if not low <= value <= high:
        raise ValueError(f"it lies between {show(low)} and {show(high)}")
    return value


def _duration(low: int = 1, high: int = 3650 * _DAY) -> Parse[int]:
    def parse(value: object) -> int:
        if not isinstance(value, int | str):
            raise ValueError(f'{value!r} is not a duration: write "60s", or milliseconds')
        ms = parse_duration(value)
        return _within(ms, low, high, format_duration)

    return parse


def _count(low: int, high: int) -> Parse[int]:
    def parse(value: object) -> int:
        if isinstance(value, str) and re.fullmatch("[0-9]{1,15}", value):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{value!r} is not a whole number: say one from {low} to {high}")
        return _within(value, low, high, str)

    return parse


def _size(low: int, high: int) -> Parse[int]:
    units = {"": 1, "B": 1, "KiB": _KIB, "MiB": _MIB, "GiB": 1 << 30}

    def parse(value: object) -> int:
        match = re.fullmatch("([0-9]{1,15}) ?([KMG]iB|B|)", value) if isinstance(value, str) else None
        size = int(match[1]) * units[match[2]] if match else value
        if not isinstance(size, int) or isinstance(size, bool):
            raise ValueError(f'{value!r} is not a size: write bytes, "256KiB" or "8MiB"')
        return _within(size, low, high, format_size)

    return parse


def format_size(size: int) -> str:
    """262144 is "256KiB"."""
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", _MIB), ("KiB", _KIB)):
        if size and size % bytes_ == 0:
            return f"{size // bytes_}{unit}"
    return str(size)


def _choice(*choices: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return value

    return parse


def _yes_or_no(value: object) -> bool:
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    answer = words.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(answer, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return answer


def _rungs(value: object) -> tuple[int, ...]:
    if isinstance(value, Ladder):
        return value.rungs
    if isinstance(value, str):
        value = [rung.strip() for rung in value.split(",")]
    if not isinstance(value, list | tuple):
        raise ValueError('a ladder is a list of durations, such as ["10s", "1m"]')
    rest = _duration(0)
    rungs: tuple[int, ...] = tuple(rest(rung) for rung in cast("list[object]", value))
    return Ladder(rungs).rungs


def _node(value: object) -> str:
    if value is None:  # the setting is not given
        return re.sub("[^A-Za-z0-9._-]", "-", socket.gethostname())[:64] or "tarry"
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a name")
    if not value:
        raise ValueError("it is empty: leave it out to have the host's name, or name this server")
    if not re.fullmatch("[A-Za-z0-9._-]{1,64}", value):
        raise ValueError(f"{value!r} is not a name: up to 64 letters, digits, dots, underscores and hyphens")
    return value


def _setting(default: object, parse: Callable[[object], T], about: str, show: Callable[[T], str] = str) -> T:
    metadata = {"parse": parse, "about": about, "show": show}
    # As a converter too, so that settings made by hand in a test or a demo are checked like those that are loaded.
    return cast(T, attrs.field(default=default, converter=parse, metadata=metadata, repr=show))


def _span(default: int, about: str, low: int = 1, high: int = 3650 * _DAY) -> int:
    return _setting(default, _duration(low, high), about, format_duration)


def _bytes(default: int, about: str, low: int, high: int) -> int:
    return _setting(default, _size(low, high), about, format_size)


def _file(about: str) -> str:
    return _setting("", places.file, about, places.show)


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _show_rungs(rungs: tuple[int, ...]) -> str:
    return ",".join(map(format_duration, rungs))


@attrs.frozen(kw_only=True)
class Settings:
    """Every setting; durations in milliseconds, sizes in bytes. `load` reads them from where users write them."""

    dsn: str = _setting("sqlite:///tarry.db", places.dsn, "the store", places.masked)
    redis: str = _setting(
        "",
        places.redis,
        "a Redis for notices and for the topics that draw offsets there; not needed",
        places.show_redis,
    )
    listen: str = _setting(
        "127.0.0.1:8277",
        places.listen,
        "where HTTP is served: host:port, or unix:PATH; beyond loopback keys are asked for",
    )
    socket_mode: int = _setting(0o600, places.socket_mode, "of a Unix socket that is listened on", places.show_mode)
    insecure_listen: bool = _setting(False, _yes_or_no, "listen beyond loopback though there is no key", _yes)
    tls_cert: str = _file("a certificate, PEM, with those that it was signed with: HTTPS")
    tls_key: str = _file("its key, PEM")
    hosts: tuple[str, ...] = _setting(
        (), places.hosts, "names by which clients may call the server, beside that of listen", places.show_hosts
    )
    advertise: str = _setting(
        "",
        places.server,
        "where others reach this server, as GET /v1/nodes tells them; by default what it listens on",
        places.show,
    )
    node: str = _setting(None, _node, "this server's name among others; by default the host's")
    processes: int = _setting(
        1, _count(1, 64), "that serve on this machine, a node each on one MySQL: about one for each core"
    )
    auto_create: bool = _setting(True, _yes_or_no, "topics and groups come into being when first used", _yes)

    max_body: int = _bytes(256 * _KIB, "of one message", 1, 16 * _MIB)
    max_batch: int = _setting(1000, _count(1, 10_000), "messages in one request")
    max_batch_bytes: int = _bytes(8 * _MIB, "of one request", 1, 64 * _MIB)
    max_delay: int = _span(3650 * _DAY, "how far ahead a message may be scheduled")
    max_key: int = _setting(255, _count(1, 255), "bytes of a key, a tag or an idempotency key")
    max_claim: int = _setting(1000, _count(1, 1000), "messages in one claim")
    max_wait: int = _span(30 * _SECOND, "the longest long poll", 0, 10 * _MINUTE)
    max_incoming: int = _bytes(64 * _MIB, "of all requests that are not answered yet", _MIB, 16 << 30)
    body_timeout: int = _span(20 * _SECOND, "for a body to come; a second more for each 64 KiB of it", 100, _HOUR)
    max_waiting: int = _bytes(64 * _MIB, "accepted and not yet written", _MIB, 16 << 30)

    lease: int = _span(60 * _SECOND, "of a claim that names none")
    max_lease: int = _span(12 * _HOUR, "the longest lease")
    client_timeout: int = _span(
        15 * _SECOND, "after its last sign of life a client that renews is dead", _SECOND, _HOUR
    )
    ladder: tuple[int, ...] = _setting(DEFAULT_RUNGS, _rungs, "rests between the retries of a message", _show_rungs)
    idempotency_window: int = _span(_DAY, "how long an idempotency key counts")
    retention: int = _span(7 * _DAY, "of settled messages; a topic may say otherwise", 0)
    hard_retention: int = _span(28 * _DAY, "of unsettled ones too, then expired")
    history_retention: int = _span(28 * _DAY, "of ended claims, returns and cancels")
    dead_retention: int = _span(90 * _DAY, "of dead letters")
    horizon: int = _span(3 * _HOUR, "how much of the future the wheel holds", _SECOND)
    horizon_step: int = _span(5 * _MINUTE, "how much of it is loaded at a time")
    widest_hole: int = _setting(WIDEST, _count(1000, 1 << 40), "offsets of a queue without a message, and closed")
    shutdown_grace: int = _span(25 * _SECOND, "from SIGTERM to the end", 0, _HOUR)

    alarm_url: str = _setting(
        "",
        places.alarm_url,
        "events such as consume_timeout are posted there as JSON; empty: nowhere",
        places.show_alarm_url,
    )

    push_allow: tuple[str, ...] = _setting(
        (),
        places.networks,
        "networks that messages may be pushed to, and without TLS, beside the public internet",
        places.show_hosts,
    )

    guards: tuple[declared.Guard, ...] = _setting(
        (), declared.read, "who is asked at a message's time whether it is sent; in the file alone", declared.show
    )

    reports: str = _file("a folder with reports of `tarry pipeline report`, which the dashboard shows")

    log_level: str = _setting("info", _choice("debug", "info", "warning", "error"), "the least that is logged")
    log_format: str = _setting("auto", _choice("auto", "console", "json"), "auto: console on a terminal, else json")

    _origins: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if bool(self.tls_cert) != bool(self.tls_key):
            raise SettingError("tls_cert and tls_key go together: a certificate, and its key")
        if self.guards and not self.dsn.startswith("mysql://"):
            raise SettingError(
                f"guards ({self.origin('guards')}): they look into a table of MySQL or MariaDB, and the embedded store"
                f" ({self.origin('dsn')}) has none: set dsn to one of those, or leave guards out"
            )
        for small, large in _AT_MOST.items():
            if getattr(self, small) > getattr(self, large):
                raise SettingError(
                    f"{small} ({self.origin(small)}) is {self._shown(small)}, more than {large}"
                    f" ({self.origin(large)}), which is {self._shown(large)}"
                )

    @classmethod
    def load(
        cls,
        *,
        config: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        flags: Mapping[str, object] | None = None,
    ) -> "Settings":
        """Reads the settings; `config` names the file, by default `tarry.toml` in this folder, if there is one.

        `flags` are by name; None is a flag that was not given. Raises SettingError.
        """
        environment = os.environ if environment is None else environment
        values: dict[str, object] = {}
        origins: dict[str, str] = {}
        for source in (_from_file(config, environment), _from_environment(environment), _from_flags(flags or {})):
            for name, value, origin in source:
                parse = cast("Parse[object]", _fields()[name].metadata["parse"])
                try:
                    values[name], origins[name] = parse(value), origin
                except (ValueError, TypeError) as error:
                    raise SettingError(f"{name} ({origin}): {error}") from None
        try:
            values["guards"] = declared.with_secrets(declared.read(values.get("guards", ())), environment)
        except ValueError as error:
            raise SettingError(f"guards: {error}") from None
        return cls(**values, origins=origins)  # type: ignore[arg-type]  # each is what its own parser gave

    @property
    def listen_path(self) -> str | None:
        """The path of the Unix socket in `listen`, if it is one."""
        return self.listen.removeprefix(places.UNIX) if self.listen.startswith(places.UNIX) else None

    @property
    def listen_host(self) -> str:
        """The host of `listen`; for a Unix socket `localhost`, which is the host that its clients name."""
        return "localhost" if self.listen_path is not None else self.listen.rpartition(":")[0].strip("[]")

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which clients may call the server, in addition to its addresses."""
        told = (places.host_of(self.advertise),) if self.advertise else ()
        return (self.listen_host, *self.hosts, *told)

    @property
    def url(self) -> str:
        """The server's URL, as a client on this machine writes it; for a Unix socket `listen` itself."""
        if self.listen_path is not None:
            return self.listen
        return f"{self.scheme}://{self.listen}"

    @property
    def scheme(self) -> str:
        return "https" if self.tls_cert else "http"

    @property
    def is_beyond(self) -> bool:
        host = self.listen_host
        try:
            return not (host == "localhost" or ip_address(host).is_loopback)
        except ValueError:
            return True

    @property
    def always_asks(self) -> bool:
        """Whether keys are required even if none was ever created."""
        return self.is_beyond and not self.insecure_listen

    @property
    def _twice_a_message(self) -> int:
        # Escaped in a statement, a byte may take two; the statement's rest, with ids and keys, fits into what is added.
        return 2 * (self.max_body + MAX_HEADERS) + 64 * _KIB

    def too_little(self, longest: int | None, largest: int | None) -> list[str]:
        """What to do if the database accepts less in one packet, or in one transaction, than a message may need."""
        return [wrong for wrong in (self.wrong_packet(longest), self.wrong_cache(largest)) if wrong is not None]

    def wrong_cache(self, largest: int | None) -> str | None:
        """What to do if a transaction may write no more than `largest` bytes and messages may need more; None if they
        fit."""
        # A promotion writes a message twice: deleted from `delay`, and inserted into the stream.
        wanted = self._twice_a_message
        if largest is None or largest >= wanted:
            return None
        return (
            f"max_binlog_cache_size of the database lets a transaction write {largest} bytes at the most: messages"
            f" near max_body ({format_size(self.max_body)}) are refused; raise it to {wanted}, or lower max_body"
        )

    def wrong_packet(self, longest: int | None) -> str | None:
        """What to do if the database accepts no packet beyond `longest` bytes and messages may be longer; None if they
        fit."""
        wanted = max(_MIB, self._twice_a_message)
        if longest is None or longest + _KIB >= wanted:
            return None
        return (
            f"max_allowed_packet of the database lets no more than {longest} bytes through at once: messages near"
            f" max_body ({format_size(self.max_body)}) are refused; raise it to {wanted} or more, or lower max_body"
        )

    def origin(self, name: str) -> str:
        """Where the value came from: "default", the file, the variable or the flag."""
        return self._origins.get(name, "default")

    def listed(self) -> list[tuple[str, str, str]]:
        """(name, value, origin) of every setting, as texts without secrets."""
        return [(name, self._shown(name), self.origin(name)) for name in _fields()]

    def _shown(self, name: str) -> str:
        return cast(str, _fields()[name].metadata["show"](getattr(self, name)))


Source = Iterator[tuple[str, object, str]]


def _fields() -> "dict[str, attrs.Attribute[object]]":
    return {field.name: field for field in attrs.fields(Settings) if field.metadata}


def _from_file(config: str | Path | None, environment: Mapping[str, str]) -> Source:
    named = config or environment.get("TARRY_CONFIG")
    path = Path(named or CONFIG_NAME)
    try:
        table = toml_of(path)
    except ValueError as error:
        if isinstance(error.__cause__, FileNotFoundError) and not named:
            return
        raise SettingError(str(error)) from None
    for name, value in table.items():
        if name not in _fields():
            raise SettingError(f"{path}: unknown setting {name!r}{_nearest(name, _fields())}")
        yield name, value, str(path)


def _from_environment(environment: Mapping[str, str]) -> Source:
    known = {f"{_PREFIX}{name.upper()}": name for name in _fields() if name != "guards"}
    files = {f"{_PREFIX}{name.upper()}{FILE}": name for name in ("dsn", "redis", "alarm_url")}
    for variable, value in environment.items():
        if not variable.startswith(_PREFIX) or _FOREIGN.fullmatch(variable) or declared.is_variable(variable):
            continue
        if variable in known:
            if not value:
                raise SettingError(f"{known[variable]} ({variable}): it is empty; unset it to have the default")
            yield known[variable], value, variable
        elif variable in files:
            try:
                found = secret(variable.removesuffix(FILE), environment)
            except ValueError as error:
                raise SettingError(f"{files[variable]}: {error}") from None
            if found is not None:
                yield files[variable], *found
        else:
            raise SettingError(f"unknown variable {variable}{_nearest(variable, [*known, *files])}")


def _from_flags(flags: Mapping[str, object]) -> Source:
    for name, value in flags.items():
        if name not in _fields():
            raise SettingError(f"unknown setting {name!r}{_nearest(name, _fields())}")
        if value is not None:
            yield name, value, f"--{name.replace('_', '-')}"


def _nearest(name: str, known: "Mapping[str, object] | list[str]") -> str:
    near = get_close_matches(name, list(known), 1)
    return f": did you mean {near[0]}?" if near else ""
