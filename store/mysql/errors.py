"""Maps the servers' error numbers to the store's errors; no other file knows the numbers."""

import re

from ..errors import Contention, Denied, DuplicateKey, Full, Locked, ReadOnly, Refused, StoreError, Unavailable, Unfit

# The session is gone, or the server ends it, so its statement may or may not have been executed. 1317 is a KILL.
CUT_OFF = frozenset({1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1317, 1927, 3169, 4031})
# A full disk (3, 1021, 1026, 1030, 1114), not ready (3032, 3168), out of memory or time (the rest): the statement is
# correct, and was not executed.
_UNABLE = frozenset({3, 1021, 1026, 1030, 1037, 1038, 1041, 1114, 1129, 1135, 1637, 1969, 3024, 3032, 3168})
# Too many sessions: in all, or of this account.
_FULL = frozenset({1040, 1203, 1226})
# The server is read-only: it says so before it begins to commit, so nothing is kept. 1290 may also be about another
# option, which the message names.
ROLLED_BACK = frozenset({1290, 1792, 1836})
# Cut off by Galera (1047) or group replication (3100), a server takes no writes either; but the outcome of a COMMIT
# that they stop is unknown.
_READ_ONLY = ROLLED_BACK | {1047, 3100}
# The account lacks a right: to the database, a table, a column, a routine, or a right of the server.
_DENIED = frozenset({1044, 1142, 1143, 1227, 1370})
# Lock wait, NOWAIT.
_LOCKED = frozenset({1205, 3572})
# Deadlock; 1020 is MariaDB's "record has changed", 1412 a table altered since the transaction began, 3101 a group
# replication rollback.
_CONTENTION = frozenset({1020, 1213, 1412, 1614, 1689, 3058, 3101})
_DUPLICATE = frozenset({1022, 1062, 1586})
# The data do not fit their column: too long, out of range, malformed. All other refusals are due to the server: its
# settings, its rights, its tables.
_DATA = frozenset({1048, 1264, 1265, 1292, 1300, 1366, 1367, 1406, 1411, 1690, 3140, 3141})
_TOO_LONG = 1153
_SETTINGS = {
    1104: "max_join_size of the database is too small for what Tarry reads",
    1197: "max_binlog_cache_size of the database is too small for this",
    _TOO_LONG: "max_allowed_packet of the database is too small for this",
    1665: "binlog_format of the database is STATEMENT, with which nothing can be written: it is to be ROW or MIXED",
    **dict.fromkeys(_DENIED, "Tarry's user of the database lacks a right"),
    **dict.fromkeys((1286, 3161), "the database has InnoDB turned off"),
}
# A number is out of range: `statements.exactly` causes it when a statement has not matched as many rows as it must.
_OUT_OF_RANGE = 1690
_PREVENTED = 1290
_OPTION = re.compile(r"--([\w-]+)")
_READS_ONLY = re.compile("read[-_]only")
_QUOTA_USED_UP = 1226
_RESOURCE = re.compile(r"'(max_\w+)' resource")
# The limits per hour: from the name in the error message of MySQL or MariaDB to the name of the setting.
_HOURLY = {
    "max_questions": "max_queries_per_hour",
    "max_updates": "max_updates_per_hour",
    **{name: name for name in ("max_queries_per_hour", "max_updates_per_hour", "max_connections_per_hour")},
}


def to_store_error(code: int, message: str) -> StoreError:
    """The store's error for a server's error. A number in no list is due to the server, and lasts (`Unfit`)."""
    text = f"{message} ({code})"
    if code in _DUPLICATE:
        return DuplicateKey(text, code)
    if code in _LOCKED:
        return Locked(text, code)
    if code in _CONTENTION:
        return Contention(text, code)
    if code == _PREVENTED and (option := _OPTION.search(message)) and not _READS_ONLY.search(option[1]):
        return Unfit(text, code, setting=f"the database runs with the option {option[0]}, which prevents this")
    if code in _READ_ONLY:
        return ReadOnly(text, code)
    if code in _DENIED:
        return Denied(text, code, setting=_SETTINGS[code])
    if code in _FULL:
        resource = _RESOURCE.search(message) if code == _QUOTA_USED_UP else None
        return Full(text, code, quota=None if resource is None else _HOURLY.get(resource[1]))
    if code in CUT_OFF or code in _UNABLE or 2000 <= code < 3000:
        return Unavailable(text, code)
    if code == _OUT_OF_RANGE and "exp(999)" in message:
        return StoreError(f"locked rows are not as they were found; the transaction is rolled back: {text}")
    if code in _DATA:
        return Refused(text, code)
    return Unfit(text, code, setting=_SETTINGS.get(code))


def too_long(what: str, length: int, room: int) -> Unfit:
    """The error for a statement that is too long to be sent: the server would cut the connection."""
    text = f"{what} of {length} bytes; the server takes {room}: raise max_allowed_packet ({_TOO_LONG})"
    return Unfit(text, _TOO_LONG, setting=_SETTINGS[_TOO_LONG])
