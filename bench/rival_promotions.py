"""Another way to move due rows into the stream, `by_key`, for bench/promote.py to compare with.

The key is (due, id), with an index on id for the cancel: due rows are found and locked by `ORDER BY due, id LIMIT n FOR
UPDATE SKIP LOCKED`, copied by INSERT ... SELECT and deleted, a transaction to a batch. The tables keep the columns that
Tarry's own have; offsets are drawn from a locked row, and rows are copied within the server.
"""

import time
from collections.abc import Sequence

from . import databases

_COLUMNS = """due BIGINT NOT NULL, id BIGINT NOT NULL, nonce BIGINT NOT NULL, topic_id INT UNSIGNED NOT NULL,
  queue_id INT UNSIGNED NOT NULL, `key` VARBINARY(255) NULL, ordering_key VARBINARY(255) NULL, tag VARBINARY(255) NULL,
  headers MEDIUMBLOB NULL, content_type VARBINARY(255) NULL, body MEDIUMBLOB NOT NULL, accepted_at BIGINT NOT NULL,
  deliver_at BIGINT NOT NULL"""
_TABLES = (
    f"CREATE TABLE rival_timer ({_COLUMNS}, PRIMARY KEY (due, id), UNIQUE KEY udx_rival_timer_id (id)) ENGINE=InnoDB",
    """CREATE TABLE rival_stream (queue_id INT UNSIGNED NOT NULL, `offset` BIGINT NOT NULL, id BIGINT NOT NULL,
  nonce BIGINT NOT NULL, `key` VARBINARY(255) NULL, ordering_key VARBINARY(255) NULL, tag VARBINARY(255) NULL,
  headers MEDIUMBLOB NULL, content_type VARBINARY(255) NULL, body MEDIUMBLOB NOT NULL, accepted_at BIGINT NOT NULL,
  deliver_at BIGINT NOT NULL, streamed_at BIGINT NOT NULL, PRIMARY KEY (queue_id, `offset`),
  UNIQUE KEY udx_rival_stream_id (id)) ENGINE=InnoDB""",
    "CREATE TABLE rival_sequence (id INT NOT NULL PRIMARY KEY, next_offset BIGINT NOT NULL) ENGINE=InnoDB",
    "INSERT INTO rival_sequence VALUES (1, 0)",
)
_FILL = """INSERT INTO rival_timer SELECT due, id, nonce, topic_id, queue_id, `key`, ordering_key, tag, headers,
  content_type, body, accepted_at, deliver_at FROM delay"""
_COPY = """INSERT INTO rival_stream SELECT 1, %s + ROW_NUMBER() OVER (ORDER BY due, id) - 1, id, nonce, `key`,
  ordering_key, tag, headers, content_type, body, accepted_at, deliver_at, %s FROM rival_timer WHERE (due, id) IN %s"""
_SESSION = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
_THRESHOLD = "SET SESSION /*M! in_predicate_conversion_threshold = 0, */ autocommit = 0"


def measure(dsn: str, batch: int, seconds: float) -> tuple[int, float]:
    """Promotes the rows that wait in `delay` for so long, or until nothing is left: (rows, rows a second)."""
    with databases.log_in(dsn) as connection, connection.cursor() as cursor:
        for statement in (*_TABLES, _FILL, _SESSION):
            cursor.execute(statement)
        cursor.execute("SELECT MAX(due) FROM rival_timer")
        ((now,),) = cursor.fetchall()
        cursor.execute(_THRESHOLD)
        rows = 0
        began = time.perf_counter()
        while (took := time.perf_counter() - began) <= seconds:
            cursor.execute(
                "SELECT due, id FROM rival_timer WHERE due <= %s ORDER BY due, id LIMIT %s FOR UPDATE SKIP LOCKED",
                (now, batch),
            )
            keys: Sequence[tuple[int, int]] = cursor.fetchall()
            if not keys:
                break
            cursor.execute("SELECT next_offset FROM rival_sequence WHERE id = 1 FOR UPDATE")
            ((begin,),) = cursor.fetchall()
            cursor.execute("UPDATE rival_sequence SET next_offset = %s WHERE id = 1", (begin + len(keys),))
            cursor.execute(_COPY, (begin, now, keys))
            cursor.execute("DELETE FROM rival_timer WHERE (due, id) IN %s", (keys,))
            connection.commit()
            rows += len(keys)
        return rows, rows / took
