"""Warnings about settings of the server: those that may lose commits, and those that cost time."""

from collections.abc import Iterable, Mapping, Sequence

QUERY = (
    b"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',"
    b" 'innodb_log_writer_threads', 'binlog_format', 'disabled_storage_engines', 'enforce_storage_engine',"
    b" 'max_binlog_cache_size', 'group_replication_group_name', 'group_replication_single_primary_mode')"
    b" OR Variable_name LIKE 'rpl\\_semi\\_sync\\_%'"
)
_LONG = 3_600_000
"""Milliseconds: long enough that somebody notices a replica that is away."""
STATUS_QUERY = b"SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'"
"""A status and not a variable: it is set by ALTER INSTANCE, which MySQL has since 8.0.21 and MariaDB does not have."""


def read(rows: Iterable[Sequence[object]]) -> dict[str, str]:
    """The values by name, in capitals; settings that the server does not know are missing."""
    return {text(name): text(value).upper() for name, value in rows}


def lossy(settings: Mapping[str, str]) -> list[str]:
    """Settings under which an acknowledged commit may be lost with the machine."""
    problems: list[str] = []
    if settings.get("innodb_flush_log_at_trx_commit") != "1":
        problems.append("innodb_flush_log_at_trx_commit is not 1: a crash of the server's machine loses up to a second")
    if settings.get("Innodb_redo_log_enabled") == "OFF":
        problems.append(
            "the redo log of InnoDB is disabled: a crash of the server loses what was committed, or the whole of its"
            " data. ALTER INSTANCE ENABLE INNODB REDO_LOG"
        )
    if settings.get("log_bin") == "ON" and settings.get("sync_binlog") != "1":
        problems.append("sync_binlog is not 1: a crash of the server's machine loses commits on the replicas")
    return problems


def several_primaries(settings: Mapping[str, str]) -> list[str]:
    """Warns about a group in multi-primary mode, for a DSN that names several of its members."""
    if not settings.get("group_replication_group_name") or settings["group_replication_single_primary_mode"] != "OFF":
        return []
    return [
        "the replication group has several primaries: what one of them has locked the others give out. Name one host,"
        " the same in the DSN of all servers, or SELECT group_replication_switch_to_single_primary_mode()"
    ]


def slow(settings: Mapping[str, str]) -> list[str]:
    """Warns when the redo log has no writer threads of its own, a choice that MySQL has since 8.0.22 and MariaDB does
    not have. Without them all committing sessions were seen to stall for 100 ms at once, 17 times in a minute of
    commits by eight sessions with the data in memory; with them, on the same server, never. By the stacks of mysqld,
    the first session of the group waits in `log_buffer_wait_for_ready_for_write_lsn` for a lost wake-up, until its
    timeout."""
    if settings.get("innodb_log_writer_threads") != "OFF":
        return []
    return [
        "innodb_log_writer_threads is OFF: so COMMIT was seen to take 100 ms now and then, and all that waits for it."
        " SET PERSIST innodb_log_writer_threads = ON, which needs no restart"
    ]


def falling_back(settings: Mapping[str, str]) -> list[str]:
    """Warns about semi-synchronous replication: after a timeout it acknowledges commits without a replica; and with
    AFTER_COMMIT other sessions see commits that a failover loses."""
    problems: list[str] = []
    for role in ("master", "source"):
        name = f"rpl_semi_sync_{role}"
        if settings.get(f"{name}_enabled") != "ON":
            continue
        timeout = int(settings.get(f"{name}_timeout", _LONG))
        if timeout < _LONG:
            problems.append(
                f"{name}_timeout is {timeout}: with no replica for {timeout / 1000:g} s commits are answered without"
                f" one, and a failover loses them. SET GLOBAL {name}_timeout = {_LONG} or more"
            )
        if settings.get(f"{name}_wait_point") == "AFTER_COMMIT":
            problems.append(
                f"{name}_wait_point is AFTER_COMMIT: others act on what a failover loses. SET GLOBAL {name}_wait_point"
                " = AFTER_SYNC"
            )
    return problems


def text(value: object) -> str:
    """A name or a value as str; some servers return it as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
