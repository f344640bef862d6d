"""A store under test: the test moves its clock, and can read its tables directly."""

import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import attrs
import pymysql
import trio

from support.drivers import login
from support.hearing import HearingStore
from support.servers import database
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Locked
from tarry.store.groups import holdings
from tarry.store.ids import SHARDS
from tarry.store.looking import tracing
from tarry.store.migrations import load_migrations
from tarry.store.mysql.shape import shape_of
from tarry.store.opening import open_backend
from tarry.store.ports import Transaction
from tarry.store.records import (
    Claim,
    ClaimRequest,
    Conflict,
    Draft,
    Found,
    Group,
    GroupState,
    Promoted,
    Publication,
    ReadAnswer,
    Receipt,
    Settled,
    Settlement,
    Topic,
    TopicState,
    Turn,
)
from tarry.store.store import Store
from tarry.store.timers import timers
from tarry.wheel.ladder import Ladder

Kind = Literal["sqlite", "mariadb", "mysql"]

START = 1_700_000_000_000
"""The time at which every test begins, Unix milliseconds."""
SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

TABLES = tuple(name for name in shape_of(load_migrations("mysql")) if name != "forecast_check")
"""The tables that tests empty; the one left out has a single row, which its migration made."""


class Tables(Protocol):
    """The store's tables, accessed by a client other than the one under test."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]: ...

    def close(self) -> None: ...


class SQLiteTables:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def close(self) -> None:
        self._connection.close()


class MySQLTables:
    def __init__(self, dsn: str) -> None:
        self.connection = connect_raw(dsn)
        self.connection.autocommit(True)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def close(self) -> None:
        self.connection.close()


def connect_raw(dsn: str) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
    """A connection as of another program, with transactions, READ COMMITTED."""
    isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    return pymysql.connect(**login(dsn), init_command=isolation)


@contextmanager
def uncommitted(dsn: str, *statements: str) -> Generator[None]:
    """What another program has locked or done in a transaction that stays open, and is rolled back in the end."""
    with connect_raw(dsn) as other, other.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        yield
        other.rollback()


def row_lock_waits(tables: Tables) -> int:
    """How often a transaction has waited for a row that another had locked, on the whole server."""
    return int(tables.rows("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'")[0][1])


@contextmanager
def nobody_waits(tables: Tables) -> Generator[None, None, None]:
    """Checks that no transaction has waited for a row in the block: however slow the machine is. Of MySQL and
    MariaDB."""
    before = row_lock_waits(tables)
    yield
    assert row_lock_waits(tables) == before


def open_tables(dsn: str) -> Tables:
    if dsn.startswith("sqlite:///"):
        return SQLiteTables(Path(dsn.removeprefix("sqlite:///")))
    return MySQLTables(dsn)


def migrate(dsn: str) -> None:
    """Creates the schema in an empty store."""

    async def run() -> None:
        backend = await open_backend(dsn)
        await backend.migrate()
        await backend.aclose()

    trio.run(run)


@contextmanager
def store_with(server: str, *topics: TopicDraft) -> Generator[str]:
    """The DSN of a new database on a server, with these topics."""

    async def add(dsn: str) -> None:
        backend = await open_backend(dsn)
        for topic in topics:
            await Store(backend).write(catalogue.add_topic, topic, await backend.now())
        await backend.aclose()

    with database(server) as dsn:
        migrate(dsn)
        trio.run(add, dsn)
        yield dsn


def empty(tables: Tables) -> None:
    """Deletes the rows of every table that has some, which is cheaper than a new database."""
    asked = " UNION ALL ".join(f"SELECT '{table}', EXISTS(SELECT 1 FROM `{table}`)" for table in TABLES)
    for table, full in tables.rows(asked):
        if full:
            tables.rows(f"DELETE FROM `{table}`")


LOCK_WAITS = 30


@attrs.define
class Stage:
    """An open store, its clock, and shortcuts for what tests do."""

    kind: Kind
    dsn: str
    store: HearingStore
    tables: Tables
    now: int = START

    async def topic(
        self, name: str = "orders", queues: int = 1, ladder: Ladder | None = None, *, ordered: bool = False
    ) -> Topic:
        return await self.store.write(
            catalogue.add_topic, TopicDraft(name, queues=queues, ordered=ordered, ladder=ladder), self.now
        )

    async def topic_and_group(
        self, name: str = "orders", queues: int = 1, ladder: Ladder | None = None, *, ordered: bool = False
    ) -> tuple[Topic, Group]:
        topic = await self.topic(name, queues, ladder, ordered=ordered)
        return topic, await self.group(topic)

    async def group(
        self, topic: Topic, name: str = "billing", *, ladder: Ladder | None = None, latest: bool = False
    ) -> Group:
        return await self.store.add_group(topic, name, self.now, ladder=ladder, latest=latest)

    def draft(
        self, topic: Topic, body: bytes = b"{}", delay: int | None = None, *, queue: int = 0, **rest: Any
    ) -> Draft:
        deliver_at = None if delay is None else self.now + delay
        return Draft(topic=topic, queue=topic.queues[queue], body=body, deliver_at=deliver_at, **rest)

    async def publish(self, *drafts: Draft) -> list[Receipt]:
        """Publishes these drafts in one request; returns the receipts."""
        return await self.accept(Publication(drafts))

    async def accept(self, publication: Publication) -> list[Receipt]:
        """As `ask`, of a request that meets no other under its key."""
        answer = await self.ask(publication)
        assert not isinstance(answer, Conflict)
        return answer

    async def ask(self, publication: Publication) -> list[Receipt] | Conflict:
        """Publishes, and waits for a locked row longer than a transaction does: tests publish side by side, where a
        server combines publishes, and twenty commits in a row on a busy disk may take longer than a lock wait."""
        for _ in range(LOCK_WAITS):
            with suppress(Locked):
                (answer,) = await self.store.publish([publication], self.now)
                return answer
        raise AssertionError(f"the row was locked for {LOCK_WAITS} lock waits")

    async def schedule(self, topic: Topic, *delays: int) -> list[Receipt]:
        """Publishes a message for each delay, with the bodies 0, 1, 2, ..."""
        return await self.publish(*(self.draft(topic, b"%d" % i, delay) for i, delay in enumerate(delays)))

    async def promote(self, *entries: int) -> list[Promoted]:
        return await self.store.promote(entries, self.now)

    async def waiting(self) -> dict[int, int]:
        """Due times by wheel entry, found as the loader does: every scan, every shard, in small pages."""
        return await self.store.read(_waiting)

    async def fall_due(self, after: int = 0) -> list[Promoted]:
        """Promotes whatever is due, so much time later."""
        self.now += after
        return await self.promote(*(entry for entry, due in (await self.waiting()).items() if due <= self.now))

    async def turn(
        self, group: Group, settlements: Sequence[Settlement] = (), requests: Sequence[ClaimRequest] = ()
    ) -> Turn:
        return await self.store.turn(group, settlements, requests, self.now)

    async def claim_some(
        self, group: Group, size: int = 10, lease: int = MINUTE, client: str = "client-1"
    ) -> Claim | None:
        return (await self.turn(group, requests=[ClaimRequest(client, size, lease)])).claims[0]

    async def claim(self, group: Group, size: int = 10, lease: int = MINUTE, client: str = "client-1") -> Claim:
        claim = await self.claim_some(group, size, lease, client)
        assert claim is not None, "there was nothing to claim"
        return claim

    async def settle(self, group: Group, *settlements: Settlement) -> list[Settled | None]:
        return list((await self.turn(group, settlements)).settled)

    async def settle_one(self, group: Group, settlement: Settlement) -> Settled:
        """Of a claim that there is, or was."""
        (settled,) = await self.settle(group, settlement)
        assert settled is not None
        return settled

    async def ack(self, group: Group, claim: Claim, places: tuple[int, ...] | None = None) -> Settled:
        return await self.settle_one(group, of_all(Settlement(claim.key, "ack", places), claim))

    async def fail(self, group: Group, claim: Claim, places: tuple[int, ...] | None = None, **how: Any) -> Settled:
        return await self.settle_one(group, of_all(Settlement(claim.key, "fail", places, **how), claim))

    async def end_leases(self, group: Group) -> list[Settled | None]:
        """Ends the leases that are over, as the service does."""
        over = [key for key, _ in await self.store.read(holdings.over, self.now, 1000) if key.group_id == group.id]
        return await self.settle(group, *(Settlement(key, "end") for key in over))

    async def end_lease(self, group: Group) -> Settled:
        """Ends the lease that is over, which is one."""
        (settled,) = await self.end_leases(group)
        assert settled is not None
        return settled

    async def state(self, topic: Topic) -> TopicState:
        return (await self.store.read(catalogue.topic_states, [topic]))[topic.id]

    async def group_state(self, group: Group) -> GroupState:
        return await self.store.read(catalogue.group_state, group)

    async def counts(self, of: Topic | Group, **expected: object) -> None:
        """Asserts that these fields of its state have these values."""
        state = await (self.state(of) if isinstance(of, Topic) else self.group_state(of))
        assert {name: getattr(state, name) for name in expected} == expected

    async def found(self, id_: int) -> Found:
        """A message that there is, or was."""
        found = await self.store.read(tracing.find_message, id_)
        assert found is not None
        return found

    def count(self, table: str, where: str = "TRUE") -> int:
        return int(self.tables.rows(f"SELECT COUNT(*) FROM `{table}` WHERE {where}")[0][0])

    def column(self, sql: str) -> list[Any]:
        return [row[0] for row in self.tables.rows(sql)]


async def _waiting(tx: Transaction) -> dict[int, int]:
    """All in one read: a round trip to the store's thread for each page would cost far more than the pages."""
    found: dict[int, int] = {}
    for shard in range(SHARDS):
        after = 0
        while page := await timers.due_messages(tx, shard, after, 1 << 42, 7):
            found.update((id_, due) for id_, due in page if due == id_ >> 21)
            after = page[-1][0] + 1
        place = (-1, 0)
        while page := await timers.due_moved(tx, shard, place, 1 << 42, 7):
            for id_, due in page:
                assert id_ not in found, "found at two times"
                found[id_] = due
            place = (page[-1][1], page[-1][0])
        after = 0
        while ids := await timers.due_retries(tx, shard, after, 1 << 42, 7):
            found.update((~id_, id_ >> 21) for id_ in ids)
            after = ids[-1] + 1
    return found


def bodies_of(answer: ReadAnswer) -> list[bytes]:
    return [message.body for message in answer.messages]


def bodies(claim: Claim) -> list[bytes]:
    return [message.body for one in claim.ranges for message in one.messages]


def of_all(settlement: Settlement, claim: Claim) -> Settlement:
    """Extends a settlement to all ranges of a claim, unless it has places, which belong to one range."""
    if settlement.places is not None:
        assert not claim.others, "places are of one range"
        return settlement
    return attrs.evolve(settlement, others=tuple(attrs.evolve(settlement, key=one.key) for one in claim.others))


def ids_of(receipts: Iterable[Receipt]) -> list[int]:
    return [receipt.id for receipt in receipts]
