"""Settings of the server that are worth a word: what they lose, and what they cost."""

from collections.abc import Iterable, Mapping, Sequence

QUERY = (
    b"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin',"
    b" 'innodb_log_writer_threads', 'binlog_format', 'disabled_storage_engines', 'enforce_storage_engine',"
    b" 'max_binlog_cache_size', 'group_replication_group_name', 'group_replication_single_primary_mode')"
    b" OR Variable_name LIKE 'rpl\\_semi\\_sync\\_%'"
)
_LONG = 3_600_000
"""Milliseconds: no replica should be away for so long that nobody has looked."""
STATUS_QUERY = b"SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'"
"""No variable: it is set by ALTER INSTANCE, which MySQL has since 8.0.21 and MariaDB has not."""


def read(rows: Iterable[Sequence[object]]) -> dict[str, str]:
    """By name, in capitals; those that the server does not know are not there."""
    return {text(name): text(value).upper() for name, value in rows}


def lossy(settings: Mapping[str, str]) -> list[str]:
    """Under which an answered commit may be lost with the machine."""
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
    """Of a group in multi-primary mode, for one who names several of its members."""
    if not settings.get("group_replication_group_name") or settings["group_replication_single_primary_mode"] != "OFF":
        return []
    return [
        "the replication group has several primaries: what one of them has locked the others give out. Name one host,"
        " the same in the DSN of all servers, or SELECT group_replication_switch_to_single_primary_mode()"
    ]


def slow(settings: Mapping[str, str]) -> list[str]:
    """Without threads of its own for the redo log, a choice that MySQL has since 8.0.22 and MariaDB has not, all
    sessions that commit were seen to stand for 100 ms at once, 17 times in a minute of commits by eight sessions with
    the data in memory; with them, in turn on the same server, not once. By the stacks of mysqld the first of the group
    waits in `log_buffer_wait_for_ready_for_write_lsn` for a wake-up that was lost, until its time-out."""
    if settings.get("innodb_log_writer_threads") != "OFF":
        return []
    return [
        "innodb_log_writer_threads is OFF: so COMMIT was seen to take 100 ms now and then, and all that waits for it."
        " SET PERSIST innodb_log_writer_threads = ON, which needs no restart"
    ]


def falling_back(settings: Mapping[str, str]) -> list[str]:
    """Semi-synchronous replication answers without a replica when none has been heard for long; and with AFTER_COMMIT
    others have seen what a failover loses."""
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
    """What a server calls a name or a value, which comes as bytes from some."""
    return value.decode() if isinstance(value, bytes) else str(value)
