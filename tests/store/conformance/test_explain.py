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
_DELETES = {
    "delay.remove",
    "retry.remove",
    "claim.remove",
    "idempotency.remove",
    "idempotency.forget",
    "moved.remove",
    "reader.forget",
}
ACCESS = {"const", "eq_ref", "ref", "range"}

Rows = dict[str, list[Sequence[Value]]]


def _id(i: int) -> int:
    return first_id(START + i * 100) + (i & 15)


def _rows(count: int) -> Rows:
    """`count` rows for every table that a hot query reads."""
    numbers = range(count)
    content: tuple[Value, ...] = (b"k", None, None, None, None, b"{}")
    return {
        "delay.add": [(i & 15, _id(i), START + i * 100, i, 1, 1, *content, START, START) for i in numbers],
        "moved.add": [(i & 15, START + i * 100, _id(i)) for i in numbers],
        "cancelled.add": [(i & 15, _id(i + count), i, 1, b"k", START, START, START) for i in numbers],
        "retry.add": [(i & 15, _id(i), i % 7, 2, 1, i, _id(i), 2, b"[]", START) for i in numbers],
        "message.add": [(1 + i % 3, i // 3, _id(i) | 1 << 20, i, *content, START, START, START) for i in numbers],
        "redelivery.add": [(2, i, _id(i), 1 + i % 3, i // 3, _id(i), 2, b"[]", START) for i in numbers],
        "claim.add": [
            (i % 50, i % 3, i // 150, i, b"c", i, 1, START, START + i * 100, b"\0", bytes(8)) for i in numbers
        ],
        "delivery.add": [
            (i % 50, i % 3, i // 3, i // 3, i, b"c", i, 1, START, START, b"\1", bytes(8)) for i in numbers
        ],
        "cursor.add": [(i // 3, i % 3, *(0,) * 10) for i in numbers],
        "queue.add": [(i // 3, 0, i % 3, 0, 0) for i in numbers],
        "idempotency.add": [(i % 3, b"%d" % i, bytes(32), b"[]", START + i * 100) for i in numbers],
        "reader.add": [(i % 50, b"%d" % (i // 50), i % 3, 0, 0) for i in numbers],
        "label.add": [(i % 3, b"%d" % (i // 6), _id(i)) for i in numbers],
    }


@attrs.frozen
class Plan:
    """One line of a plan: how a table is read."""

    table: str
    access: str
    index: str | None


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
            plans.append(Plan(table, access, index))
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

    await backend.write(fill)
    tables = open_tables(bare_dsn)
    if kind == "sqlite":
        if request.param == MANY:  # nobody runs ANALYZE on the embedded store, but it may be run
            tables.rows("ANALYZE")
    else:
        for query in rows:
            tables.rows(f"ANALYZE TABLE `{query.partition('.')[0]}`")
    tables.close()
    await backend.aclose()
    if kind == "sqlite":
        connection = sqlite_connection.connect(bare_dsn.removeprefix("sqlite:///"))  # type: ignore[arg-type]

        async def ask(query: str, values: Sequence[Any]) -> list[Plan]:
            text, parameters = sqlite_statements.bind(query, values)
            plans: list[Plan] = []
            for *_, detail in connection.execute("EXPLAIN QUERY PLAN " + text, parameters):
                words = detail.split()
                if words[0] in ("SEARCH", "SCAN") and words[1] not in ("json_each", "(subquery-3)"):
                    index = detail.partition("INDEX ")[2].partition(" ")[0]
                    plans.append(Plan(words[1], "range" if words[0] == "SEARCH" else "ALL", index or "PRIMARY"))
            return plans

        yield Explainer(request.param, ask)
        connection.close()
    else:
        session = await connect(Dsn.parse(bare_dsn), write=True)
        yield Explainer(request.param, lambda query, values: _mysql_plans(session, query, values))
        session.close()


_ONE, _TWO, _TEN, _THOUSAND = ([_id(i) for i in range(n)] for n in (1, 2, 10, 1000))
_SINCE, _UNTIL = START, START + 10_000

CASES: dict[str, tuple[dict[str, str], list[tuple[Any, ...]]]] = {
    # query: (index by table, values to ask it with)
    "delay.due": ({"delay": "PRIMARY"}, [(3, first_id(_SINCE), first_id(_UNTIL), 1000)]),
    "delay.near": ({"delay": "PRIMARY"}, [(first_id(_SINCE), first_id(_UNTIL), 1000)]),
    "delay.lock": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "delay.remove": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "delay.find": ({"delay": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,)]),
    "delay.move": ({"delay": "PRIMARY"}, [(START, START, 0, _id(0))]),
    "delay.landed": ({"delay": "PRIMARY"}, [(0, _id(0), 0)]),
    "delay.used": (
        {"cancelled": "PRIMARY", "message": "udx_message_id"},
        [(_ONE, _ONE), (_TWO, _TWO), (_TEN, _TEN), (_THOUSAND, _THOUSAND)],
    ),
    "cancelled.find": ({"cancelled": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,)]),
    "moved.due": ({"m": "PRIMARY", "d": "PRIMARY"}, [(3, _SINCE, _SINCE, 0, _UNTIL, 1000)]),
    "moved.near": ({"moved": "PRIMARY"}, [(_SINCE, _UNTIL, 1000)]),
    "moved.remove": ({"moved": "PRIMARY"}, [(0, START, _id(0))]),
    "retry.due": ({"retry": "PRIMARY"}, [(3, first_id(_SINCE), first_id(_UNTIL), 1000)]),
    "retry.near": ({"retry": "PRIMARY"}, [(first_id(_SINCE), first_id(_UNTIL), 1000)]),
    "retry.lock": ({"retry": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "retry.remove": ({"retry": "PRIMARY"}, [(_ONE,), (_TWO,), (_TEN,), (_THOUSAND,)]),
    "retry.of_message": ({"retry": "idx_retry_message_id"}, [(_id(0),)]),
    "message.range": ({"message": "PRIMARY"}, [(1, 0, 200, 100), (1, 0, 1 << 40, 256)]),
    "message.tags": ({"message": "PRIMARY"}, [(1, 0, 200, 100), (1, 0, 1 << 40, 500)]),
    "message.ids": ({"message": "PRIMARY"}, [(1, 0, 200)]),
    "message.find": ({"m": "udx_message_id", "q": "PRIMARY"}, [([_id(0) | 1 << 20],)]),
    "message.landed": ({"message": "udx_message_id"}, [(_id(0) | 1 << 20, 0)]),
    "message.promote": ({"delay": "PRIMARY"}, [(0, START, _ONE), (0, START, _TEN), (0, START, _THOUSAND)]),
    "redelivery.range": ({"r": "PRIMARY", "m": "PRIMARY"}, [(2, 0, 200, 100), (2, 0, 1 << 40, 256)]),
    "redelivery.tags": ({"r": "PRIMARY", "m": "PRIMARY"}, [(2, 0, 200, 100), (2, 0, 1 << 40, 500)]),
    "redelivery.ids": ({"redelivery": "PRIMARY"}, [(2, 0, 200)]),
    "redelivery.sources": ({"redelivery": "PRIMARY"}, [(2, [0]), (2, [0, 1, 2])]),
    "redelivery.of_message": ({"redelivery": "idx_redelivery_message_id"}, [(_id(0),)]),
    "claim.lock": ({"claim": "PRIMARY"}, [(1, 1, [0]), (1, 1, [0, 1, 2])]),
    "claim.change": ({"claim": "PRIMARY"}, [(START, b"\0", bytes(8), 1, 1, 0)]),
    "claim.remove": ({"claim": "PRIMARY"}, [(1, 1, [0]), (1, 1, [0, 1, 2])]),
    "claim.over": ({"claim": "idx_claim_lease_until"}, [(START + HOUR // 60, 100)]),
    "claim.find": ({"claim": "PRIMARY"}, [(1, 1, 0)]),
    "claim.outcomes": ({"claim": "PRIMARY"}, [(1,)]),
    "claim.of_group": ({"claim": "PRIMARY"}, [(1,)]),
    "cursor.lock": ({"cursor": "PRIMARY"}, [(1, [0]), (1, [0, 1, 2])]),
    "cursor.move": ({"cursor": "PRIMARY"}, [(*(0,) * 9, 1, 1)]),
    "cursor.turn": ({"cursor": "PRIMARY"}, [(1, 1, 0)]),
    "queue.lock": ({"queue": "PRIMARY"}, [([1],), ([1, 2],), (list(range(1, 30)),)]),
    "queue.ends": ({"queue": "PRIMARY"}, [([1],), ([1, 2],)]),
    "queue.advance": ({"queue": "PRIMARY"}, [(1, 1)]),
    "queue.draw": ({"queue": "PRIMARY"}, [(1, 1, 1)]),
    "queue.of_topics": ({"queue": "udx_queue_multi_topic"}, [([1],)]),
    "idempotency.find": ({"idempotency": "PRIMARY"}, [(1, [b"1"]), (1, [b"1", b"4"])]),
    "idempotency.remove": ({"idempotency": "PRIMARY"}, [(1, [b"1"]), (1, [b"1", b"4"])]),
    "idempotency.past": ({"idempotency": "idx_idempotency_expires_at"}, [(START + 1, 100)]),
    "idempotency.forget": ({"idempotency": "PRIMARY"}, [(1, [b"1"], 2 * START), (1, [b"1", b"4"], 2 * START)]),
    "delivery.find": ({"delivery": "idx_delivery_multi_first"}, [(1, 1, 1, 0)]),
    "delivery.of_offset": ({"delivery": "idx_delivery_multi_first"}, [(1, 1, 0, 1000)]),
    "reader.lock": ({"reader": "PRIMARY"}, [(1, b"1")]),
    "reader.move": ({"reader": "PRIMARY"}, [(1, 1, 1, b"1", 1)]),
    "reader.turn": ({"reader": "PRIMARY"}, [(1, b"1", 1, 1)]),
    "reader.of_group": ({"reader": "PRIMARY"}, [(1,)]),
    "reader.forget": ({"reader": "PRIMARY"}, [([1], b"1"), ([1, 2, 3], b"1")]),
    "label.find": ({"label": "PRIMARY"}, [(1, b"0", 0, 100)]),
}


async def test_hot_queries(explainer: Explainer) -> None:
    faults: list[str] = []
    for query, (indexes, asked) in CASES.items():
        for values in asked:
            plans = await explainer.plans(query, *values)
            for plan in plans:
                index = indexes.get(plan.table)
                ours = plan.index and (plan.index.startswith("sqlite_autoindex") or plan.index == "PRIMARY")
                fits = ours if index == "PRIMARY" else plan.index == index
                # INSERT ... SELECT names the table that is written to, too.
                if plan.table == "message" and query == "message.promote":
                    continue
                # All of `moved` is in its key, and of a few rows the servers read all there is.
                if query == "moved.near" and plan.access == "index" and explainer.rows == FEW:
                    continue
                if plan.access not in ACCESS or not fits:
                    faults.append(f"{query} with {str(values)[:60]}: {plan}")
    assert not faults, "\n".join(["", *faults])
