"""The variables that each session sets before anything else, and why: no server default is trusted.

Of all variables that `SHOW VARIABLES` lists on MySQL 9.7 and MariaDB 10.11, those are set here that change what Tarry's
statements mean, what they return, or how long they wait. None of them needs a right of its own.

These are left as the server has them: variables that need rights (`sql_log_bin`, `binlog_*`, `enforce_storage_engine`,
`innodb_strict_mode`, `sql_require_primary_key`; `fitness` checks those that matter); those of a cluster's numbers
(`auto_increment_*`, `gtid_*`, `group_replication_consistency`, `wsrep_sync_wait`), since no statement relies on the
next number; limits of memory (`max_session_mem_used`, `connection_memory_limit`, `tmp_*`), whose errors name them;
choices among plans (`optimizer_switch` and the like), since a statement that needs a certain plan has a hint; logging,
tracing and profiling; and features that no statement uses (views, `/`, GROUP_CONCAT, recursion, JSON, temporary and
MyISAM tables).
"""

from typing import Literal, NamedTuple

Kind = Literal["write", "read", "migrate"]


class Waits(NamedTuple):
    """Timeouts of a session, in seconds."""

    idle: int
    """How long the server lets a session be idle. A writer that is paused or cut off must not keep its row locks: the
    server releases them by itself, so no other session needs to KILL it, or the right to do so."""
    line: int
    """How long the server waits for the rest of a statement, or for its answer to be read: the client may be paused in
    the middle of either."""
    row: int
    """How long a statement waits for a row lock. A writer keeps its own locks meanwhile, so others wait with it."""
    table: int
    """How long a statement waits for a table lock: LOCK TABLES, FLUSH TABLES WITH READ LOCK, an ALTER that waits for
    readers. A migration that waits behind a reader keeps all others from the table."""


WAITS: dict[Kind, Waits] = {
    "write": Waits(idle=2, line=2, row=1, table=1),
    "read": Waits(idle=600, line=60, row=10, table=2),
    "migrate": Waits(idle=600, line=60, row=10, table=5),
}

_ALL = str(2**64 - 1)


class Setting(NamedTuple):
    """One variable."""

    name: str
    value: str
    why: str
    of: Literal["both", "mysql", "mariadb"] = "both"


SETTINGS = (
    Setting("time_zone", "'+00:00'", "times are UTC"),
    Setting("autocommit", "1", "`Connection.begin` turns it off"),
    Setting("completion_type", "0", "1 begins a transaction behind each COMMIT, 2 hangs up"),
    Setting(
        "sql_mode",
        "'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
        "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
        'what does not fit is an error and not cut; `"` and `||` mean what they do; no table of another engine',
    ),
    Setting("transaction_isolation", "'READ-COMMITTED'", "with more, gaps are locked", "mysql"),
    Setting("transaction_read_only", "0", "it writes", "mysql"),
    Setting("tx_isolation", "'READ-COMMITTED'", "with more, gaps are locked", "mariadb"),
    Setting("tx_read_only", "0", "it writes", "mariadb"),
    Setting("sql_select_limit", _ALL, "it cuts answers without a word"),
    Setting("max_join_size", _ALL, "it refuses statements by what they may read"),
    Setting("sql_big_selects", "1", "the same; behind `max_join_size`, which sets it"),
    Setting("max_execution_time", "0", "it ends a SELECT: how long is waited is said here", "mysql"),
    Setting("max_statement_time", "0", "the same of any statement", "mariadb"),
    Setting("idle_transaction_timeout", "0", "it ends a session that `wait_timeout` lets live", "mariadb"),
    Setting("idle_write_transaction_timeout", "0", "the same", "mariadb"),
    Setting("idle_readonly_transaction_timeout", "0", "the same", "mariadb"),
    Setting("sql_auto_is_null", "0", "with it IS NULL finds the last row that was inserted"),
    Setting("unique_checks", "1", "without it a second row of a unique key may get in"),
    Setting("foreign_key_checks", "1", "with neither MariaDB locks an empty table that is inserted into"),
    Setting("max_sort_length", "1024", "ORDER BY looks at so many bytes: keys have 255"),
    Setting("lc_messages", "'en_US'", "errors tell the key, and which function, in their text"),
    Setting("sql_buffer_result", "0", "each answer a temporary table"),
    Setting(
        "sql_safe_updates", "0", "it refuses UPDATE by what it may read; on MySQL the statements have hints", "mysql"
    ),
    # A scan would wait for row locks of other transactions.
    Setting("sql_safe_updates", "1", "a DELETE goes by the key however few rows the table has", "mariadb"),
    # Otherwise it becomes a scan, which waits for row locks of other transactions.
    Setting("range_optimizer_max_mem_size", "8388608", "a long IN list stays a range over the key", "mysql"),
    # With the default a list of 1000 values is a join with a temporary table, which locks rows in no order at all.
    Setting("in_predicate_conversion_threshold", "0", "a long IN list stays a range over the key", "mariadb"),
    Setting("optimizer_max_sel_arg_weight", "32000", "the same", "mariadb"),
    Setting("system_versioning_asof", "DEFAULT", "a table that keeps its past is read as it is now", "mariadb"),
    Setting("old_mode", "''", "some of its words change what a statement does", "mariadb"),
    Setting("query_cache_type", "0", "no answer out of a cache", "mariadb"),
    Setting("wsrep_dirty_reads", "0", "no answer of a node that is cut off", "mariadb"),
    Setting("wsrep_OSU_method", "'TOI'", "with RSU a migration is done on one node", "mariadb"),
    Setting("sql_if_exists", "0", "a migration counts on the error of what is there", "mariadb"),
    Setting("alter_algorithm", "'DEFAULT'", "INSTANT refuses what it cannot do in an instant", "mariadb"),
)


def set_up(kind: Kind, lacking: frozenset[str] = frozenset()) -> bytes:
    """The statement that sets all variables, without those that the server does not know (`lacking`)."""
    waits = WAITS[kind]
    parts = [
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        f"wait_timeout = {waits.idle}",
        *(f"net_{what}_timeout = {waits.line}" for what in ("read", "write")),
        f"innodb_lock_wait_timeout = {waits.row}",
        f"lock_wait_timeout = {waits.table}",
    ]
    text = ", ".join(parts)
    # `/*!80000 */` is for MySQL alone, `/*M! */` for MariaDB.
    opening = {"both": "", "mysql": "/*!80000 ", "mariadb": "/*M! "}
    for setting in SETTINGS:
        if setting.name not in lacking:
            said = f", {setting.name} = {setting.value}"
            text += f" {opening[setting.of]}{said} */" if setting.of != "both" else said
    return text.encode()
