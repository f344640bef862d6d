"""The commands `serve`, `migrate` and `config show`, which use the settings of the server."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import attrs
from cyclopts import Parameter

from ...store.opening import check_dsn, is_shared, migrations_for, open_backend
from ..settings import SettingError, Settings
from ..upkeep.collector import still_collector
from ..upkeep.redis_check import check_redis
from .flags import flag, whole
from .printing import note, print_items, print_json, print_line
from .store_options import StoreOptions


@Parameter(name="*")
@attrs.frozen(kw_only=True)
class Flags(StoreOptions):
    """The settings that have flags. Those left out come from the environment, the file or the defaults."""

    redis: Annotated[str | None, Parameter(help="A Redis for notices and sequencers: redis://host:6379/0.")] = None
    listen: Annotated[
        str | None, Parameter(help="Where HTTP is served: host:port or unix:PATH; 127.0.0.1:8277 by default.")
    ] = None
    socket_mode: Annotated[str | None, Parameter(help="Of the Unix socket in --listen; 600 by default.")] = None
    insecure_listen: Annotated[bool | None, flag("Listen beyond this machine though there is no key.")] = None
    tls_cert: Annotated[str | None, Parameter(help="A certificate, PEM, with its chain: serve HTTPS.")] = None
    tls_key: Annotated[str | None, Parameter(help="The certificate's key, PEM.")] = None
    hosts: Annotated[
        str | None, Parameter(help="Names by which clients may call the server, beside its own: a.example,b.example.")
    ] = None
    advertise: Annotated[
        str | None, Parameter(help="Where others reach this server: http://tarry-1.internal:8277; by default --listen.")
    ] = None
    node: Annotated[str | None, Parameter(help="This server's name among others; the host's by default.")] = None
    processes: Annotated[
        int | None, whole("How many serve, on one address: one for each core. Not with the embedded store.")
    ] = None
    log_level: Annotated[str | None, Parameter(help="debug, info, warning or error.")] = None
    log_format: Annotated[str | None, Parameter(help="console, json, or auto: console on a terminal.")] = None


_NO_FLAGS = Flags()


@contextmanager
def _hidden(package: str) -> Generator[None, None, None]:
    """Hides a package from modules that are imported in the block: structlog would load rich, an eighth of a server's
    start, for tracebacks that we do not show."""
    modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == package}
    for name in modules:
        del sys.modules[name]
    sys.modules[package] = None  # type: ignore[assignment]  # as Python's reference documents: makes the import fail
    try:
        yield
    finally:
        del sys.modules[package]
        sys.modules |= modules


def check_processes(settings: Settings) -> None:
    """Raises `SettingError` if there are several processes and the store allows only one."""
    if settings.processes > 1 and not is_shared(settings.dsn):
        raise SettingError(
            f"processes ({settings.origin('processes')}) is {settings.processes}, and the embedded store is for one:"
            " set dsn to a MySQL or MariaDB (mysql://user:pw@host/db), or leave processes out"
        )


def serve(*, flags: Flags = _NO_FLAGS) -> int:
    """Run the server, until SIGTERM or Ctrl-C.

    Every setting can be in tarry.toml or in the environment (TARRY_DSN, ...); `tarry config show` lists them.
    """
    settings = flags.settings()
    check_dsn(settings.dsn)
    check_redis(settings)
    check_processes(settings)
    still_collector()
    with _hidden("rich"):
        import structlog
    from ..serve import run  # loaded late: other commands do not need the server, nor does one with wrong settings

    try:
        return run(settings)
    except Exception:
        structlog.get_logger().exception("crashed")
        return 1


def migrate(
    *,
    print_sql: Annotated[bool, flag("Print the SQL and change nothing.", name="--print")] = False,
    json: Annotated[bool, flag("One JSON line per migration.")] = False,
    flags: Flags = _NO_FLAGS,
) -> int:
    """Bring the database's schema to this version of Tarry.

    `tarry serve` does it by itself. --print shows all migrations for this kind of database in order, including those
    that it has already.
    """
    settings = flags.settings()
    if print_sql:
        for migration in migrations_for(settings.dsn):
            if json:
                print_json({"version": migration.version, "name": migration.name, "sql": migration.text})
                continue
            print_line(f"-- {migration.version:04} {migration.name}\n{migration.text.rstrip()}\n")
        return 0
    import trio

    applied = trio.run(_migrate, settings.dsn)
    for name in applied:
        if json:
            print_json({"applied": name})
        else:
            print_line(f"applied {name}")
    if not applied and not json:
        note("The schema is up to date.")
    return 0


async def _migrate(dsn: str) -> list[str]:
    backend = await open_backend(dsn)
    try:
        return await backend.migrate()
    finally:
        await backend.aclose()


def show(
    *,
    origin: Annotated[bool, flag("Say where each value comes from.")] = False,
    json: Annotated[bool, flag("One JSON line per setting.")] = False,
    flags: Flags = _NO_FLAGS,
) -> int:
    """Show the settings that `tarry serve` would use here.

    Passwords are hidden.
    """
    rows = flags.settings().listed()
    shown = 3 if origin else 2
    records = [dict(zip(("name", "value", "origin")[:shown], row, strict=False)) for row in rows]
    print_items(records, ("setting", "value", "origin")[:shown], [row[:shown] for row in rows], json=json)
    return 0
