"""The hot queries find their rows through their index, in a large table and in one that is almost empty.

A full scan is slow in the first and locks what is none of its business in both.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import attrs
import pytest

from support.stores import HOUR, START, Kind, open_tables
from tarry.store.ids import first_id
from tarry.store.mysql import statements as mysql_statements
from tarry.store.mysql.connection import Connection, connect
from tarry.store.mysql.dsn import Dsn
from tarry.store.opening import open_backend
from tarry.store.ports import Transaction, Value
from tarry.store.sqlite import connection as sqlite_connection
from tarry.store.sqlite import statements as sqlite_statements

MANY, FEW = 12_000, 3
# fmt: off
_DELETES = {
    "cancelled.expunge", "cancelled.remove", "chain.remove", "client.bury", "parked.remove",
    "claim.remove", "claim.remove_locked", "dead.remove_all",
    "cleaned.remove", "cursor.remove", "queue.remove", "queue_owner.forget", "tally.remove",
    "delay.remove", "delay.remove_locked", "delivery.expunge", "idempotency.forget", "idempotency.remove",
    "label.remove", "message.remove", "moved.remove", "outbox_cancel.remove", "reader.expunge", "reader.forget",
    "redelivery.expunge", "retry.remove", "seek.expunge", "schedule.remove", "fire.forget", "fire.remove",
    "forecast_change.remove", "fire.remove_all", "fire.remove_ahead",
}
# fmt: on
_DERIVED = {"json_each", "place", "2", "some_of_them", "some_messages", "some_moved", "some_retries"}
ACCESS = {"const", "eq_ref", "ref", "range"}

Rows = dict[str, list[Sequence[Value]]]


def _id(i: int) -> int:
    return first_id(START + i * 100) + (i & 15)


def _rows(count: int) -> Rows:
    """`count` rows for every table that a hot query reads."""
    numbers = range(count)
    content: tuple[Value, ...] = (b"k", None, None, None, None, None, b"{}")
    return {
        "delay.add": [(i & 15, _id(i), START + i * 100, i, 1, 1, *content, START, START) for i in numbers],
        "moved.add": [(i & 15, START + i * 100, _id(i)) for i in numbers],
        "cancelled.add": [(i & 15, _id(i + count), i, 1, b"k", START, START, START) for i in numbers],
        "outbox_cancel.add": [(i & 15, _id(i), 1, 1) for i in numbers],
        "retry.add": [(i & 15, _id(i), i % 7, 2, 1, i, _id(i), 2, b"[]", START, 0) for i in numbers],
        "message.add": [(1 + i % 3, i // 3, _id(i) | 1 << 20, i, *content, START, START, START) for i in numbers],
        "redelivery.add": [(2, i, _id(i), 1 + i % 3, i // 3, _id(i), 2, b"[]", START, 0) for i in numbers],
        "claim.add": [
            (i % 50, i % 3, i // 150, i, b"c", i, 1, START, START + i * 100, b"\0", bytes(8)) for i in numbers
        ],
        "delivery.add": [
            (i % 50, i % 3, i // 3, i // 3, i, b"c", i, 1, START, START, b"\1", bytes(8)) for i in numbers
        ],
        "seek.add": [(i % 50, i % 3, i // 3, START, 0, 0, 0) for i in numbers],
        "cursor.add": [(i // 3, i % 3, *(0,) * 10) for i in numbers],
        "chain.put": [(i // 100, i % 3, b"%d" % i, bytes(8)) for i in numbers],
        "parked.add": [(i // 100, i % 3, b"%d" % (i // 9), i, _id(i), 1, b"[]", START) for i in numbers],
        "queue_owner.put": [(i // 3, i % 3, b"c", 1, START) for i in numbers],
        "client.put": [(b"%d" % i, START, START) for i in numbers],
        "queue.add": [(i // 3, 0, i % 3, 0, 0, 0) for i in numbers],
        "replay.add": [(i // 3, i % 3, bytes(32), 0, 9) for i in numbers],
        "idempotency.add": [(i % 3, b"%d" % i, bytes(32), b"[]", START + i * 100) for i in numbers],
        "consumer_group.add": [(i // 3, b"%d" % i, None, 0, None, START) for i in numbers],
        "topic.add": [(b"%d" % i, 0, 0, None, None, 0, START, None, None, None) for i in numbers],
        "forecast.put": [(i // 100, i % 100, bytes(240)) for i in numbers],
        "forecast_change.add": [(_id(i), 1, bytes(8)) for i in numbers],
        "schedule.add": [(b"%d" % i, i // 100, 1, b"{}", START, 0, START, 0) for i in numbers],
        "fire.add": [(i // 1000, START + i * 100, _id(i), 0, START, None) for i in numbers],
        "tally.add": [(i // 3, i % 3, 0, 0) for i in numbers],
        "cleaned.add": [(i, i) for i in numbers],
        "reader.add": [(i % 50, b"%d" % (i // 50), i % 3, 0, START + i * 100) for i in numbers],
        "timer.add": [(i // 100, b"%d" % i, _id(i), START, START) for i in numbers],
        "erased.add": [(_id(i), 1, START) for i in numbers],
        "label.add": [(i % 3, b"%d" % (i // 6), _id(i)) for i in numbers],
    }


@attrs.frozen
class Plan:
    """One line of a plan: how a table is read."""

    table: str
    access: str
    index: str | None
    sorts: bool = False
    """What was found is put into order, as no index has it so."""


@attrs.frozen
class Explainer:
    """Asks a database how it would run a query of the store's."""

    rows: int
    ask: Callable[[str, Sequence[Any]], Any]

    async def plans(self, query: str, *values: Any) -> list[Plan]:
        plans: list[Plan] = await self.ask(query, values)
        return plans


