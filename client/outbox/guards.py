"""The guard table `tarry_once`, in the consumer's own database: it records which work was done."""

from contextlib import suppress

from ...store.errors import DuplicateKey
from ...store.mysql.literals import literal
from .cursors import CLOCK, CursorTransaction, TableExists

DDL = """CREATE TABLE tarry_once (
  topic VARBINARY(255) NOT NULL,
  consumer_group VARBINARY(255) NOT NULL,
  work VARBINARY(255) NOT NULL COMMENT 'the id of the message, or a key of the business',
  done_at BIGINT NOT NULL COMMENT 'Unix milliseconds',
  PRIMARY KEY (topic, consumer_group, work),
  KEY idx_tarry_once_done_at (done_at)
) ENGINE=InnoDB COMMENT='work done for messages of Tarry'"""


async def prepare(tx: CursorTransaction) -> None:
    """Makes the table if it is missing. (IF NOT EXISTS would warn, and some users turn warnings into errors.)"""
    with suppress(TableExists):
        await tx.run(DDL)


async def guard(tx: CursorTransaction, topic: str, group: str, work: str) -> bool:
    """Whether the work is done for the first time. Waits while another transaction does the same work.

    (An INSERT IGNORE would tell by its row count, which differs with the driver and the connection's flags.)
    """
    values = ", ".join(literal(text.encode()) for text in (topic, group, work))
    now = f"{CLOCK} + {await tx.ahead():d}"
    try:
        await tx.run(f"INSERT INTO tarry_once (topic, consumer_group, work, done_at) VALUES ({values}, {now})")  # noqa: S608  # hexadecimal literals, numbers
    except DuplicateKey:
        return False
    return True


async def forget(tx: CursorTransaction, before: int, limit: int) -> int:
    """Removes guards older than `before`, Unix milliseconds, oldest first and at most `limit`; returns how many."""
    return await tx.run(f"DELETE FROM tarry_once WHERE done_at < {before:d} ORDER BY done_at LIMIT {limit:d}")  # noqa: S608  # numbers
