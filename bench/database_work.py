"""What a load costs the database: processor time, waits for rows that are locked, and commits."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from . import databases
from .report import Figures
from .usage import cpu_of

_COUNTERS = {
    "commits": "Com_commit",
    "row_lock_waits": "Innodb_row_lock_waits",
    "row_lock_wait_ms": "Innodb_row_lock_time",
}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def with_work(dsn: str, load: Callable[[], Figures], messages: Callable[[], int]) -> Figures:
    """What the load gives, and what MySQL or MariaDB did for it: messages to a commit, row-lock waits and their
    milliseconds for 1,000 messages, and, of a database of this machine, processor time for a message. `messages` are
    those so far."""
    pid, before, had = server_pid(dsn), _counters(dsn), messages()
    used = cpu_of(pid) if pid is not None else 0.0
    figures = load()
    many, spent = messages() - had, cpu_of(pid) - used if pid is not None else None
    gained = {name: value - before[name] for name, value in _counters(dsn).items()}
    work: Figures = {} if spent is None else {"database_cpu_us": round(spent / many * 1e6, 1)}
    return figures | work | of_messages(gained, many)


def of_messages(gained: dict[str, int], messages: int) -> Figures:
    """What the counters have gained, as figures of so many messages."""
    thousand = {name: round(gained[name] * 1000 / messages, 2) for name in ("row_lock_waits", "row_lock_wait_ms")}
    return {"messages_to_a_commit": round(messages / max(1, gained["commits"]), 1)} | thousand


def server_pid(dsn: str) -> int | None:
    """The process of the database, if it is one of this machine that tells where its number stands."""
    if urlsplit(dsn).hostname not in _LOOPBACK:
        return None
    ((file, folder),) = databases.ask(dsn, "SELECT @@pid_file, @@datadir")
    with suppress(OSError, ValueError):
        pid = int((Path(folder) / file).read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"mysqld" in command or b"mariadbd" in command:
            return pid
    return None


def _counters(dsn: str) -> dict[str, int]:
    named = ", ".join(f"'{name}'" for name in _COUNTERS.values())
    found = dict(databases.ask(dsn, f"SHOW GLOBAL STATUS WHERE Variable_name IN ({named})"))
    return {ours: int(found[theirs]) for ours, theirs in _COUNTERS.items()}