async def _mysql_plans(connection: Connection, query: str, values: Sequence[Any]) -> list[Plan]:
    if query in _DELETES and connection.server.flavour == "mariadb":
        return await _mariadb_delete(connection, query, values)
    await connection.begin()
    rows = await connection.fetch(b"EXPLAIN FORMAT=TRADITIONAL " + mysql_statements.bind(query, values))
    await connection.rollback()
    plans: list[Plan] = []
    for row in rows:
        table = row[2]
        # MySQL names the partitions, too.
        access, index = (row[3], row[5]) if connection.server.flavour == "mariadb" else (row[4], row[6])
        if table is not None and not table.startswith("<"):
            plans.append(Plan(table, access, index, "filesort" in str(row[-1])))
    return plans


async def _mariadb_delete(connection: Connection, query: str, values: Sequence[Any]) -> list[Plan]:
    """MariaDB tells nothing of what sql_safe_updates makes of a DELETE, so it is carried out and undone."""
    asked = b"SHOW SESSION STATUS LIKE 'Handler_read_rnd_next'"
    await connection.begin()
    ((_, before),) = await connection.fetch(asked)
    await connection.execute(mysql_statements.bind(query, values))
    ((_, after),) = await connection.fetch(asked)
    # The question reads rows of its own.
    ((_, once_more),) = await connection.fetch(asked)
    await connection.rollback()
    scanned = int(after) - int(before) - (int(once_more) - int(after))
    return [Plan(query.partition(".")[0], "ALL" if scanned else "range", "PRIMARY")]


