"""The sealer says where a queue stands still, and for as long as it does."""

from typing import Any

import trio
from structlog.testing import capture_logs

from support.engine import signals_over
from support.still import StillBackend
from support.stores import START
from tarry.service.clock import Clock
from tarry.service.engine.consume.sealer import Sealer
from tarry.service.engine.state.directory import Directory
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Refused
from tarry.store.records import Draft, Publication, Topic
from tarry.store.store import Store

MINUTE_NS = 60_000_000_000


async def test_a_queue_that_stands_still_is_told_of_until_it_moves_on() -> None:
    backend = StillBackend()
    store = Store(backend)
    topic: Topic = await store.write(catalogue.add_topic, TopicDraft("orders"), START)
    await store.publish([Publication((Draft(topic=topic, queue=topic.queues[0], body=b"{}"),))], START)
    run = backend._connection.execute
    run("CREATE TABLE wild AS SELECT * FROM message")
    run("UPDATE wild SET `offset` = 5000000, id = id + 4096")
    run("INSERT INTO message SELECT * FROM wild")
    passed = [0]

    async def sample() -> int:
        return START + 10_000

    clock = Clock(sample, monotonic=lambda: passed[0])
    await clock.take()
    directory = Directory(store, clock, auto_create=False)
    await directory.refresh()
    signals = signals_over(directory, clock)
    sealer = Sealer(store, clock, directory, signals, widest=100_000)

    async def look() -> list[str]:
        with capture_logs() as lines:
            await sealer.look()
            for queue_id in sorted(signals.unsealed.take()):
                await sealer._seal(queue_id)
        return [line["event"] for line in lines]

    await sealer.look_everywhere()
    assert await look() == ["queue_stands_still"]
    (stands,) = sealer.standing.values()
    assert str(stands).startswith("queue 0 of orders stands still: its offsets 1 to 4999999 are without a message")
    assert "widest_hole = 4999999" in str(stands)
    assert await look() == [], "not every second"
    passed[0] += MINUTE_NS
    assert await look() == ["queue_stands_still"], "but every minute"
    run("DELETE FROM message WHERE `offset` = 5000000")
    assert await look() == ["queue_moves_on"]
    assert sealer.standing == {}
    backend.close()


class Failing(Store):
    """It seals nothing, so many times."""

    failures = 0

    async def seal(self, *args: Any, **kwargs: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise Refused("no such column")
        return await super().seal(*args, **kwargs)


async def test_queues_that_cannot_be_sealed_are_no_flood_in_the_log(
    nursery: trio.Nursery, autojump_clock: trio.abc.Clock
) -> None:
    backend = StillBackend()
    store = Failing(backend)
    topic: Topic = await store.write(catalogue.add_topic, TopicDraft("orders", queues=3), START)

    async def sample() -> int:
        return START

    clock = Clock(sample)
    await clock.take()
    directory = Directory(store, clock, auto_create=False)
    signals = signals_over(directory, clock)
    sealer = Sealer(store, clock, directory, signals, widest=100_000)
    store.failures = 3 * 450  # of each round three, and of rounds as many as 22.5 s have
    with capture_logs() as logs:
        nursery.start_soon(sealer.run)
        for queue in topic.queues:
            signals.unsealed.committed(queue.id)
        await trio.sleep(60)
    told = [(line["event"], line["failures"]) for line in logs]
    assert told[0] == ("sealing_failed", 1)
    assert told[-1] == ("sealing_goes_on", 450)
    assert len(told) == 4
    backend.close()
