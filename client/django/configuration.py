"""The settings: `TARRY = {...}` in the project's settings; OPTIONS of a backend in TASKS override them."""

# Django has no types of its own.
# pyright: standard, reportMissingTypeStubs=false

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from attrs import fields_dict, frozen
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


@frozen(kw_only=True)
class Configuration:
    """The settings, whose names are written in capitals there."""

    url: str | None = None
    """The server's address; by default that of the environment, see `Tarry`."""
    key: str | None = None
    """The API key; by default that of the environment, see `Tarry`."""
    deadline: float = 5.0
    """Seconds until a publish gives up while the server is away."""
    database: str = "default"
    """The alias of the database whose transactions publishing follows, and that has the results of tasks."""
    outbox: bool = False
    """Whether messages are written into that database, a MySQL or MariaDB that has Tarry's tables too."""
    outbox_database: str | None = None
    """The name of the database with Tarry's tables; None for the connection's own."""
    prefix: str = "django"
    """The beginning of the names of the tasks' topics."""
    group: str = "workers"
    """The consumer group of the workers."""
    max_attempts: int = 1
    """How often a task that raises is run, at most."""
    retry_after: float = 10.0
    """Seconds until its second attempt; twice as long before each further one, two hours at most."""


_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("database", "prefix", "group"), str),
    **dict.fromkeys(("url", "key", "outbox_database"), (str, type(None))),
    **dict.fromkeys(("deadline", "retry_after"), (int, float)),
    "outbox": bool,
    "max_attempts": int,
}


def configuration(options: Mapping[str, Any] | None = None) -> Configuration:
    """The project's settings, overridden by the options of a backend. Raises ImproperlyConfigured."""
    said = _read(getattr(settings, "TARRY", {}), "TARRY") | _read(options or {}, "OPTIONS")
    return Configuration(**said)


def _read(said: Mapping[str, Any], where: str) -> dict[str, Any]:
    names = {name.upper(): name for name in fields_dict(Configuration)}
    for name, value in said.items():
        if name not in names:
            near = get_close_matches(str(name).upper(), names, 1)
            hint = f": did you mean {near[0]}?" if near else f": it is one of {', '.join(names)}"
            raise ImproperlyConfigured(f"{where}[{name!r}]: there is no such setting{hint}")
        kind = _KINDS[names[name]]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ImproperlyConfigured(f"{where}[{name!r}]: {value!r} is not of the kind that it takes ({kind})")
    for name, least in (("MAX_ATTEMPTS", 1), ("RETRY_AFTER", 0), ("DEADLINE", 0)):
        if said.get(name, least) < least:
            raise ImproperlyConfigured(f"{where}[{name!r}]: {said[name]} is too few, say {least} or more")
    return {names[name]: value for name, value in said.items()}
