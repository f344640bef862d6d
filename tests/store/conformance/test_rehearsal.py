"""A rehearsal meets what a publish would meet, and leaves nothing."""

from contextlib import closing

import pytest
import trio

from support.servers import run_sql, until
from support.stores import Stage, connect_raw
from tarry.store.errors import Denied, StoreError
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.store import Store
from tarry.store.stream import idempotency, rehearsal

TABLES = ("message", "delay", "label", "idempotency", "queue", "tally", "moved", "retry")


async def rehearse(store: Store, now: int, size: int = 1) -> None:
    id_ = store.ids.make(now)
    await store.write(rehearsal.rehearse, id_, now, bytes(size))
    await store.write(rehearsal.clear_away, id_, now)


@pytest.mark.parametrize("size", [0, 1, 16 << 10])
async def test_nothing_stays(stage: Stage, size: int) -> None:
    before = [stage.count(table) for table in TABLES]
    for _ in range(3):
        await rehearse(stage.store, stage.now, size)
    assert [stage.count(table) for table in TABLES] == before


async def test_nor_what_was_cut_off_in_the_middle(stage: Stage) -> None:
    await stage.store.write(rehearsal.rehearse, stage.store.ids.make(stage.now), stage.now, bytes(100))
    assert stage.count("idempotency") == 1
    assert await stage.store.write(idempotency.forget, stage.now + 1, 100) == 1


async def test_a_table_that_is_locked(backend: MySQLBackend, mysql_dsn: str) -> None:
    """Each of those that a publish writes to, a failure and a new time."""
    store, now = Store(backend), await backend.now()
    with closing(connect_raw(mysql_dsn)) as operator:  # or else a failure would wait for its lock
        for table in TABLES:
            ended: list[StoreError | None] = []

            async def attempt(ended: list[StoreError | None] = ended) -> None:
                try:
                    await rehearse(store, now)
                except StoreError as error:
                    ended.append(error)
                else:
                    ended.append(None)

            def waits(ended: list[StoreError | None] = ended) -> bool:
                standing = "SELECT state FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
                return bool(ended) or bool(run_sql(mysql_dsn, standing))

            with operator.cursor() as cursor:
                cursor.execute(f"LOCK TABLES {table} READ")
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(attempt)
                    await until(waits)
                    assert None not in ended, table
                    cursor.execute("UNLOCK TABLES")
    await rehearse(store, now)


async def test_a_right_that_is_lacking(backend: MySQLBackend, mysql_dsn: str) -> None:
    place, _, database = mysql_dsn.partition("://")[2].rpartition("/")
    user = f"{database[-20:]}@'%'"
    tables = [f"`{name}`" for (name,) in run_sql(mysql_dsn, "SHOW TABLES")]
    grants = (f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user}" for table in tables)
    run_sql(mysql_dsn, f"CREATE USER {user} IDENTIFIED BY 'secret'", *grants)
    narrow = MySQLBackend(f"mysql://{database[-20:]}:secret@{place.rpartition('@')[2]}/{database}")
    store, now = Store(narrow), await backend.now()
    try:
        await rehearse(store, now)
        inserts = [("INSERT", table) for table in TABLES[:4]]
        for right, table in [
            *inserts,
            ("UPDATE", "queue"),
            ("UPDATE", "tally"),
            ("DELETE", "delay"),
            ("DELETE", "retry"),
        ]:
            run_sql(mysql_dsn, f"REVOKE {right} ON {table} FROM {user}")
            with pytest.raises(Denied, match="denied"):
                await rehearse(store, now)
            run_sql(mysql_dsn, f"GRANT {right} ON {table} TO {user}")
        await rehearse(store, now)
    finally:
        await narrow.aclose()
        run_sql(mysql_dsn, f"DROP USER {user}")
