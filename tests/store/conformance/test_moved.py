"""What is moved to another time costs the sweeps nothing, counted in rows read, and is where it can be found."""

import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.stores import HOUR, MINUTE, SECOND, START, Stage, ids_of
from tarry.store.ids import SHARDS, due_of, place_of, shard_in_delay, shard_of
from tarry.store.mysql.backend import MySQLTransaction
from tarry.store.mysql.connection import Connection, connect
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.redis_offsets import RedisOffsets
from tarry.store.ports import Transaction
from tarry.store.records import Topic
from tarry.store.sqlite.connection import SQLiteTransaction
from tarry.store.timers import timers

EVER = 1 << 42
Reading = Callable[[Transaction], Awaitable[object]]


async def _rows_of(connection: Connection) -> int:
    rows = await connection.fetch(b"SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(value) for _, value in rows)


@asynccontextmanager
async def _counting(stage: Stage) -> AsyncIterator[Callable[[Reading], Awaitable[int]]]:
    """Counts what a reading costs, on a session of its own: rows read; SQLite's are told in steps of its machine."""
    if stage.kind == "sqlite":
        file = sqlite3.connect(Path(stage.dsn.removeprefix("sqlite:///")), isolation_level=None)

        async def count_steps(reading: Reading) -> int:
            steps = 0

            def step() -> int:
                nonlocal steps
                steps += 1
                return 0

            file.set_progress_handler(step, 1)
            await reading(SQLiteTransaction(file))
            file.set_progress_handler(None, 1)
            return steps

        yield count_steps
        file.close()
        return
    session = await connect(Dsn.parse(stage.dsn), write=False)

    async def count_rows(reading: Reading) -> int:
        before = await _rows_of(session)
        asked = await _rows_of(session) - before  # the question reads rows of its own
        before = await _rows_of(session)
        await reading(MySQLTransaction(session, RedisOffsets(None)))
        return await _rows_of(session) - before - asked

    yield count_rows
    session.close()


READINGS: dict[str, Reading] = {
    "the far sweep": lambda tx: timers.near(tx, 0, START + 2 * HOUR, 10_000),
    "the near sweep": lambda tx: timers.near(tx, START + HOUR - MINUTE, START + HOUR + MINUTE, 10_000),
    "a start": lambda tx: timers.due_messages(tx, 3, 0, START + 2 * HOUR, 10_000),
    "a start, moved ones": lambda tx: timers.due_moved(tx, 3, (-1, 0), START + 2 * HOUR, 10_000),
}


async def test_sweeps_do_not_read_what_was_moved_ahead(stage: Stage, topic: Topic) -> None:
    await stage.schedule(topic, *(MINUTE + i for i in range(20)))  # late, and the same in each count
    costs: dict[int, dict[str, int]] = {}
    for many in (100, 800):
        ids = ids_of(await stage.schedule(topic, *(HOUR + i for i in range(many))))
        await stage.store.write(timers.reschedule, [(id_, START + 10 * HOUR) for id_ in ids], START)
        async with _counting(stage) as count:
            costs[many] = {name: await count(reading) for name, reading in READINGS.items()}
    assert len(await stage.store.read(timers.near, 0, START + 2 * HOUR, 10_000)) == 20
    for name, cost in costs[800].items():
        # Of 700 more not one in ten was read. (A server counts a few more or less for each shard that it looks into.)
        assert cost - costs[100][name] < 70, costs


async def test_what_was_moved_and_falls_due_is_read_once(stage: Stage, topic: Topic) -> None:
    ids = ids_of(await stage.schedule(topic, *(HOUR + i for i in range(50))))
    await stage.store.write(timers.reschedule, [(id_, START + 2 * HOUR) for id_ in ids], START)
    assert await stage.store.read(timers.near, 0, START + HOUR + MINUTE, 1000) == []
    found = await stage.store.read(timers.near, 0, START + 2 * HOUR + 1, 1000)
    assert sorted(found) == sorted((START + 2 * HOUR, id_) for id_ in ids)


async def test_the_row_lies_where_its_time_says(stage: Stage, topic: Topic) -> None:
    (receipt,) = await stage.schedule(topic, HOUR)
    home = shard_of(receipt.id)
    for ahead, shard in ((2 * HOUR, home + SHARDS), (3 * HOUR, home + SHARDS), (HOUR, home)):
        await stage.store.write(timers.reschedule, [(receipt.id, START + ahead)], START)
        assert stage.column("SELECT shard FROM delay") == [shard]
        assert stage.column("SELECT due FROM moved") == ([] if shard == home else [START + ahead])
    assert [one.entry for one in await stage.fall_due(after=HOUR)] == [receipt.id]


async def test_an_id_is_not_given_again_while_its_message_lies_apart(stage: Stage, topic: Topic) -> None:
    (receipt,) = await stage.schedule(topic, HOUR)
    await stage.store.write(timers.reschedule, [(receipt.id, START + 2 * HOUR)], START)
    taken = iter([receipt.id])
    make = stage.store.ids.make
    stage.store.ids.make = lambda due, **how: next(taken, None) or make(due, **how)  # type: ignore[method-assign]
    (other,) = await stage.schedule(topic, HOUR)
    assert other.id != receipt.id
    assert stage.count("delay") == 2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.cases(2)
async def test_nothing_is_lost_by_moves(stage: Stage, seed: int) -> None:
    """Random moves, ahead, back and to the very same time, with cancels and promotions, against a dictionary; and each
    time a start would find all of it."""
    chance = random.Random(seed)
    topic = await stage.topic()
    due: dict[int, int] = {}
    streamed: set[int] = set()
    for _ in range(60):
        some = chance.sample(sorted(due), min(len(due), chance.randrange(4)))
        match chance.randrange(6):
            case 0 | 1:
                delays = [chance.randrange(1, 300) * SECOND for _ in range(chance.randrange(1, 5))]
                due |= {one.id: one.deliver_at for one in await stage.schedule(topic, *delays)}
            case 2 | 3 if some:
                moves = [(id_, chance.choice((due_of(id_), stage.now + chance.randrange(9) * MINUTE))) for id_ in some]
                verdicts = await stage.store.write(timers.reschedule, moves, stage.now)
                moved = {id_: max(at, stage.now) for id_, at in moves}
                assert [(one.result, one.due_before, one.due) for one in verdicts] == [
                    ("rescheduled", due[id_], at) for id_, at in moved.items()
                ]
                due |= moved
            case 4 if some:
                verdicts = await stage.store.cancel(some, stage.now)
                assert [one.result for one in verdicts] == ["cancelled"] * len(some)
                assert [one.due_before for one in verdicts] == [due.pop(id_) for id_ in some]
            case _:
                stage.now += chance.randrange(3) * MINUTE
                swept = await stage.store.read(timers.near, 0, stage.now + 1, 10_000)
                assert sorted(swept) == sorted((at, id_) for id_, at in due.items() if at <= stage.now)
                promoted = {one.entry for one in await stage.promote(*(id_ for _, id_ in swept))}
                assert promoted == {id_ for id_, at in due.items() if at <= stage.now}
                due = {id_: at for id_, at in due.items() if id_ not in promoted}
                streamed |= promoted
        assert await stage.waiting() == due
        rows = {(shard, id_) for shard, id_ in stage.tables.rows("SELECT shard, id FROM delay")}
        assert rows == {(shard_in_delay(place_of(id_, at)), id_) for id_, at in due.items()}
        pointers = {(at, id_) for at, id_ in stage.tables.rows("SELECT due, id FROM moved")}
        assert pointers == {(at, id_) for id_, at in due.items() if at != due_of(id_)}
    assert set(stage.column("SELECT id FROM message")) == streamed
