"""The store on MySQL 8+ and MariaDB 10.6+: pools of connections, transactions that are run again, migrations, clock.

Writers and readers have pools of their own, so that no page of recovery keeps a publish waiting. A transaction is a
fresh run of its function: after a deadlock it is rolled back and run again with jitter, up to five runs in all. After a
lost answer to COMMIT the database is asked whether the transaction was committed (see `witness`); it is run again only
if it was not.
"""

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from typing import Any, TypeVar

import structlog
import trio

from ..errors import (
    Contention,
    DuplicateKey,
    Locked,
    OutcomeUnknown,
    ReadOnly,
    Refused,
    StoreError,
    TopicGone,
    Unavailable,
    Unfit,
)
from ..migrations import Applied
from ..ports import Asked, Backend, Bound, Transaction, Value, Work
from ..rows import R, read
from . import fitness, one_writer, read_only, server_settings
from .connection import Connection
from .drawn import Drawn
from .dsn import Dsn
from .hosts import Hosts
from .pool import Pool, Unused
from .redis_offsets import RedisOffsets
from .redis_sequencer import RedisSequencer
from .rows import Answer
from .schema import check_same, find_faults, migrate, read_applied, read_begun
from .statements import bind, bind_each, exactly, statement
from .witness import Witness, forget

T = TypeVar("T")

_WRITERS, _READERS, _NOTES = 16, 8, 1
"""How many sessions of each kind there are at most."""
_TRIES = 5
_PAUSE = 0.01
"""Seconds: the longest first pause after a deadlock, doubled each time; a random part of it is slept."""
_LOCK_WAIT = 60
_DOUBT = 10.0
"""Seconds after which the backend gives up finding out whether a transaction was committed whose COMMIT got no answer:
five times what the server gives a writer that is cut off (`session.WAITS`) before it rolls back."""
_FORGET_EVERY = 300.0
"""Seconds between removals of old rows of `witness`."""
_FORGET_MORE = 1.0
"""The same while more rows are left than are removed at a time."""

log = structlog.get_logger()


