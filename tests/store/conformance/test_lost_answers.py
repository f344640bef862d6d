"""The connection is cut around COMMIT: nothing lost, nothing doubled, and nobody hears of it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from typing import Any

import attrs
import pytest
import trio

from support.hearing import HearingStore
from support.store_homes import on_servers
from support.stores import HOUR, MINUTE, SECOND, Kind, Stage, bodies, connect_raw, open_tables
from tarry.bench.proxy import MOMENTS, Proxy
from tarry.client import outbox
from tarry.store.errors import OutcomeUnknown
from tarry.store.groups import holdings
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.opening import open_backend
from tarry.store.records import ClaimRequest, Group, Publication, Settled, Settlement, Topic
from tarry.store.store import Store
from tarry.store.stream import stretches
from tarry.store.timers import timers

pytestmark = on_servers  # the embedded store has no line to cut

TIMES = 50
"""Cuts of each operation, a quarter of them at each moment."""


@attrs.frozen
class Line:
    """A stage whose store is reached over the proxy."""

    stage: Stage
    proxy: Proxy
    topic: Topic
    group: Group

    def cut(self, number: int) -> None:
        """The next COMMIT; now and then also that of the next try."""
        self.proxy.cut(MOMENTS[number % 4])
        if number % 10 == 9:
            self.proxy.cut(MOMENTS[number // 10 % 3])

    def check(self, cuts: int) -> None:
        # The COMMIT of who asks what became of another may be cut as well.
        assert cuts <= self.stage.store.backend.statistics()["in_doubt"] <= self.proxy.done


@pytest.fixture
async def line(kind: Kind, dsn: str, nursery: trio.Nursery) -> AsyncIterator[Line]:
    proxy: Proxy = await nursery.start(Proxy(dsn).run)
    tables = open_tables(dsn)
    backend = await open_backend(proxy.dsn)
    stage = Stage(kind, dsn, HearingStore(backend), tables)
    topic = await stage.topic(queues=2)
    yield Line(stage, proxy, topic, await stage.group(topic))
    await backend.aclose()
    tables.close()


@pytest.fixture
def stage(line: Line) -> Stage:
    return line.stage


async def _publish(stage: Stage, topic: Topic, count: int, delay: int | None = None) -> list[int]:
    drafts = [stage.draft(topic, b"%d" % i, delay, queue=i % 2) for i in range(count)]
    return [receipt.id for receipt in await stage.publish(*drafts)]


def _stream(stage: Stage) -> Sequence[int]:
    """Bodies as numbers; offsets have no gap."""
    for count, last in stage.tables.rows("SELECT COUNT(*), MAX(`offset`) FROM message GROUP BY queue_id"):
        assert last == count - 1
    return sorted(int(body) for body in stage.column("SELECT body FROM message"))


@pytest.mark.parametrize("delay", [None, HOUR])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_publish(line: Line, stage: Stage, delay: int | None, idempotent: bool) -> None:
    ids: list[int] = []
    for i in range(TIMES // 2):
        line.cut(i)
        drafts = (stage.draft(line.topic, b"%d" % i, delay, queue=i % 2, key="k"),)
        publication = Publication(drafts, f"key-{i}" if idempotent else None, b"f" * 32)
        answer = await stage.accept(publication)
        ids += [receipt.id for receipt in answer]
        if delay is None:
            (message,) = await stage.store.read(stretches.pull, line.topic.queues[i % 2], answer[0].offset or 0, 1)
            assert message.body == b"%d" % i
    line.check(TIMES // 2)
    table = "message" if delay is None else "delay"
    assert sorted(stage.column(f"SELECT id FROM {table}")) == sorted(ids)
    assert sorted(int(body) for body in stage.column(f"SELECT body FROM {table}")) == list(range(TIMES // 2))
    assert stage.count("label") == TIMES // 2
    await stage.counts(line.topic, accepted=TIMES // 2, pending=0 if delay is None else TIMES // 2)


async def test_promote(line: Line, stage: Stage) -> None:
    await _publish(stage, line.topic, 20)
    retries: list[int] = []
    for _ in range(2):
        failed = await stage.fail(line.group, await stage.claim(line.group, 10), retry_after=SECOND)
        retries += [entry for _, entry in failed.timers]
    ids = await _publish(stage, line.topic, TIMES, SECOND)
    stage.now += MINUTE
    for i, id_ in enumerate(ids):
        line.cut(i)
        await stage.promote(id_, *retries[i : i + 1])
    line.check(TIMES)
    # What a session that was cut off still had locked for a moment was passed over, as any locked row is.
    with trio.fail_after(10):
        while left := [*stage.column("SELECT id FROM delay"), *(~id_ for id_ in stage.column("SELECT id FROM retry"))]:
            await stage.promote(*left)
    assert stage.count("delay") == stage.count("retry") == 0
    assert _stream(stage) == sorted([*range(TIMES), *range(20)])
    assert stage.count("redelivery") == 20
    assert stage.column("SELECT COUNT(DISTINCT message_id) FROM redelivery") == [20]


async def test_cancel(line: Line, stage: Stage) -> None:
    ids = await _publish(stage, line.topic, TIMES, HOUR)
    for i, id_ in enumerate(ids):
        line.cut(i)
        (verdict,) = await stage.store.cancel([id_], stage.now)
        assert verdict.result == "cancelled"
    line.check(TIMES)
    assert stage.count("delay") == 0
    assert sorted(stage.column("SELECT id FROM cancelled")) == sorted(ids)
    await stage.counts(line.topic, accepted=TIMES, cancelled=TIMES, pending=0)


async def test_reschedule(line: Line, stage: Stage) -> None:
    ids = await _publish(stage, line.topic, TIMES, HOUR)
    for i, id_ in enumerate(ids):
        line.cut(i)
        (verdict,) = await stage.store.write(timers.reschedule, [(id_, stage.now + MINUTE + i)], stage.now)
        assert (verdict.result, verdict.due) == ("rescheduled", stage.now + MINUTE + i)
    line.check(TIMES)
    assert await stage.waiting() == {id_: stage.now + MINUTE + i for i, id_ in enumerate(ids)}
    assert stage.count("moved") == TIMES


async def test_claim(line: Line, stage: Stage) -> None:
    """I4: no message in two claims, none in no claim."""
    await _publish(stage, line.topic, 2 * TIMES)
    seen: list[bytes] = []
    for i in range(TIMES):
        line.cut(i)
        claim = await stage.claim(line.group, 2)
        seen += bodies(claim)
        assert await stage.store.read(holdings.find_places, [claim.key]) == {claim.key: dict(claim.places)}
    line.check(TIMES)
    assert sorted(map(int, seen)) == list(range(2 * TIMES))
    assert stage.count("claim") == TIMES
    assert (await stage.group_state(line.group)).claimed == 2 * TIMES


async def test_ack(line: Line, stage: Stage) -> None:
    await _publish(stage, line.topic, 2 * TIMES)
    for i in range(TIMES):
        claim = await stage.claim(line.group, 2)
        line.cut(i)
        if i % 3:
            assert (await stage.ack(line.group, claim)).acked == 2
        else:
            assert (await stage.ack(line.group, claim, (0,))).acked == 1
            assert (await stage.ack(line.group, claim)).acked == 2
    line.check(TIMES)
    await stage.counts(line.group, acked=2 * TIMES, claimed=0, retried=0)
    assert stage.count("delivery") == TIMES


async def test_fail(line: Line, stage: Stage) -> None:
    await _publish(stage, line.topic, 3 * TIMES)
    timers: set[tuple[int, int]] = set()
    for i in range(TIMES):
        claim = await stage.claim(line.group, 3)
        places = (None, (0, 2))[i % 2]
        line.cut(i)
        settled = await stage.fail(line.group, claim, places, reason="no")
        assert (settled.lost, settled.retried) == (False, 2 if places else 3)
        timers |= set(settled.timers)
        assert len(settled.timers) == settled.retried
        await stage.ack(line.group, claim)
    line.check(TIMES)
    count = 3 * TIMES // 2 + 2 * TIMES // 2
    assert set((await stage.waiting()).items()) == {(entry, due) for due, entry in timers}
    assert len(timers) == stage.count("retry") == count
    assert (await stage.group_state(line.group)).retried == count


async def test_a_whole_turn(line: Line, stage: Stage) -> None:
    """Acks, fails, extensions and claims in one."""
    await _publish(stage, line.topic, 4 * TIMES)
    held = await stage.claim(line.group, 4)
    for i in range(TIMES - 1):
        line.cut(i)
        turn = await stage.turn(
            line.group,
            [
                Settlement(held.key, "extend", lease=MINUTE),
                Settlement(held.key, "ack", (0, 1)),
                Settlement(held.key, "fail", (2,)),
                Settlement(held.key, "ack"),
            ],
            [ClaimRequest("c", 4, MINUTE)],
        )
        extend, ack, fail, rest = turn.settled
        assert extend == Settled(lease_until=stage.now + MINUTE, ended=True)
        assert ack == Settled(acked=2, ended=True)
        assert fail == Settled(retried=1, timers=fail.timers if fail else (), ended=True)
        assert rest == Settled(acked=3, ended=True)
        assert turn.claims[0] is not None
        held = turn.claims[0]
    line.check(TIMES - 1)
    await stage.counts(line.group, acked=3 * (TIMES - 1), retried=TIMES - 1, claimed=4)
    assert stage.count("retry") == TIMES - 1


async def test_extend(line: Line, stage: Stage) -> None:
    await _publish(stage, line.topic, 1)
    claim = await stage.claim(line.group)
    for i in range(TIMES // 2):
        line.cut(i)
        stage.now += SECOND
        settled = await stage.settle_one(line.group, Settlement(claim.key, "extend", lease=MINUTE))
        assert settled.lease_until == stage.now + MINUTE
        assert stage.column("SELECT lease_until FROM claim") == [stage.now + MINUTE]
    line.check(TIMES // 2)


async def test_outbox_counts(line: Line, stage: Stage, dsn: str) -> None:
    with closing(connect_raw(dsn)) as user:
        for i, id_ in enumerate(await _publish(stage, line.topic, TIMES, HOUR)):
            outbox.cancel(user.cursor(), id=str(id_))
            user.commit()
            line.cut(i)
            assert await stage.store.count_outbox(10) == {line.topic.id: (1, 0)}
    line.check(TIMES)
    assert stage.count("outbox_cancel") == 0
    await stage.counts(line.topic, accepted=TIMES, cancelled=TIMES, pending=0)


async def test_of_a_message_that_is_gone_again_nobody_can_tell(line: Line, stage: Stage, nursery: trio.Nursery) -> None:
    """It was committed, and its offset with it, which whoever published it was to hear."""

    class Removing(MySQLBackend):
        async def _landed(self, lost: Any, witness: Any, unknown: Any) -> bool:
            with closing(connect_raw(stage.dsn)) as other, other.cursor() as cursor:
                cursor.execute("DELETE FROM message")
                other.commit()
            return await super()._landed(lost, witness, unknown)

    proxy: Proxy = await nursery.start(Proxy(stage.dsn).run)
    backend = Removing(proxy.dsn)
    proxy.cut("after")
    with pytest.raises(OutcomeUnknown):
        await Store(backend).publish([Publication((stage.draft(line.topic),))], stage.now)
    await backend.aclose()


async def test_nobody_can_tell(line: Line, stage: Stage, nursery: trio.Nursery) -> None:
    """When the database is gone for good, the caller hears that the outcome is unknown."""

    class Gone(Proxy):
        async def _join(self, client: trio.SocketStream) -> None:
            if self.done:
                await client.aclose()
            else:
                await super()._join(client)

    proxy: Proxy = await nursery.start(Gone(stage.dsn).run)
    backend = MySQLBackend(proxy.dsn, doubt=0.2)
    proxy.cut("after")
    with pytest.raises(OutcomeUnknown):
        await Store(backend).publish([Publication((stage.draft(line.topic),))], stage.now)
    assert stage.count("message") == 1
    await backend.aclose()
