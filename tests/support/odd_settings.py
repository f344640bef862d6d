"""Gives a database server unusual settings, plausible and implausible ones, which must not affect any statement of
Tarry's. They are the defaults of new sessions; the old settings are restored afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from support.servers import session_with

_BOTH: Mapping[str, object] = {
    "autocommit": 0,
    "auto_increment_increment": 7,
    "auto_increment_offset": 3,
    "completion_type": "RELEASE",
    "default_storage_engine": "MEMORY",
    "div_precision_increment": 0,
    "eq_range_index_dive_limit": 1,
    "foreign_key_checks": 0,
    "group_concat_max_len": 4,
    "innodb_lock_wait_timeout": 1,
    "innodb_strict_mode": 0,
    "join_buffer_size": 128,
    "lc_messages": "de_DE",
    "lock_wait_timeout": 1,
    "low_priority_updates": 1,
    "max_error_count": 0,
    "max_heap_table_size": 16384,
    "max_join_size": 1,
    "max_seeks_for_key": 1,
    "max_sort_length": 64,
    "optimizer_prune_level": 0,
    "optimizer_switch": "index_merge=off,materialization=off,semijoin=off,mrr=off,index_condition_pushdown=off",
    "sql_auto_is_null": 1,
    "sql_buffer_result": 1,
    "sql_mode": "ANSI,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE",
    "sql_notes": 0,
    "sql_select_limit": 7,
    "time_zone": "+05:45",
    "tmp_table_size": 1024,
    "unique_checks": 0,
    "updatable_views_with_limit": "NO",
    "wait_timeout": 1,
}
_OF: Mapping[str, Mapping[str, object]] = {
    "mysql": {
        "max_execution_time": 1,
        "range_optimizer_max_mem_size": 1,
        "sql_generate_invisible_primary_key": 1,
        "sql_require_primary_key": 1,
        "sql_safe_updates": 1,
        "transaction_isolation": "SERIALIZABLE",
        "transaction_read_only": 1,
    },
    "mariadb": {
        "alter_algorithm": "INSTANT",
        "idle_readonly_transaction_timeout": 1,
        "idle_transaction_timeout": 1,
        "idle_write_transaction_timeout": 1,
        "in_predicate_conversion_threshold": 2,
        "join_cache_level": 8,
        "max_statement_time": 0.001,
        "old_mode": "NO_DUP_KEY_WARNINGS_WITH_IGNORE,ZERO_DATE_TIME_CAST,IGNORE_INDEX_ONLY_FOR_JOIN",
        "optimizer_max_sel_arg_weight": 1,
        "sql_if_exists": 1,
        "system_versioning_asof": "2020-01-01 00:00:00",
        "tx_isolation": "SERIALIZABLE",
        "tx_read_only": 1,
        "use_stat_tables": "never",
        "wsrep_dirty_reads": 1,
        "wsrep_OSU_method": "RSU",
    },
}


@contextmanager
def odd_settings(dsn: str, **others: object) -> Iterator[None]:
    """Sets them on the server of the DSN, for sessions that begin within the block."""
    with session_with(dsn) as cursor:  # opened before, so it does not have them
        cursor.execute("SELECT VERSION()")
        flavour = "mariadb" if "mariadb" in str(cursor.fetchall()).lower() else "mysql"
        odd = {**_BOTH, **_OF[flavour], **others}
        before: dict[str, object] = {}
        for name in odd:
            cursor.execute(f"SELECT @@global.{name}")
            ((before[name],),) = cursor.fetchall()
        try:
            for name, value in odd.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))
            yield
        finally:
            for name, value in before.items():
                # For `system_versioning_asof`, DEFAULT is a keyword, not a string.
                said = "DEFAULT" if value == "DEFAULT" else "%s"
                cursor.execute(f"SET GLOBAL {name} = {said}", () if value == "DEFAULT" else (value,))