class MySQLTransaction(Transaction):
    """A transaction over one connection.

    Statements to be run `later` are sent with the next flight, in front of it; the last ones with the COMMIT, of which
    the server executes nothing after a statement that fails. So only statements that fail by themselves when something
    is wrong may be run later: nobody checks how many rows they matched.
    """

    def __init__(self, connection: Connection, redis_offsets: RedisOffsets) -> None:
        self._connection = connection
        self._redis_offsets = redis_offsets
        self._later: list[bytes] = []
        self._drawn: Drawn | None = None
        self.witness: Witness | None = None
        """None: nothing has been written so far, so a COMMIT would change nothing."""

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        asked = Asked(query, row, *values)
        await self.fetch_all([asked])
        return asked.rows

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        texts = [bind(asked.query, asked.values) for asked in queries]
        for asked, answer in zip(queries, await self._fly(texts), strict=True):
            asked.rows = read(asked.row, answer.rows)

    async def execute(self, query: str, *values: Bound) -> int:
        return await self._execute(bind(query, values))

    async def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        """Inserts the rows in as few statements as the server's max_allowed_packet allows."""
        prepared, _ = statement(query)
        inserted = 0
        for text in prepared.bind_many(rows, max_bytes=self._connection.max_statement):
            inserted += await self._execute(text)
        return inserted

    async def later(self, query: str, *values: Bound) -> None:
        """Runs a statement in the next flight."""
        self._note()
        self._later.append(bind(query, values))

    async def later_exactly(self, many: int, query: str, *values: Bound) -> None:
        """As `later`, followed by a statement that fails unless exactly `many` rows were matched."""
        await self.later(query, *values)
        self._later.append(exactly(many))

    async def later_many(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        self._note()
        prepared, _ = statement(query)
        self._later += prepared.bind_many(rows, max_bytes=self._connection.max_statement)

    async def later_each(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        """Updates many rows in one statement, which joins the table with them: one by one they would take some five
        times as long."""
        self._note()
        for many, text in bind_each(query, rows, max_bytes=self._connection.max_statement):
            self._later += [text, exactly(many)]

    async def note(self) -> None:
        """Writes the session's row of `witness`, as every first write does."""
        self._note()

    async def commit(self) -> None:
        """Commits, in one flight with the statements that were to be run later."""
        later = self._take_later()
        try:
            answers = await self._connection.commit(later)
        except (DuplicateKey, Refused) as error:
            if self._drawn is not None and await self._drawn.lacks_queues(self):
                raise TopicGone("a queue is not there any more") from error
            raise
        self._hear(answers[: len(later)])

    async def find_drawn(self, tx: "MySQLTransaction") -> bool:
        """Finds, in another transaction, the offsets that the lost answer to this one's COMMIT would have contained."""
        return self._drawn is None or await self._drawn.find(tx)

    async def _execute(self, text: bytes) -> int:
        self._note()
        (answer,) = await self._fly([text], write=True)
        return answer.affected

    async def _fly(self, texts: Sequence[bytes], *, write: bool = False) -> list[Answer]:
        """Sends these statements in one flight, after those that were to be run later."""
        later = self._take_later()
        answers = await self._connection.ask_all([*later, *texts], write=write or bool(later))
        self._hear(answers[: len(later)])
        return answers[len(later) :]

    def _hear(self, answers: Sequence[Answer]) -> None:
        """Takes the answers to statements that were run later; only those of draws contain anything."""
        if self._drawn is not None and answers:
            self._drawn.hear(answers)

    def _note(self) -> None:
        """Called before each write; puts the statement for `witness` in front of the first."""
        if self.witness is None:
            self.witness = Witness(self._connection.number, self._connection.count_run())
            self._later.append(self.witness.note())

    def _take_later(self) -> list[bytes]:
        later, self._later = self._later, []
        return later

    async def append(self, query: str, rows: Mapping[int, Sequence[Sequence[Value]]], *, straight: bool) -> Drawn:
        """Draws and inserts in the flight of the COMMIT, so that the server waits for no message of this process while
        it holds the lock of the queue's row."""
        begins = await self.draw_elsewhere({queue_id: len(some) for queue_id, some in rows.items()})
        self._note()
        self._drawn = drawn = Drawn(rows, begins)
        self._later += drawn.statements(query, straight, behind=len(self._later), room=self._connection.max_statement)
        return drawn

    async def draw_elsewhere(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Draws from Redis, for the queues that are sequenced there."""
        counts = {queue_id: many for queue_id, many in counts.items() if queue_id in self._redis_offsets.queues}
        return await self._redis_offsets.draw(self, counts) if counts else {}


class _Noting(MySQLTransaction):
    """Statements that are committed one by one: there is no COMMIT whose answer could be lost."""

    def _note(self) -> None:
        return


class _RolledBack(Unavailable):
    """The connection was lost at COMMIT, and the database has shown that nothing of the transaction is kept."""


class MySQLBackend(Backend):
    """A backend over one database."""

    def __init__(self, dsn: str, redis: str | None = None, *, doubt: float = _DOUBT) -> None:
        """`redis`: the address of a Redis, for topics whose offsets are drawn there. `doubt`: for how many seconds the
        backend tries to find out whether a transaction was committed, before it raises `OutcomeUnknown`."""
        self.dsn = Dsn.parse(dsn)
        self._redis_offsets = RedisOffsets(None if redis is None else RedisSequencer(redis, self.dsn.database))
        self._hosts = Hosts(self.dsn)
        self._hosts.settle = self._settle
        self._agrees = False
        self._writers = Pool(self._hosts, size=_WRITERS, write=True)
        self._readers = Pool(self._hosts, size=_READERS, write=False)
        self._notes = Pool(self._hosts, size=_NOTES, write=False)
        self._admitted: str | None = None
        self._doubt = doubt
        self._forget_at = 0.0
        self._transactions = 0
        self._run_again = 0
        self._in_doubt = 0

    async def write(self, work: Work[T], *, heavy: bool = False) -> T:
        del heavy
        tried = 0
        patient_until = 0.0
        server = self._hosts.name
        if self._admitted not in (None, server):
            raise Unavailable("another server of the database takes the writes now: what is in memory is read again")
        while True:
            try:
                return await self._once(work, server)
            except Locked:
                if trio.current_time() > patient_until:
                    raise  # the work has waited long enough, holding a connection and locks of its own
            except (Contention, _RolledBack) as error:
                tried += 1
                if tried == _TRIES:
                    raise
                if isinstance(error, _RolledBack):
                    # The lost session may keep its locks until the server notices that its client is gone.
                    patient_until = trio.current_time() + self._doubt
            self._run_again += 1
            await trio.sleep(_jitter(_PAUSE * 2**tried))

    async def _once(self, work: Work[T], server: str) -> T:
        async with self._writers.connection() as connection:
            if server and connection.name != server:
                # Above all its clock differs: what is due by the clock of one server may not be by that of another.
                raise Unused("another server of the database takes the writes now: work it out anew, with it")
            await connection.begin()
            tx = MySQLTransaction(connection, self._redis_offsets)
            try:
                result = await work(tx)
            except OutcomeUnknown as error:
                raise Unavailable(str(error), error.code) from error  # before COMMIT nothing is in doubt
            except Exception:
                await connection.rollback()
                raise
            try:
                await tx.commit()
            except OutcomeUnknown as error:
                unknown = error
            except Exception:
                await connection.rollback()
                raise
            else:
                self._transactions += 1
                await self._forget(connection)
                return result
        # The connection is given up; another one finds out what became of the transaction.
        self._in_doubt += 1
        if tx.witness is not None and not await self._landed(tx, tx.witness, unknown):
            raise _RolledBack(f"nothing of it is kept: {unknown}", unknown.code) from unknown
        self._transactions += 1
        return result

    async def _landed(self, lost: MySQLTransaction, witness: Witness, unknown: OutcomeUnknown) -> bool:
        """Whether a transaction whose COMMIT got no answer was committed; if so, also finds what the answer would have
        contained. Raises `unknown` when this cannot be found out."""
        with trio.move_on_after(self._doubt):
            tried = 0
            while True:
                with suppress(Contention, Unavailable):
                    async with self._writers.connection() as connection:
                        await connection.begin()
                        tx = MySQLTransaction(connection, self._redis_offsets)
                        landed = await witness.landed(tx)
                        if landed and not await lost.find_drawn(tx):
                            await connection.rollback()
                            break  # retention has removed one of its messages already, and the offset with it
                        # A commit is visible a moment before it is on the disk. This COMMIT comes after it.
                        await tx.commit()
                        return landed
                tried += 1
                await trio.sleep(_jitter(min(1, _PAUSE * 2**tried)))
        raise unknown

    async def _forget(self, connection: Connection) -> None:
        """Now and then, after a transaction: removes rows of `witness` that are not needed any more."""
        now = trio.current_time()
        if now < self._forget_at:
            return
        self._forget_at = now + _FORGET_EVERY
        try:
            await connection.begin()
            more = await forget(connection)
            await connection.commit()
            if more:
                self._forget_at = now + _FORGET_MORE
        except StoreError:  # it is tried again later, with another session
            connection.close()

    async def read(self, work: Work[T]) -> T:
        """Runs `work` in autocommit mode, and again if the connection turns out to be lost."""
        for last in (False, True):
            try:
                async with self._readers.connection() as connection:
                    return await work(MySQLTransaction(connection, self._redis_offsets))
            except Unavailable:
                if last:
                    raise
        raise AssertionError("unreachable")

    async def now(self) -> int:
        """The server's UTC_TIMESTAMP: UNIX_TIMESTAMP(NOW(3)) would be an hour off at the end of daylight saving time.

        Raises `ReadOnly` when the server no longer takes writes, even if no write has been tried.
        """
        async with self._readers.connection() as connection:
            return await self._ask_the_time(connection) // 1000

    async def exact_now(self) -> float:
        """As `now`, with the microseconds as a fraction.

        When a server vanishes silently, its sessions get neither an answer nor an error. Since this is asked every two
        seconds while no other answer brings the time, it is here that a new login is tried, which finds another server
        if there is one.
        """
        with trio.move_on_after(self._hosts.timeout):
            async with self._readers.connection() as connection:
                return await self._ask_the_time(connection) / 1000
        with closing(await self._hosts.connect(write=False)) as connection, trio.move_on_after(self._hosts.timeout):
            return await self._ask_the_time(connection) / 1000
        raise Unavailable(f"{self.dsn}: the server lets in, and does not answer")

    async def _ask_the_time(self, connection: Connection) -> int:
        """Unix microseconds."""
        cluster = connection.cluster
        asked = [_NOW] if cluster is None else [cluster.query, _NOW]  # the time comes last, so that it is up to date
        *states, answer = await connection.ask_all(asked, write=False)
        ((now, *switches),) = answer.rows
        if (why := read_only.why_read_only(switches)) is not None:
            raise ReadOnly(f"{self.dsn}: {why}")
        if cluster is not None and (why := cluster.why_cut_off(states[0].rows)) is not None:
            self._hosts.cut_off()
            raise ReadOnly(f"{self.dsn}: {why}")
        return int(now)

    async def migrate(self) -> list[str]:
        """Brings the schema to this program's version, under a lock of the server; raises `Unfit` when Tarry cannot
        work with this server."""
        async with self._alone() as connection:
            settings = server_settings.read(await connection.fetch(server_settings.QUERY))
            if wrong := fitness.wrong_settings(settings):
                raise Unfit(f"{self.dsn}: {'; '.join(wrong)}")
            done = await migrate(connection)
            if (begun := await read_begun(connection)) is not None:
                self._hosts.check = partial(check_same, begun=begun)
            async with self._writers.connection() as other:
                await fitness.try_locks(connection, other)
            return done

    async def faults(self) -> list[tuple[str, str]]:
        """Faults that would stop a start or a migration."""
        async with self._alone() as connection:
            settings = server_settings.read(await connection.fetch(server_settings.QUERY))
            faults = [("server", fault) for fault in fitness.wrong_settings(settings)]
            faults += await find_faults(connection)
            if not any(check == "tables" for check, _ in faults) and await read_begun(connection) is not None:
                try:
                    async with self._writers.connection() as other:
                        await fitness.try_locks(connection, other)
                except Unfit as error:
                    faults.append(("server", str(error)))
        return faults

    @asynccontextmanager
    async def _alone(self) -> AsyncGenerator[Connection, None]:
        """A session for migrating, which holds the lock that only one program can have."""
        # Not from a pool, whose sessions commit nothing by themselves.
        with closing(await self._hosts.connect(write=True)) as connection:
            await connection.set_up("migrate")
            name = b"'tarry migrate " + self.dsn.database.encode().hex()[:40].encode() + b"'"
            ((got,),) = await connection.fetch(b"SELECT GET_LOCK(" + name + b", %d)" % _LOCK_WAIT)
            if not got:
                raise Unavailable(f"another program has been migrating {self.dsn} for {_LOCK_WAIT} s; try again")
            try:
                yield connection
            finally:
                if not connection.closed:
                    await connection.fetch(b"SELECT RELEASE_LOCK(" + name + b")")

    async def applied(self) -> Applied:
        async with self._readers.connection() as connection:
            return await read_applied(connection)

    def sequence(self, topic_queues: Sequence[int], *, by_redis: bool) -> None:
        """Sets whether Redis draws the offsets of these queues. Without a Redis such offsets are drawn from the stream
        itself, one transaction at a time."""
        if by_redis:
            self._redis_offsets.queues.update(topic_queues)
        else:
            self._redis_offsets.queues.difference_update(topic_queues)

    async def reseat(self, ends: Mapping[int, int]) -> list[int]:
        """Raises the counters in Redis; returns the queues that are not sequenced there."""
        elsewhere = self._redis_offsets.queues
        await self._redis_offsets.raise_to({queue_id: end for queue_id, end in ends.items() if queue_id in elsewhere})
        return [queue_id for queue_id in ends if queue_id not in elsewhere]

    async def note(self, work: Work[T]) -> T:
        """Runs `work` in autocommit mode, on a connection of its own."""
        async with self._notes.connection() as connection:
            try:
                return await work(_Noting(connection, self._redis_offsets))
            except OutcomeUnknown as error:
                raise Unavailable(str(error), error.code) from error

    @property
    def shared(self) -> bool:
        return True

    @property
    def server(self) -> str:
        """The server's name, made of its ids, its machine and its port."""
        return self._hosts.name

    def admit(self, server: str) -> None:
        """From the first call on, `write` works with this server only."""
        self._admitted = server

    async def agree(self) -> None:
        """Renews the lease of the Galera node that this process writes to, or changes to the node that has the lease.
        From the first call on this process counts as one that writes."""
        self._agrees = True
        if not self._hosts.in_galera:
            return
        async with self._readers.connection() as connection:
            other = await self._settle(connection)
        if other is not None and connection.era == self._hosts.era:
            log.warning("store_host_left", server=connection.name, because=f"other servers of Tarry write to {other}")
            self._hosts.give_way()

    async def _settle(self, connection: Connection) -> str | None:
        tx = _Noting(connection, self._redis_offsets)
        ((now, *_),) = await connection.fetch(_NOW)
        settle = one_writer.hold if self._agrees else one_writer.holder
        return await settle(tx, connection.name, now // 1000)

    async def rivals(self) -> list[str]:
        """Looks at one more of the DSN's hosts each time, with a login; empty for a DSN of one host."""
        if not self.dsn.others:
            return []
        if await self._hosts.look_aside():
            # Asked after that look, since the server before may just have handed over: then the finding is forgotten.
            try:
                await self.now()
            except Unavailable:
                self._hosts.forget_rivals()
        return self._hosts.rivals

    async def durability(self) -> list[str]:
        """Settings of the server under which an acknowledged commit may be lost with the machine, or undone by another
        server."""
        settings = await self._settings()
        several = server_settings.several_primaries(settings) if self.dsn.others else []
        return [*server_settings.lossy(settings), *several]

    async def room(self) -> tuple[int, int]:
        """The database's limit is `max_connections`, or the account's own limit where that is less."""
        async with self._readers.connection() as connection:
            ((all_, own),) = await connection.fetch(b"SELECT @@max_connections, @@max_user_connections")
        return _WRITERS + _READERS + _NOTES, min(all_, own or all_)

    async def advice(self) -> list[str]:
        settings = await self._settings()
        return [*server_settings.slow(settings), *server_settings.falling_back(settings)]

    async def longest_statement(self) -> int:
        """The server's `max_allowed_packet`, less the bytes around a statement."""
        async with self._readers.connection() as connection:
            return connection.max_statement

    async def largest_transaction(self) -> int | None:
        """The server's `max_binlog_cache_size`, where there is a binary log."""
        settings = await self._settings()
        return int(settings["max_binlog_cache_size"]) if settings.get("log_bin") == "ON" else None

    async def _settings(self) -> dict[str, str]:
        async with self._readers.connection() as connection:
            rows = await connection.fetch(server_settings.QUERY)
            return server_settings.read([*rows, *await connection.fetch(server_settings.STATUS_QUERY)])

    async def aclose(self) -> None:
        await self._redis_offsets.aclose()
        await self._writers.aclose()
        await self._readers.aclose()
        await self._notes.aclose()

    def statistics(self) -> dict[str, int]:
        """Transactions committed, run again after a deadlock, and in doubt at COMMIT."""
        return {"transactions": self._transactions, "run_again": self._run_again, "in_doubt": self._in_doubt}


_NOW = b"SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)), " + read_only.COLUMNS.encode()


def _jitter(seconds: float) -> float:
    return random.random() * seconds  # noqa: S311  # spreads tries, guards nothing
