"""A server is judged by what it does: two sessions and one row. The one that does not lock is a real one, but for words
that a line in front of it takes away."""

import pytest

from support.servers import Line
from tarry.service.cli.doctor import _wrong_store
from tarry.store.errors import Full, ReadOnly, Refused, Unfit
from tarry.store.migrations import Migration
from tarry.store.mysql import connection as module
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.mysql.errors import to_store_error
from tarry.store.mysql.fitness import rights_for, wrong_settings
from tarry.store.mysql.hosts import _of_all
from tarry.store.mysql.server_settings import falling_back, lossy, several_primaries


async def test_an_engine_that_does_not_lock(backend: MySQLBackend, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the words and locks nothing, as some that call themselves MySQL do."""
    assert await backend.migrate() == []
    for blank, seen in (
        ((b" FOR UPDATE SKIP LOCKED", b" FOR UPDATE"), "given to another that asked with SKIP LOCKED"),
        ((b" FOR UPDATE NOWAIT",), "two sessions had one row locked FOR UPDATE at the same time"),
    ):
        line.blank = ()
        other = MySQLBackend(line.dsn)
        assert await other.faults() == []
        line.blank = blank
        with pytest.raises(Unfit, match=f"{seen}.*MySQL 8.0 or MariaDB 10.6"):
            await other.migrate()
        ((check, told),) = await other.faults()
        assert (check, seen in told, "TiDB" in told) == ("server", True, False)
        await other.aclose()
    monkeypatch.setattr(module, "_WHO", module._WHO.replace(b"VERSION()", b"'8.0.11-TiDB-v8.5.6'"))
    other = MySQLBackend(line.dsn)
    ((_, told),) = await other.faults()
    assert "TiDB reads SKIP LOCKED and takes no lock" in told, "by a name that is known"
    line.blank = ()
    assert await other.migrate() == [], "by what it does, whatever its name"
    await other.aclose()


def test_settings_with_which_nothing_is_written() -> None:
    good = {"log_bin": "ON", "binlog_format": "ROW", "disabled_storage_engines": "MYISAM", "enforce_storage_engine": ""}
    assert wrong_settings(good) == wrong_settings({}) == []
    assert wrong_settings(good | {"log_bin": "OFF", "binlog_format": "STATEMENT"}) == []
    for odd in (
        {"binlog_format": "STATEMENT"},
        {"disabled_storage_engines": "MYISAM,INNODB"},
        {"enforce_storage_engine": "ARIA"},
    ):
        (told,) = wrong_settings(good | odd)
        assert told.startswith(next(iter(odd)))


def test_the_rights_that_migrations_want() -> None:
    makes = Migration(1, "m", "CREATE TABLE IF NOT EXISTS a (x INT);\n")
    changes = Migration(2, "m", "ALTER TABLE a ADD COLUMN y INT NULL;\nINSERT IGNORE INTO a VALUES (1);\n")
    for_good = ("SELECT", "INSERT", "UPDATE", "DELETE")
    assert rights_for([]) == for_good
    assert rights_for([makes]) == (*for_good, "CREATE")
    assert rights_for([makes, changes]) == (*for_good, "CREATE", "ALTER")


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        (1104, "max_join_size"),
        (1153, "max_allowed_packet"),
        (1197, "max_binlog_cache_size"),
        (1665, "binlog_format"),
        (1142, "lacks a right"),
        (3161, "InnoDB turned off"),
        (1193, None),
        (1054, None),
    ],
)
def test_what_is_due_to_the_server_is_no_caller_s_fault(code: int, setting: str | None) -> None:
    error = to_store_error(code, "no")
    assert isinstance(error, Unfit)
    assert (error.setting is None) if setting is None else setting in (error.setting or "")


@pytest.mark.parametrize("code", [1264, 1366, 1406])
def test_what_does_not_fit_is(code: int) -> None:
    error = to_store_error(code, "no")
    assert isinstance(error, Refused)
    assert not isinstance(error, Unfit)


def test_an_option_that_prevents_a_statement_is_named() -> None:
    said = "The MariaDB server is running with the {} option so it cannot execute this statement"
    error = to_store_error(1290, said.format("--max-session-mem-used"))
    assert isinstance(error, Unfit)
    assert "--max-session-mem-used" in (error.setting or "")
    for option in ("--read-only", "--super-read-only", "--innodb-read-only", "--read_only"):
        assert isinstance(to_store_error(1290, said.format(option)), ReadOnly)


@pytest.mark.parametrize(
    ("said", "quota"),
    [
        ("max_questions", "max_queries_per_hour"),  # MySQL
        ("max_updates", "max_updates_per_hour"),
        ("max_queries_per_hour", "max_queries_per_hour"),  # MariaDB
        ("max_updates_per_hour", "max_updates_per_hour"),
        ("max_connections_per_hour", "max_connections_per_hour"),
    ],
)
def test_a_quota_of_an_hour_is_named(said: str, quota: str) -> None:
    error = to_store_error(1226, f"User 'a' has exceeded the '{said}' resource (current value: 5)")
    assert isinstance(error, Full)
    assert error.quota == quota
    finding = _wrong_store("mysql://a@b/c", error)
    assert finding.check == "connections"
    assert finding.detail.startswith(f"{quota} of Tarry's user")
    found = _of_all([ReadOnly("it is read-only"), error])
    assert isinstance(found, Full)
    assert found.quota == quota


def test_a_limit_of_sessions_is_none() -> None:
    error = to_store_error(1226, "User 'a' has exceeded the 'max_user_connections' resource (current value: 5)")
    assert isinstance(error, Full)
    assert error.quota is None
    assert "all its sessions are in use" in _wrong_store("mysql://a@b/c", error).detail


def test_a_redo_log_that_is_disabled_loses_commits() -> None:
    good = {"innodb_flush_log_at_trx_commit": "1"}
    assert lossy(good) == lossy(good | {"Innodb_redo_log_enabled": "ON"}) == []
    (told,) = lossy(good | {"Innodb_redo_log_enabled": "OFF"})
    assert "redo log" in told


async def test_the_redo_log_is_asked_for_where_there_is_a_choice(mysql_dsn: str) -> None:
    backend = MySQLBackend(mysql_dsn)
    try:
        settings = await backend._settings()
        # On MariaDB there is none.
        assert settings.get("Innodb_redo_log_enabled", "ON") == "ON"
        assert ("Innodb_redo_log_enabled" in settings) == ("innodb_log_writer_threads" in settings)
        largest = await backend.largest_transaction()
        assert (largest is None) == (settings["log_bin"] != "ON")
        assert largest is None or largest > 1 << 40
    finally:
        await backend.aclose()


@pytest.mark.parametrize("role", ["master", "source"])
def test_semi_synchronous_replication_that_goes_on_without_a_replica(role: str) -> None:
    name = f"rpl_semi_sync_{role}"
    good = {f"{name}_enabled": "ON", f"{name}_timeout": "3600000", f"{name}_wait_point": "AFTER_SYNC"}
    off = {f"{name}_enabled": "OFF", f"{name}_timeout": "10000", f"{name}_wait_point": "AFTER_COMMIT"}
    assert falling_back({}) == falling_back(good) == falling_back(off) == []
    short, late = falling_back(off | {f"{name}_enabled": "ON"})
    assert f"{name}_timeout is 10000: with no replica for 10 s commits are answered without one" in short
    assert f"SET GLOBAL {name}_wait_point = AFTER_SYNC" in late


async def test_what_is_asked_of_semi_synchronous_replication(mysql_dsn: str) -> None:
    """MariaDB has it in the server, MySQL in a plug-in that may not be there."""
    backend = MySQLBackend(mysql_dsn)
    try:
        settings = await backend._settings()
        semi = [name for name in settings if name.startswith("rpl_semi_sync_")]
        assert bool(semi) == ("innodb_log_writer_threads" not in settings)
    finally:
        await backend.aclose()


def test_a_group_of_several_primaries() -> None:
    single = {"group_replication_group_name": "AAAA-1", "group_replication_single_primary_mode": "ON"}
    none = {"group_replication_group_name": "", "group_replication_single_primary_mode": "OFF"}
    assert several_primaries({}) == several_primaries(single) == several_primaries(none) == []
    (told,) = several_primaries(single | {"group_replication_single_primary_mode": "OFF"})
    assert "several primaries" in told
