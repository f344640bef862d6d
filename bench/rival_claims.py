"""Two other ways to hand out messages, for bench/claim.py to compare with. Callers are tasks over the store's driver.

    lock_and_log    the published way: take the group's lock, read the messages from its offset on, write a log row per
                    message, move the offset, commit; an ack sets the state of its log rows
    skip_locked     a row per message and group: find the next free rows with SKIP LOCKED and move them to a table of
                    owned ones; an ack deletes them there

Both read the bodies, await their acks and fence them, as Tarry does.
"""

from ..store.errors import Contention
from ..store.mysql.connection import Connection, connect
from ..store.mysql.dsn import Dsn
from ..store.mysql.literals import Statement
from . import databases
from .closed_loop import cycle, in_tasks
from .report import Figures
from .subject import now

CONSUMERS = 8
SIZE = 10
"""Messages to a claim."""

_TABLES = {
    "lock_and_log": (
        "CREATE TABLE place (group_id INT NOT NULL PRIMARY KEY, position BIGINT NOT NULL)",
        "INSERT INTO place VALUES (1, 0)",
        """CREATE TABLE log (group_id INT NOT NULL, `offset` BIGINT NOT NULL, owner INT NOT NULL,
  state TINYINT NOT NULL, claimed_at BIGINT NOT NULL, lease_until BIGINT NOT NULL, acked_at BIGINT NULL,
  PRIMARY KEY (group_id, `offset`))""",
    ),
    "skip_locked": (
        """CREATE TABLE todo (group_id INT NOT NULL, `offset` BIGINT NOT NULL, PRIMARY KEY (group_id, `offset`))""",
        """CREATE TABLE owned (group_id INT NOT NULL, `offset` BIGINT NOT NULL, owner INT NOT NULL,
  claimed_at BIGINT NOT NULL, lease_until BIGINT NOT NULL, PRIMARY KEY (group_id, `offset`))""",
        "INSERT INTO todo SELECT 1, `offset` FROM message",
    ),
}

_LOCK = b"SELECT position FROM place WHERE group_id = 1 FOR UPDATE"
_READ = Statement("SELECT `offset`, id, body FROM message WHERE queue_id = ? AND `offset` >= ? AND `offset` < ?")
_LOG = Statement("INSERT INTO log (group_id, `offset`, owner, state, claimed_at, lease_until) VALUES ?")
_MOVE = Statement("UPDATE place SET position = ? WHERE group_id = 1")
_ACK = Statement(
    "UPDATE log SET state = 1, acked_at = ? WHERE group_id = 1 AND `offset` IN (?*) AND owner = ? AND state = 0"
)

_TAKE = Statement("SELECT `offset` FROM todo WHERE group_id = 1 ORDER BY `offset` LIMIT ? FOR UPDATE SKIP LOCKED")
_OWN = Statement("INSERT INTO owned (group_id, `offset`, owner, claimed_at, lease_until) VALUES ?")
_TAKEN = Statement("DELETE FROM todo WHERE group_id = 1 AND `offset` IN (?*)")
_READ_SOME = Statement("SELECT `offset`, id, body FROM message WHERE queue_id = ? AND `offset` IN (?*)")
_DISOWN = Statement("DELETE FROM owned WHERE group_id = 1 AND `offset` IN (?*) AND owner = ?")
_LEASE = 60_000


class _Consumer:
    """One consumer with two connections: one for claims, one in autocommit mode for acks."""

    def __init__(self, connection: Connection, single: Connection, number: int, queue_id: int) -> None:
        self._connection = connection
        self._single = single
        self._number = number
        self._queue_id = queue_id
        self.consumed = 0

    async def claim_lock_and_log(self) -> list[int]:
        """Claims messages, reads their bodies and returns their offsets."""
        at = now()
        await self._connection.begin()
        ((position,),) = await self._connection.fetch(_LOCK)
        rows = await self._connection.fetch(_READ.bind(self._queue_id, position, position + SIZE))
        log = [(1, row[0], self._number, 0, at, at + _LEASE) for row in rows]
        for text in _LOG.bind_many(log, max_bytes=self._connection.max_statement):
            await self._connection.execute(text)
        await self._connection.execute(_MOVE.bind(position + len(rows)))
        await self._connection.commit()
        return [row[0] for row in rows]

    async def ack_lock_and_log(self, offsets: list[int]) -> None:
        """Acknowledges only messages that this consumer still owns (the fence)."""
        acked = await self._single.execute(_ACK.bind(now(), offsets, self._number))
        self._count(acked, len(offsets))

    async def ack_skip_locked(self, offsets: list[int]) -> None:
        """Acknowledges only messages that this consumer still owns (the fence)."""
        acked = await self._single.execute(_DISOWN.bind(offsets, self._number))
        self._count(acked, len(offsets))

    async def claim_skip_locked(self) -> list[int]:
        """Claims messages, reads their bodies and returns their offsets. Repeats a transaction that met contention."""
        while True:
            at = now()
            await self._connection.begin()
            try:
                offsets = [row[0] for row in await self._connection.fetch(_TAKE.bind(SIZE))]
                owned = [(1, offset, self._number, at, at + _LEASE) for offset in offsets]
                for text in _OWN.bind_many(owned, max_bytes=self._connection.max_statement):
                    await self._connection.execute(text)
                await self._connection.execute(_TAKEN.bind(offsets))
                await self._connection.fetch(_READ_SOME.bind(self._queue_id, offsets))
                await self._connection.commit()
            except Contention:
                await self._connection.rollback()
            else:
                return offsets

    def _count(self, acked: int, claimed: int) -> None:
        if acked != claimed or not claimed:
            raise AssertionError(f"{claimed} claimed, {acked} acknowledged: too few messages for this long a run?")
        self.consumed += acked


async def measure(dsn: str, subject: str, queue_id: int, seconds: float, *, ahead: bool) -> Figures:
    """Measures consumers of the messages that are already in the stream."""
    with databases.log_in(dsn) as admin, admin.cursor() as cursor:
        for statement in _TABLES[subject]:
            cursor.execute(statement)
    place = Dsn.parse(dsn)
    joined = [
        _Consumer(await connect(place, write=True), await connect(place, write=True), number, queue_id)
        for number in range(CONSUMERS)
    ]
    acts = [
        cycle(getattr(consumer, f"claim_{subject}"), getattr(consumer, f"ack_{subject}"), ahead=ahead)
        for consumer in joined
    ]
    figures = await in_tasks(acts, seconds)
    return {**figures, "messages": sum(consumer.consumed for consumer in joined)}