@pytest.fixture(params=[MANY, FEW], ids=["many", "few"])
async def explainer(request: pytest.FixtureRequest, kind: Kind, bare_dsn: str) -> AsyncIterator[Explainer]:
    """On a store of its own, filled and analysed."""
    backend = await open_backend(bare_dsn)
    await backend.migrate()
    rows = _rows(request.param)

    async def fill(tx: Transaction) -> None:
        for query, some in rows.items():
            await tx.execute_many(query, some)
        for group_id in range(4):  # letters of the first messages of a queue
            for offset in range(min(request.param // 4, 200)):
                await tx.execute("dead.add", group_id, START + offset, b"[]", 1, offset)

    await backend.write(fill)
    tables = open_tables(bare_dsn)
    tables.rows(f"UPDATE schedule SET next_at = {START} + 100 * id, next_id = {_NEXT} + id")
    if kind == "sqlite":
        if request.param == MANY:  # nobody runs ANALYZE on the embedded store, but it may be run
            tables.rows("ANALYZE")
    else:
        for query in [*rows, "dead.add"]:
            tables.rows(f"ANALYZE TABLE `{query.partition('.')[0]}`")
    tables.close()
    await backend.aclose()
    if kind == "sqlite":
        connection = sqlite_connection.connect(bare_dsn.removeprefix("sqlite:///"))  # type: ignore[arg-type]

        async def ask(query: str, values: Sequence[Any]) -> list[Plan]:
            text, parameters = sqlite_statements.bind(query, values)
            plans: list[Plan] = []
            told = [
                bytes(detail).decode() for *_, detail in connection.execute("EXPLAIN QUERY PLAN " + text, parameters)
            ]
            sorts = any("USE TEMP B-TREE" in detail for detail in told)
            for detail in told:
                words = detail.split()
                if words[0] in ("SEARCH", "SCAN") and not words[1].startswith("(") and words[1] not in _DERIVED:
                    index = detail.partition("INDEX ")[2].partition(" ")[0]
                    plans.append(Plan(words[1], "range" if words[0] == "SEARCH" else "ALL", index or "PRIMARY", sorts))
            return plans

        yield Explainer(request.param, ask)
        connection.close()
    else:
        session = await connect(Dsn.parse(bare_dsn), write=True)
        yield Explainer(request.param, lambda query, values: _mysql_plans(session, query, values))
        session.close()


_ONE, _TWO, _TEN, _THOUSAND = ([_id(i) for i in range(n)] for n in (1, 2, 10, 1000))
_APART = [~id_ for id_ in _TEN]
"""Places of messages that were moved."""
_SINCE, _UNTIL = START, START + 10_000
_NEXT = first_id(START)
"""The messages of schedules are numbered from here."""
_STRETCHES = [(g, q, 20 * i, 20 * i + 9) for g in range(50) for q in range(2) for i in range(10)]

CASES: dict[str, tuple[dict[str, str], list[tuple[Any, ...]]]] = {
    # query: (index by table, values to ask it with)
    "chain.some": ({"chain": "PRIMARY"}, [(1, 1, 1000)]),
    "parked.some": ({"parked": "PRIMARY"}, [(1, 1, 1000)]),
    "retry.some": ({"retry": "idx_retry_multi_group"}, [(1, 1000)]),
    "label.some": ({"label": "PRIMARY"}, [(1, 1000)]),
    "idempotency.some": ({"idempotency": "PRIMARY"}, [(1, 1000)]),
    "cursor.remove": ({"cursor": "PRIMARY"}, [([1],), ([1, 2],)]),
    "queue.remove": ({"queue": "PRIMARY"}, [([1],), ([1, 2],)]),
    "queue_owner.forget": ({"queue_owner": "PRIMARY"}, [(1,)]),
    "tally.lock": ({"tally": "PRIMARY"}, [(1,)]),
    "tally.remove": ({"tally": "PRIMARY"}, [(1,)]),
    "cleaned.remove": ({"cleaned": "PRIMARY"}, [(1,)]),
    "delay.due": ({"delay": "PRIMARY"}, [(3, first_id(_SINCE), first_id(_UNTIL), 1000)]),
    "delay.near": (
        {"delay": "PRIMARY", "moved": "PRIMARY", "retry": "PRIMARY"},
        [
            (
                [(shard, first_id(_SINCE), first_id(_UNTIL)) for shard in range(16)],
                [0, 7],
                1000,
                [(shard, _SINCE, _UNTIL) for shard in range(16)],
                1000,
                [(shard, first_id(_SINCE), first_id(_UNTIL)) for shard in range(16)],
                1000,
            )
        ],
    ),
    "delay.topics": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "delay.other_topics": (
        {"delay": "PRIMARY"},
        [([(shard, first_id(_SINCE), first_id(_UNTIL)) for shard in shards], 1) for shards in ((3,), range(16))],
    ),
    "delay.first_topics": ({"delay": "PRIMARY"}, [(3, first_id(_SINCE), first_id(_UNTIL), 500)]),
    "delay.others_of_shard": ({"delay": "PRIMARY"}, [(3, first_id(_SINCE), first_id(_UNTIL), 1, 20_000)]),
    "delay.queues": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "delay.unlocked": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "delay.lock": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,), (_APART,)]),
    "delay.lock_due": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,), (_APART,)]),
    "delay.of_queues": (
        {"delay": "PRIMARY", "d": "PRIMARY", "moved": "PRIMARY", "schedule": "idx_schedule_topic_next"},
        [
            (
                [(shard, first_id(_SINCE), first_id(_UNTIL)) for shard in shards],
                [1, 2],
                [(shard, _SINCE, _UNTIL) for shard in shards],
                [1, 2],
                [1],
                _UNTIL,
                [1, 2],
            )
            for shards in ((3,), range(16))
        ],
    ),
    "topic.ordered": ({"topic": "PRIMARY"}, [([1],), ([1, 2],)]),
    "delay.guards": ({"delay": "PRIMARY"}, [(_ONE,), (_TEN,), (_THOUSAND,), (_APART,)]),
    "delay.guarded": ({"delay": "PRIMARY"}, [(_ONE,), (_TEN,), (_THOUSAND,), (_APART,)]),
    "delay.guarded_in": ({"delay": "PRIMARY"}, [(3, 0, 1000), (3, first_id(_SINCE), 1000)]),
    "delay.remove": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "delay.find": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_ONE + _APART,)]),
    "delay.move": ({"delay": "PRIMARY"}, [(16, START, START, _ONE)]),
    "delay.used": (
        {"delay": "PRIMARY", "cancelled": "PRIMARY", "message": "udx_message_id"},
        [([~id_ for id_ in ids], ids, ids) for ids in (_ONE, _TWO, _TEN, _THOUSAND)],
    ),
    "cancelled.find": ({"cancelled": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,)]),
    "cancelled.scan": ({"cancelled": "PRIMARY"}, [(3, 0, 200), (3, first_id(_SINCE), 200)]),
    "delay.scan": ({"delay": "PRIMARY"}, [(3, 0, 200), (3, first_id(_SINCE), 200)]),
    "delay.upcoming": ({"delay": "PRIMARY"}, [(first_id(_SINCE), first_id(_UNTIL), 1)]),
    "delay.edge": (
        {"delay": "PRIMARY"},
        [(3, 0, first_id(_UNTIL), 12_500), (3, first_id(_SINCE), first_id(_UNTIL), 5)],
    ),
    "moved.edge": ({"moved": "PRIMARY"}, [(3, 0, _UNTIL, 2_500), (3, _SINCE, _UNTIL, 5)]),
    "moved.upcoming": ({"m": "PRIMARY", "d": "PRIMARY"}, [(_SINCE, _UNTIL, 1)]),
    "forecast.find": ({"forecast": "PRIMARY"}, [([(1, 5)],), ([(1, 5), (2, 6)],)]),
    "forecast.read": ({"forecast": "PRIMARY"}, [(1, 5, 30, 1)]),
    "forecast.read_all": ({"forecast": "PRIMARY"}, [(5, 30)]),
    "forecast_change.remove": ({"forecast_change": "PRIMARY"}, [(_ONE,), (_TEN,), (_THOUSAND,)]),
    "forecast_change.find": ({"forecast_change": "PRIMARY"}, [(_ONE,), (_TEN,)]),
    "moved.due": ({"m": "PRIMARY", "d": "PRIMARY"}, [(3, _SINCE, _SINCE, 0, _UNTIL, 1000)]),
    "moved.remove": ({"moved": "PRIMARY"}, [(0, START, _id(0))]),
    "retry.due": ({"retry": "PRIMARY"}, [(3, first_id(_SINCE), first_id(_UNTIL), 1000)]),
    "retry.lock": ({"retry": "PRIMARY", "m": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "retry.groups": ({"retry": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "retry.queues": ({"retry": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "retry.remove": ({"retry": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "retry.of_messages": ({"retry": "idx_retry_message_id"}, [(_ONE,), (_TEN,), (_THOUSAND,)]),
    "message.range": ({"message": "PRIMARY"}, [(1, 0, 200, 100), (1, 0, 1 << 40, 256)]),
    "message.tags": ({"message": "PRIMARY"}, [(1, 0, 200, 100), (1, 0, 1 << 40, 500)]),
    "message.expiries": ({"message": "PRIMARY"}, [(1, 0, 200, 100), (1, 0, 1 << 40, 500)]),
    "message.leaving": ({"message": "PRIMARY"}, [(1, 0, 200)]),
    "message.first": ({"message": "PRIMARY"}, [(1, 0), (1, 100)]),
    "message.since": ({"message": "PRIMARY"}, [(1, 0, 200, START)]),
    "message.page": ({"message": "PRIMARY"}, [(1, 0, 200, 100)]),
    "message.restore": ({"dead": "PRIMARY"}, [(1, _ONE), (1, _TEN)]),
    "message.find": ({"m": "udx_message_id", "q": "PRIMARY"}, [([_id(0) | 1 << 20],)]),
    "message.promote": ({"delay": "PRIMARY"}, [(0, START, _ONE), (0, START, _TEN), (0, START, _THOUSAND)]),
    "redelivery.range": ({"r": "PRIMARY", "m": "PRIMARY"}, [(2, 0, 200, 100), (2, 0, 1 << 40, 256)]),
    "redelivery.tags": ({"r": "PRIMARY", "m": "PRIMARY"}, [(2, 0, 200, 100), (2, 0, 1 << 40, 500)]),
    "redelivery.expiries": ({"r": "PRIMARY", "m": "PRIMARY"}, [(2, 0, 200, 100), (2, 0, 1 << 40, 500)]),
    "redelivery.sources": ({"r": "PRIMARY", "m": "PRIMARY"}, [(2, [0]), (2, [0, 1, 2])]),
    "redelivery.of_messages": ({"redelivery": "idx_redelivery_message_id"}, [(_ONE,), (_TEN,), (_THOUSAND,)]),
    "claim.lock": ({"claim": "PRIMARY"}, [(1, 1, [0]), (1, 1, [0, 1, 2])]),
    "claim.change": ({"claim": "PRIMARY"}, [(START, b"\0", bytes(8), 1, 1, 0)]),
    "claim.remove": ({"claim": "PRIMARY"}, [(1, 1, [0]), (1, 1, [0, 1, 2])]),
    "claim.over": ({"claim": "idx_claim_lease_until"}, [(START + HOUR // 60, 100)]),
    "claim.find": ({"claim": "PRIMARY"}, [([(1, 1, 0, 1)],), (_STRETCHES,)]),
    "claim.outcomes": ({"claim": "PRIMARY"}, [(1,)]),
    "claim.of_group": ({"claim": "PRIMARY"}, [(1,)]),
    "claim.lock_all": ({"claim": "PRIMARY"}, [(1, [0]), (1, [0, 1, 2])]),
    "cursor.lock": ({"cursor": "PRIMARY"}, [(1, [0]), (1, [0, 1, 2])]),
    "cursor.free": ({"cursor": "PRIMARY"}, [(1, [0]), (1, [0, 1, 2])]),
    "cursor.there": ({"cursor": "PRIMARY"}, [(1, [0]), (1, [0, 1, 2])]),
    "cursor.behind": ({"c": "PRIMARY", "q": "PRIMARY"}, [(1, 64)]),
    "cursor.move": ({"cursor": "PRIMARY"}, [(*(0,) * 9, 1, 1)]),
    "cursor.seek": ({"cursor": "PRIMARY"}, [(0, 0, 0, 0, 0, 1, 1)]),
    "cursor.redriven": ({"cursor": "PRIMARY"}, [(1, 1, 1, 1)]),
    "cursor.cleared": ({"cursor": "PRIMARY"}, [(1, 1, 1)]),
    "queue.lock": ({"queue": "PRIMARY"}, [([1],), ([1, 2],), (list(range(1, 30)),)]),
    "queue.free": ({"queue": "PRIMARY"}, [([1],), ([1, 2],), (list(range(1, 30)),)]),
    "tally.free": ({"tally": "PRIMARY"}, [([1], 1), ([1, 2], 1)]),
    "tally.there": ({"tally": "PRIMARY"}, [([1], 1), ([1, 2], 1)]),
    "queue.ends": ({"queue": "PRIMARY"}, [([1],), ([1, 2],)]),
    "queue.advance": ({"queue": "PRIMARY"}, [(1, 1)]),
    "queue.seal": ({"queue": "PRIMARY"}, [(1, 1, 0, 1)]),
    "message.last": ({"message": "PRIMARY"}, [(1,)]),
    "message.behind": ({"message": "PRIMARY"}, [(1, 0, 1000)]),
    "queue.draw": ({"queue": "PRIMARY"}, [(1, 1, 1)]),
    "queue.of_topics": ({"queue": "udx_queue_multi_topic"}, [([1],)]),
    "dead.scan": ({"dead": "PRIMARY"}, [(1, 0, 500)]),
    "dead.page": ({"dead": "PRIMARY"}, [(1, 0, 500), (1, START + 10, 500)]),
    "claim.page": ({"claim": "PRIMARY"}, [(1, 1, 0, 50), (1, 1, 5, 50)]),
    "retry.along": ({"retry": "idx_retry_multi_source"}, [(1, 0, 500), (1, 10, 500)]),
    "parked.along": ({"parked": "idx_parked_multi_source"}, [(1, 0, 500), (1, 10, 500)]),
    "dead.whole": ({"dead": "PRIMARY"}, [(1, _ONE), (1, _TEN)]),
    "dead.places": ({"dead": "PRIMARY"}, [(1, _ONE), (1, _TEN)]),
    "dead.named": ({"dead": "PRIMARY"}, [(1, _ONE), (1, _TEN)]),
    "dead.aged": ({"dead": "idx_dead_multi_dead_at"}, [(1, START, START + HOUR, START, -1, 200)]),
    "dead.sought": ({"dead": "idx_dead_multi_dead_at"}, [(1, START, START + HOUR, START, -1, 500)]),
    "dead.sought_named": ({"dead": "PRIMARY"}, [(1, _ONE), (1, _TEN)]),
    "dead.count_astray": ({"dead": "idx_dead_multi_dead_at"}, [(1, START, START + HOUR, [1, 2], START)]),
    "dead.count_expired": ({"dead": "idx_dead_multi_dead_at"}, [(1, START, START + HOUR, START)]),
    "dead.remove_all": ({"dead": "PRIMARY"}, [(1, _ONE), (1, _TEN)]),
    "replay.lock": ({"replay": "PRIMARY"}, [(1, 1)]),
    "idempotency.find": ({"idempotency": "PRIMARY"}, [(1, [b"1"]), (1, [b"1", b"4"])]),
    "idempotency.lock": ({"idempotency": "PRIMARY"}, [(1, [b"1"]), (1, [b"1", b"4"])]),
    "idempotency.between": ({"idempotency": "PRIMARY"}, [(1, b"1", b"4", 10)]),
    "idempotency.remove": ({"idempotency": "PRIMARY"}, [(1, [b"1"], 2 * START), (1, [b"1", b"4"], 2 * START)]),
    "idempotency.past": ({"idempotency": "idx_idempotency_expires_at"}, [(START + 1, 100)]),
    "idempotency.forget": ({"idempotency": "PRIMARY"}, [(1, [b"1"], 2 * START), (1, [b"1", b"4"], 2 * START)]),
    "delivery.unarchived": ({"delivery": "idx_delivery_multi_first"}, [(1, 1, 0, 50, 1)]),
    "delivery.find": ({"delivery": "idx_delivery_multi_first"}, [(1, 1, 1, 0)]),
    "delivery.find_all": ({"delivery": "idx_delivery_multi_first"}, [([(1, 1, 0, 1)],), (_STRETCHES,)]),
    "delivery.of_spans": (
        {"delivery": "idx_delivery_multi_first"},
        [([(1, 1, 0, 1000)],), ([(g, q, 0, 9) for g in range(50) for q in range(3)],), (_STRETCHES,)],
    ),
    "claim.extents": ({"claim": "PRIMARY"}, [([(1, 1, 2)],), ([(g, q, q + 1) for g in range(300) for q in range(3)],)]),
    "claim.of_spans": ({"claim": "PRIMARY"}, [([(1, 1, 0, 1)],), (_STRETCHES,)]),
    "message.ids_within": ({"message": "PRIMARY"}, [([(1, 0, 9)],), ([(1, 2 * i, 2 * i + 1) for i in range(500)],)]),
    "redelivery.ids_within": (
        {"redelivery": "PRIMARY"},
        [([(2, 0, 9)],), ([(2, 2 * i, 2 * i + 1) for i in range(500)],)],
    ),
    "message.weights": (
        {"delay": "PRIMARY", "message": "udx_message_id", "redelivery": "idx_redelivery_message_id"},
        [(_ONE, _ONE, _ONE), (_TEN, _TEN, _TEN), (_THOUSAND, _THOUSAND, _THOUSAND)],
    ),
    "dead.weights": ({"dead": "PRIMARY"}, [(_ONE, [1]), (_THOUSAND, [1, 2, 3, 4])]),
    "dead.letters": ({"dead": "PRIMARY"}, [(_ONE, [1]), (_THOUSAND, [1, 2, 3, 4])]),
    "dead.of_messages": ({"dead": "PRIMARY"}, [(_ONE, [1]), (_THOUSAND, [1, 2, 3, 4]), (_ONE, list(range(4000)))]),
    "queue.owners": ({"queue": "PRIMARY"}, [([1],), (list(range(1, 1000)),)]),
    "topic.page": ({"topic": "PRIMARY"}, [(0, 500), (1, 500)]),
    "topic.by_name": ({"topic": "udx_topic_name"}, [(b"", 100), (b"x", 100)]),
    "consumer_group.find": ({"consumer_group": "udx_consumer_group_multi_name"}, [(1, b"4")]),
    "queue.of_group": ({"queue": "udx_queue_multi_topic"}, [(1, 1)]),
    "consumer_group.topics_of": ({"consumer_group": "PRIMARY"}, [([1],), ([1, 2],)]),
    "cursor.leftovers": ({"cursor": "PRIMARY"}, [([1],), (list(range(1000)),)]),
    "cursor.lags": ({"c": "PRIMARY", "q": "PRIMARY"}, [([1],), (list(range(1000)),)]),
    "cursor.counts": ({"c": "PRIMARY", "q": "PRIMARY"}, [([1],), (list(range(1000)),)]),
    "claim.of_groups": ({"claim": "PRIMARY"}, [([1],), ([1, 2],), (list(range(30)),)]),
    "parked.counts": ({"g": "PRIMARY", "p": "PRIMARY"}, [([1],), ([1, 2],), (list(range(5)),)]),
    "reader.least": ({"reader": "PRIMARY"}, [([1],), ([1, 2],), (list(range(30)),)]),
    "topic.free": ({"topic": "PRIMARY"}, [([1],), ([1, 2],)]),
    "topic.names": ({"topic": "PRIMARY"}, [([1],), ([1, 2],)]),
    "message.oldest": ({"message": "PRIMARY"}, [(1, 0, 1), (1, 100, 1000)]),
    "message.wanted": (
        {
            "cursor": "PRIMARY",
            "claim": "PRIMARY",
            "retry": "idx_retry_multi_source",
            "redelivery": "idx_redelivery_message_id",
            "parked": "idx_parked_multi_source",
        },
        [([1], [1], 1, 0, 10, _ONE, 1, 0, 10), ([1, 2, 3], [1, 2, 3], 1, 0, 1000, _THOUSAND, 1, 0, 1000)],
    ),
    "message.remove": ({"message": "PRIMARY"}, [(1, 0, 1), (1, 0, 1000)]),
    "label.remove": (
        {"label": "PRIMARY"},
        [([(1, b"0", _id(0))],), ([(1, b"0", _id(0))] * 2,), ([(1, b"%d" % i, id_) for i, id_ in enumerate(_TEN)],)],
    ),
    "redelivery.oldest": ({"redelivery": "PRIMARY"}, [(2, 0, 1), (2, 100, 1000)]),
    "redelivery.expunge": ({"redelivery": "PRIMARY"}, [(2, 0, 1), (2, 0, 1000)]),
    "delivery.oldest": ({"delivery": "PRIMARY"}, [(1, 1, 0, 1), (1, 1, 5, 1000)]),
    "delivery.expunge": ({"delivery": "PRIMARY"}, [(1, 1, 0, 1), (1, 1, 0, 1000)]),
    "seek.oldest": ({"seek": "PRIMARY"}, [(1, 1, 0, 1), (1, 1, 5, 1000)]),
    "seek.expunge": ({"seek": "PRIMARY"}, [(1, 1, 0, 1), (1, 1, 0, 1000)]),
    "dead.oldest": ({"dead": "idx_dead_multi_dead_at"}, [(1, START + 10, 1000)]),
    "cancelled.oldest": ({"cancelled": "PRIMARY"}, [(3, 0, first_id(_UNTIL), 1000)]),
    "cancelled.expunge": ({"cancelled": "PRIMARY"}, [(_ONE,), (_TEN,), (_THOUSAND,)]),
    "moved.orphans": ({"m": "PRIMARY", "d": "PRIMARY"}, [(3, _UNTIL, 1000)]),
    "claim.spans": ({"claim": "PRIMARY"}, [(1, 1)]),
    "cursor.expire": ({"cursor": "PRIMARY"}, [(1, 1, 1, 1)]),
    "cursor.position": ({"cursor": "PRIMARY"}, [(1, 1)]),
    "cleaned.find": ({"cleaned": "PRIMARY"}, [([1],), ([1, 2, 3],)]),
    "cleaned.lock": ({"cleaned": "PRIMARY"}, [([1],), ([1, 2, 3],)]),
    "cleaned.move": ({"cleaned": "PRIMARY"}, [(1, 1, 1)]),
    "archived.find": ({"archived": "PRIMARY"}, [(1,)]),
    "consumer_group.pause": ({"consumer_group": "PRIMARY"}, [(1, 1)]),
    "consumer_group.paused": ({"consumer_group": "idx_consumer_group_paused"}, [()]),
    "consumer_group.see": ({"consumer_group": "PRIMARY"}, [(START, 1)]),
    "consumer_group.seen": ({"consumer_group": "udx_consumer_group_multi_name"}, [(1,)]),
    "delay.seen": ({"delay": "PRIMARY"}, [(_ONE,)]),
    "delay.locked": ({"delay": "PRIMARY"}, [(0, _id(0))]),
    "delay.remove_locked": ({"delay": "PRIMARY"}, [(0, _id(0))]),
    "cancelled.remove": ({"cancelled": "PRIMARY"}, [(0, _id(0))]),
    "outbox_cancel.remove": ({"outbox_cancel": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "claim.locked": ({"claim": "PRIMARY"}, [(1, 1, 0)]),
    "claim.note": ({"claim": "PRIMARY"}, [(b"\0", bytes(8), 1, 1, 0)]),
    "claim.remove_locked": ({"claim": "PRIMARY"}, [(1, 1, 0)]),
    "message.place": ({"message": "udx_message_id"}, [(_id(0) | 1 << 20,)]),
    "chain.lock": ({"chain": "PRIMARY"}, [(0, 0, [b"0"]), (0, 0, [b"0", b"3"])]),
    "chain.of_queue": ({"chain": "PRIMARY"}, [(0, 0)]),
    "chain.remove": ({"chain": "PRIMARY"}, [(0, 0, b"0")]),
    "parked.first": ({"parked": "PRIMARY"}, [(0, 0, b"0", 5, 1), (0, 0, b"0", 1 << 62, 100)]),
    "parked.remove": ({"parked": "PRIMARY"}, [(0, 0, b"0", 5)]),
    "parked.count": ({"parked": "PRIMARY"}, [(0,)]),
    "parked.of_messages": ({"parked": "idx_parked_message_id"}, [(_ONE,), (_TEN,), (_THOUSAND,)]),
    "queue_owner.lock": ({"queue_owner": "PRIMARY"}, [(0,)]),
    "queue_owner.of_group": ({"queue_owner": "PRIMARY"}, [(0,)]),
    "claim.clients_of_group": ({"claim": "PRIMARY"}, [(1,)]),
    "client.free": ({"client": "PRIMARY"}, [([b"client-1"],), ([b"client-1", b"client-2"],)]),
    "client.there": ({"client": "PRIMARY"}, [([b"client-1"],), ([b"client-1", b"client-2"],)]),
    "client.lock": ({"client": "PRIMARY"}, [([b"1"],), ([b"1", b"2"],)]),
    "member.of_groups": ({"member": "PRIMARY"}, [([1], START), ([1, 2, 3], START)]),
    "member.leave": ({"member": "idx_member_client"}, [([b"1"],), ([b"1", b"2"],)]),
    "member.forget": ({"member": "PRIMARY"}, [(1, b"1", START)]),
    "cursor.claimable": ({"c": "PRIMARY", "q": "PRIMARY"}, [([1],), ([1, 2, 3],)]),
    "client.bury": ({"client": "PRIMARY"}, [(b"1", START)]),
    "message.members": ({"message": "PRIMARY"}, [(1, 0, 200)]),
    "redelivery.members": ({"r": "PRIMARY", "m": "PRIMARY"}, [(2, 0, 200)]),
    "reader.lock": ({"reader": "PRIMARY"}, [(1, b"1")]),
    "reader.free": ({"reader": "PRIMARY"}, [(1, b"1")]),
    "reader.there": ({"reader": "PRIMARY"}, [(1, b"1")]),
    "reader.move": ({"reader": "PRIMARY"}, [(1, 1, b"1", 1)]),
    "reader.see": ({"reader": "PRIMARY"}, [(START, 1, b"1")]),
    "reader.silent": ({"reader": "idx_reader_multi_asked_at"}, [(1, START, 1000), (1, START + 10_000, 1000)]),
    "reader.expunge": (
        {"reader": "PRIMARY"},
        [(1, [b"1"], START), (1, [b"1", b"2"], START), (1, [b"%d" % i for i in range(200)], START)],
    ),
    "reader.of_group": ({"reader": "PRIMARY"}, [(1,)]),
    "reader.forget": ({"reader": "PRIMARY"}, [([1], b"1"), ([1, 2, 3], b"1")]),
    "schedule.lock": ({"schedule": "udx_schedule_name"}, [(b"1",)]),
    "schedule.find": ({"schedule": "udx_schedule_name"}, [(b"1",)]),
    "schedule.page": ({"schedule": "udx_schedule_name"}, [(b"", 100), (b"1", 100)]),
    "schedule.lock_next": (
        {"schedule": "udx_schedule_next_id"},
        [([_NEXT + 1] * 2,), ([_NEXT + i for i in range(1000)],)],
    ),
    "schedule.waits": (
        {"schedule": "udx_schedule_next_id"},
        [([_NEXT + 1] * 2,), ([_NEXT + i for i in range(1000)],)],
    ),
    "schedule.overdue": (
        {"schedule": "idx_schedule_next_at"},
        [(-1, -1, 0, START + 10_000, 100), (START + 100, START + 100, 1, START + 10_000, 100)],
    ),
    "schedule.change": ({"schedule": "PRIMARY"}, [(1, 1, b"{}", START, 0, 1)]),
    "schedule.advance": ({"schedule": "PRIMARY"}, [(START, None, None, None, 1)]),
    "schedule.remove": ({"schedule": "PRIMARY"}, [(1,)]),
    "schedule.ids": ({"schedule": "PRIMARY"}, [(0, 50), (1, 50)]),
    "schedule.of_topic": ({"schedule": "idx_schedule_topic_id"}, [(0, 100)]),
    "fire.among": ({"fire": "PRIMARY"}, [(0, [START] * 2), (0, [START + i * 100 for i in range(1000)])]),
    "fire.page": ({"fire": "PRIMARY"}, [(0, 1 << 62, 100), (0, START + 200, 100)]),
    "fire.edge": ({"fire": "PRIMARY"}, [(0, 1000)]),
    "fire.some": ({"fire": "PRIMARY"}, [(0, [START] * 2), (0, [START + i * 100 for i in range(1000)])]),
    "fire.last": ({"fire": "PRIMARY"}, [(0, START + 100, START)]),
    "fire.forget": ({"fire": "PRIMARY"}, [(0, START + 100, START)]),
    "fire.remove_all": ({"fire": "PRIMARY"}, [(0,)]),
    "fire.remove": ({"fire": "PRIMARY"}, [(0, START)]),
    "fire.end": ({"fire": "PRIMARY"}, [(7, 0, START, 0, START)]),
    "fire.remove_ahead": ({"fire": "PRIMARY"}, [(0, START + 100, 5)]),
    "label.find": ({"label": "PRIMARY"}, [(1, b"0", 0, 100)]),
    "message.newest": ({"message": "PRIMARY"}, [(1, 2, 10), (1, 1 << 62, 1000), (7, 5, 10)]),
    "message.standing": ({"message": "udx_message_id"}, [([_id(0) | 1 << 20],)]),
    "timer.of_topic": ({"timer": "PRIMARY"}, [(1, b"", 100), (1, b"3", 1000)]),
    "message.kept": ({"m": "udx_message_id", "q": "PRIMARY"}, [(_ONE,), (_TEN,)]),
    "message.erase": ({"message": "PRIMARY"}, [(None, 1, 0)]),
    "dead.kept": ({"dead": "PRIMARY"}, [(_ONE, [1]), (_ONE, list(range(1000)))]),
    "dead.erase": ({"dead": "PRIMARY"}, [(None, b"[]", 1, _id(0))]),
    "retry.rewrite": ({"retry": "PRIMARY"}, [(b"[]", 1, _id(1))]),
    "redelivery.rewrite": ({"redelivery": "PRIMARY"}, [(b"[]", 2, 1)]),
    "parked.kept": ({"parked": "idx_parked_message_id"}, [(_ONE,)]),
    "erased.find": ({"erased": "PRIMARY"}, [(_ONE,), (_TEN,)]),
    "erased.pending": ({"erased": "idx_erased_lake_at"}, [(1000,)]),
    "erased.scan": ({"erased": "PRIMARY"}, [(_id(1), 1000)]),
    "erased.applied": ({"erased": "PRIMARY"}, [(START, _id(0))]),
    "erased.again": ({"erased": "PRIMARY"}, [(1, _id(0))]),
    "witness.last": ({"witness": "PRIMARY"}, [(1,)]),
    "witness.remove": ({"witness": "PRIMARY"}, [([1],), ([1, 2],)]),
}


@pytest.mark.slow
async def test_hot_queries(kind: Kind, bare_dsn: str, explainer: Explainer) -> None:
    """All of them of the same tables, as these take long to fill."""
    await each_finds_its_rows(explainer)
    await pages_come_in_the_order_of_their_index(explainer)
    if kind != "sqlite":  # there each is a statement of its own
        await many_updates_at_once_find_each_row_by_its_key(bare_dsn, explainer)


async def many_updates_at_once_find_each_row_by_its_key(bare_dsn: str, explainer: Explainer) -> None:
    ids = [1] if explainer.rows == FEW else range(1, 1001)
    ((many, text),) = mysql_statements.bind_each(
        "schedule.advance", [(START, None, START + i, i, i) for i in ids], max_bytes=1 << 20
    )
    assert many == len(ids)
    session = await connect(Dsn.parse(bare_dsn), write=True)
    if session.server.flavour == "mariadb":
        await session.execute(b"SET sql_safe_updates = 0")
    await session.begin()
    before, _, update = text.partition(b"UPDATE ")
    assert b"sql_safe_updates" in before  # of which EXPLAIN knows nothing
    rows = await session.fetch(b"EXPLAIN FORMAT=TRADITIONAL UPDATE " + update)
    await session.rollback()
    table, access, index = (2, 3, 5) if session.server.flavour == "mariadb" else (2, 4, 6)
    session.close()
    plans = [Plan(row[table], row[access], row[index]) for row in rows if row[table] == "schedule"]
    assert [plan.index for plan in plans] == ["PRIMARY"], rows
    assert plans[0].access in ACCESS


async def pages_come_in_the_order_of_their_index(explainer: Explainer) -> None:
    for query in ("message.newest", "timer.of_topic", "delay.scan"):
        for values in CASES[query][1]:
            assert [plan for plan in await explainer.plans(query, *values) if plan.sorts] == [], query


async def each_finds_its_rows(explainer: Explainer) -> None:
    faults: list[str] = []
    for query, (indexes, asked) in CASES.items():
        for values in asked:
            plans = await explainer.plans(query, *values)
            for plan in plans:
                index = indexes.get(plan.table)
                ours = plan.index and (plan.index.startswith("sqlite_autoindex") or plan.index == "PRIMARY")
                fits = ours if index == "PRIMARY" else plan.index == index
                # Both keys of a message lead to the one row; SQLite takes the other.
                if (query, plan.table, plan.index) == ("retry.lock", "m", "udx_message_id"):
                    continue
                # INSERT ... SELECT names the table that is written to, too.
                if plan.table == "message" and query in ("message.promote", "message.restore"):
                    continue
                # All of `moved` is in its key, and of a few rows the servers read all there is.
                pointers = (query, plan.table) in {
                    ("delay.near", "moved"),
                    ("delay.of_queues", "moved"),
                    ("moved.upcoming", "m"),
                }
                if pointers and plan.access == "index" and explainer.rows == FEW:
                    continue
                # What is not added up yet is read whole.
                if plan.table == "forecast_change" and query in ("forecast.read", "forecast.read_all"):
                    continue
                if plan.access not in ACCESS or not fits:
                    faults.append(f"{query} with {str(values)[:60]}: {plan}")
    assert not faults, "\n".join(["", *faults])
