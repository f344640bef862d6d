"""The store on MySQL 8+ and MariaDB 10.6+: pools of connections, transactions that are run again, migrations, clock.

Writers and readers have pools of their own, so that no page of recovery keeps a publish waiting. A transaction is a
fresh run of its function: after a deadlock it is rolled back and run again with jitter, up to five runs in all. After a
lost answer to COMMIT the database is asked whether it landed (see `witness`), and nothing is run again before it is
known that it did not.
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
from ..ports import Asked, Bound, Value, Work
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
"""Sessions of each kind, at most."""
_TRIES = 5
_PAUSE = 0.01
"""Seconds of the first pause after a deadlock, doubled each time, of which a random part is taken."""
_LOCK_WAIT = 60
_DOUBT = 10.0
"""Seconds after which a transaction whose COMMIT got no answer stays in doubt: five times what the server gives a
writer that is cut off (`session.WAITS`) before it rolls back."""
_FORGET_EVERY = 300.0
"""Seconds; less while there is more of it than is taken at a time."""
_FORGET_MORE = 1.0

log = structlog.get_logger()


class MySQLTransaction:
    """A `store.ports.Transaction` over one connection.

    What is to be run `later` goes with the next flight, in front of it; at the end with the COMMIT, of which the server
    carries out nothing behind a statement that fails. So only what fails by itself when something is wrong may be run
    later: nobody looks at how many rows it matched.
    """

    def __init__(self, connection: Connection, redis_offsets: RedisOffsets) -> None:
        self._connection = connection
        self._redis_offsets = redis_offsets
        self._later: list[bytes] = []
        self._drawn: Drawn | None = None
        self.witness: Witness | None = None
        """None: nothing is written so far, and a COMMIT would change nothing."""

    async def fetch(self, query: str, row: type[R], /, *values: Bound) -> list[R]:
        """The rows of a SELECT."""
        asked = Asked(query, row, *values)
        await self.fetch_all([asked])
        return asked.rows

    async def fetch_all(self, queries: Sequence[Asked[Any]]) -> None:
        """Several SELECTs, asked in one flight."""
        texts = [bind(asked.query, asked.values) for asked in queries]
        for asked, answer in zip(queries, await self._fly(texts), strict=True):
            asked.rows = read(asked.row, answer.rows)

    async def execute(self, query: str, *values: Bound) -> int:
        """Runs a statement; how many rows it matched."""
        return await self._execute(bind(query, values))

    async def execute_many(self, query: str, rows: Sequence[Sequence[Value]]) -> int:
        """Inserts the rows in as few statements as the server's max_allowed_packet lets."""
        prepared, _ = statement(query)
        inserted = 0
        for text in prepared.bind_many(rows, max_bytes=self._connection.max_statement):
            inserted += await self._execute(text)
        return inserted

    async def later(self, query: str, *values: Bound) -> None:
        """Runs a statement together with whatever is asked next."""
        self._note()
        self._later.append(bind(query, values))

    async def later_exactly(self, many: int, query: str, *values: Bound) -> None:
        """The same, with a statement behind it that fails unless it has matched so many rows."""
        await self.later(query, *values)
        self._later.append(exactly(many))

    async def later_many(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        """Inserts the rows together with whatever is asked next."""
        self._note()
        prepared, _ = statement(query)
        self._later += prepared.bind_many(rows, max_bytes=self._connection.max_statement)

    async def later_each(self, query: str, rows: Sequence[Sequence[Value]]) -> None:
        """Joined with the rows, many in one statement: by itself each would take some five times as long."""
        self._note()
        for many, text in bind_each(query, rows, max_bytes=self._connection.max_statement):
            self._later += [text, exactly(many)]

    async def note(self) -> None:
        """By the session's row of `witness`, which goes with the first write."""
        self._note()

    async def commit(self) -> None:
        """In one flight with what was to be run later."""
        later = self._take_later()
        try:
            answers = await self._connection.commit(later)
        except (DuplicateKey, Refused) as error:
            if self._drawn is not None and await self._drawn.lacks_queues(self):
                raise TopicGone("a queue is not there any more") from error
            raise
        self._hear(answers[: len(later)])

    async def find_drawn(self, tx: "MySQLTransaction") -> bool:
        """Looks in another transaction for the offsets that the lost answer to this one's COMMIT would have told."""
        return self._drawn is None or await self._drawn.find(tx)

    async def _execute(self, text: bytes) -> int:
        self._note()
        (answer,) = await self._fly([text], write=True)
        return answer.affected

    async def _fly(self, texts: Sequence[bytes], *, write: bool = False) -> list[Answer]:
        """Asks these in one flight, behind what was to be run later."""
        later = self._take_later()
        answers = await self._connection.ask_all([*later, *texts], write=write or bool(later))
        self._hear(answers[: len(later)])
        return answers[len(later) :]

    def _hear(self, answers: Sequence[Answer]) -> None:
        """The answers to what was run later, of which only the draws' tell something."""
        if self._drawn is not None and answers:
            self._drawn.hear(answers)

    def _note(self) -> None:
        """Before a write: the first takes the witness along."""
        if self.witness is None:
            self.witness = Witness(self._connection.number, self._connection.count_run())
            self._later.append(self.witness.note())

    def _take_later(self) -> list[bytes]:
        later, self._later = self._later, []
        return later

    async def append(self, query: str, rows: Mapping[int, Sequence[Sequence[Value]]], *, straight: bool) -> Drawn:
        """With the COMMIT: while the queue's row is locked the server waits for nothing of ours."""
        begins = await self.draw_elsewhere({queue_id: len(some) for queue_id, some in rows.items()})
        self._note()
        self._drawn = drawn = Drawn(rows, begins)
        self._later += drawn.statements(query, straight, behind=len(self._later), room=self._connection.max_statement)
        return drawn

    async def draw_elsewhere(self, counts: Mapping[int, int]) -> dict[int, int]:
        """From Redis, for the queues that are sequenced there."""
        counts = {queue_id: many for queue_id, many in counts.items() if queue_id in self._redis_offsets.queues}
        return await self._redis_offsets.draw(self, counts) if counts else {}


class _Noting(MySQLTransaction):
    """Statements that are committed one by one, so that there is no COMMIT to be in doubt of."""

    def _note(self) -> None:
        return


class _RolledBack(Unavailable):
    """The connection was lost at COMMIT, and it is known that nothing of the transaction is kept."""


class MySQLBackend:
    """A `store.ports.Backend` over one database."""

    def __init__(self, dsn: str, redis: str | None = None, *, doubt: float = _DOUBT) -> None:
        """`redis`: the address of a Redis, for the topics whose offsets are drawn there. `doubt`: for how many seconds
        it is asked whether a transaction landed, before its caller hears that nobody knows."""
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
        """Runs `work` in a transaction of its own, beside all others; see `store.ports.Backend`."""
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
                    raise  # it has waited long enough, with a connection and with locks of its own
            except (Contention, _RolledBack) as error:
                tried += 1
                if tried == _TRIES:
                    raise
                if isinstance(error, _RolledBack):
                    # Its session may keep what it has locked until the server has found out that nobody is there.
                    patient_until = trio.current_time() + self._doubt
            self._run_again += 1
            await trio.sleep(_jitter(_PAUSE * 2**tried))

    async def _once(self, work: Work[T], server: str) -> T:
        async with self._writers.connection() as connection:
            if server and connection.name != server:
                # Above all its clock is another's: what is due by the one may not be by the other.
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
        # The connection is given up; another one knows what became of the transaction.
        self._in_doubt += 1
        if tx.witness is not None and not await self._landed(tx, tx.witness, unknown):
            raise _RolledBack(f"nothing of it is kept: {unknown}", unknown.code) from unknown
        self._transactions += 1
        return result

    async def _landed(self, lost: MySQLTransaction, witness: Witness, unknown: OutcomeUnknown) -> bool:
        """Whether a transaction whose COMMIT got no answer was committed, of which then all is known that the answer
        would have told. Raises `unknown` when nobody can tell."""
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
                            break  # retention has taken a message already, and its offset with it
                        # A commit is seen a moment before it is on the disk. This one comes behind it.
                        await tx.commit()
                        return landed
                tried += 1
                await trio.sleep(_jitter(min(1, _PAUSE * 2**tried)))
        raise unknown

    async def _forget(self, connection: Connection) -> None:
        """Now and then, behind a transaction: what nobody will ask for any more."""
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
        except StoreError:  # another time, and another session
            connection.close()

    async def read(self, work: Work[T]) -> T:
        """Runs `work` in autocommit mode, once more if the connection turns out to be lost."""
        for last in (False, True):
            try:
                async with self._readers.connection() as connection:
                    return await work(MySQLTransaction(connection, self._redis_offsets))
            except Unavailable:
                if last:
                    raise
        raise AssertionError("unreachable")

    async def now(self) -> int:
        """UTC_TIMESTAMP of the server: UNIX_TIMESTAMP(NOW(3)) would be an hour off on the autumn day.

        Raises `ReadOnly` where the server takes no writes any more, though nobody has just tried.
        """
        async with self._readers.connection() as connection:
            return await self._ask_the_time(connection) // 1000

    async def exact_now(self) -> float:
        """The same in microseconds, as milliseconds with a fraction.

        Of a server that went without a word no session gets an answer, nor hears that there is none. This is asked
        every two seconds: so it is here that somebody logs in anew, and finds another server if there is one.
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
        asked = [_NOW] if cluster is None else [cluster.query, _NOW]  # the time last: its answer is not to wait
        *states, answer = await connection.ask_all(asked, write=False)
        ((now, *switches),) = answer.rows
        if (why := read_only.why_read_only(switches)) is not None:
            raise ReadOnly(f"{self.dsn}: {why}")
        if cluster is not None and (why := cluster.why_cut_off(states[0].rows)) is not None:
            self._hosts.cut_off()
            raise ReadOnly(f"{self.dsn}: {why}")
        return int(now)

    async def migrate(self) -> list[str]:
        """Brings the schema to this program's version, under a lock of the server's; raises `Unfit` where the server is
        not one that Tarry can work with."""
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
        """What a start would stop at, and what a migration."""
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
        """A session that migrates, while no other program does."""
        # Of its own: those of the pool commit nothing by themselves.
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
        """The migrations that the database has."""
        async with self._readers.connection() as connection:
            return await read_applied(connection)

    def sequence(self, topic_queues: Sequence[int], *, by_redis: bool) -> None:
        """Without a Redis the offsets of such a queue are drawn from the stream itself, one transaction at a time."""
        if by_redis:
            self._redis_offsets.queues.update(topic_queues)
        else:
            self._redis_offsets.queues.difference_update(topic_queues)

    async def reseat(self, ends: Mapping[int, int]) -> list[int]:
        """Raises the counters in Redis."""
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
        """Other servers may work on the database."""
        return True

    def waited_for(self) -> bool:
        """Transactions run beside each other here."""
        return False

    @property
    def server(self) -> str:
        """By its ids, its machine and its port."""
        return self._hosts.name

    def admit(self, server: str) -> None:
        """From the first call on, `write` is for this server alone."""
        self._admitted = server

    async def agree(self) -> None:
        """Keeps up the lease of the node of a Galera that is written to, or leaves it for the one that has the lease.
        From the first call on this server is one that writes."""
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
        """Looks at one more of the DSN's hosts each time, with a login; of one host there is nothing to look at."""
        if not self.dsn.others:
            return []
        if await self._hosts.look_aside():
            # Behind that look, for the one before may just have handed over: then what was found is forgotten.
            try:
                await self.now()
            except Unavailable:
                self._hosts.forget_rivals()
        return self._hosts.rivals

    def skew(self) -> int:
        """The host's clock is not asked."""
        return 0

    async def durability(self) -> list[str]:
        """Settings of the server under which an answered commit may be lost with the machine, or undone by another."""
        settings = await self._settings()
        several = server_settings.several_primaries(settings) if self.dsn.others else []
        return [*server_settings.lossy(settings), *several]

    async def room(self) -> tuple[int, int]:
        """By `max_connections`, or the account's own limit where that is less."""
        async with self._readers.connection() as connection:
            ((all_, own),) = await connection.fetch(b"SELECT @@max_connections, @@max_user_connections")
        return _WRITERS + _READERS + _NOTES, min(all_, own or all_)

    async def advice(self) -> list[str]:
        """Settings of the server with which it goes on, and would do so better with others."""
        settings = await self._settings()
        return [*server_settings.slow(settings), *server_settings.falling_back(settings)]

    async def longest_statement(self) -> int:
        """By `max_allowed_packet`."""
        async with self._readers.connection() as connection:
            return connection.max_statement

    async def largest_transaction(self) -> int | None:
        """By `max_binlog_cache_size`, where there is a binary log."""
        settings = await self._settings()
        return int(settings["max_binlog_cache_size"]) if settings.get("log_bin") == "ON" else None

    async def _settings(self) -> dict[str, str]:
        async with self._readers.connection() as connection:
            rows = await connection.fetch(server_settings.QUERY)
            return server_settings.read([*rows, *await connection.fetch(server_settings.STATUS_QUERY)])

    async def aclose(self) -> None:
        """Closes the connections."""
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
