"""The sealer says where a queue stands still, and for as long as it does."""

from typing import Any, Self

import trio
from structlog.testing import capture_logs

from support.engine import signals_over
from support.hand_time import HandTime
from support.still import StillBackend
from support.stores import START
from tarry.service.engine.consume.sealer import Sealer
from tarry.service.engine.state.directory import Directory
from tarry.store import catalogue
from tarry.store.catalogue import TopicDraft
from tarry.store.errors import Refused
from tarry.store.records import Draft, Publication, Topic
from tarry.store.store import Store


class Sealing(HandTime):
    """A sealer over a store with a topic, ten seconds after that was made."""

    def __init__(self, store: Store, topic: Topic) -> None:
        super().__init__(START + 10_000)
        self.topic = topic
        self.directory = Directory(store, self.clock, auto_create=False)
        self.signals = signals_over(self.directory, self.clock)
        self.sealer = Sealer(store, self.clock, self.directory, self.signals, widest=100_000)

    @classmethod
    async def of(cls, store: Store, queues: int) -> Self:
        return await cls(
            store, await store.write(catalogue.add_topic, TopicDraft("orders", queues=queues), START)
        ).begun()


async def test_a_queue_that_stands_still_is_told_of_until_it_moves_on() -> None:
    backend = StillBackend()
    store = Store(backend)
    sealing = await Sealing.of(store, 1)
    sealer, (queue,) = sealing.sealer, sealing.topic.queues
    await store.publish([Publication((Draft(topic=sealing.topic, queue=queue, body=b"{}"),))], START)
    run = backend._connection.execute
    run("CREATE TABLE wild AS SELECT * FROM message")
    run("UPDATE wild SET `offset` = 5000000, id = id + 4096")
    run("INSERT INTO message SELECT * FROM wild")
    await sealing.directory.refresh()

    async def look() -> list[str]:
        with capture_logs() as lines:
            await sealer.look()
            for queue_id in sorted(sealing.signals.unsealed.take()):
                await sealer._seal(queue_id)
        return [line["event"] for line in lines]

    await sealer.look_everywhere()
    assert await look() == ["queue_stands_still"]
    (stands,) = sealer.standing.values()
    assert str(stands).startswith("queue 0 of orders stands still: its offsets 1 to 4999999 are without a message")
    assert "widest_hole = 4999999" in str(stands)
    assert await look() == [], "not every second"
    sealing.ms += 60_000
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
    sealing = await Sealing.of(store, 3)
    store.failures = 3 * 450  # of each round three, and of rounds as many as 22.5 s have
    with capture_logs() as logs:
        nursery.start_soon(sealing.sealer.run)
        for queue in sealing.topic.queues:
            sealing.signals.unsealed.committed(queue.id)
        await trio.sleep(60)
    told = [(line["event"], line["failures"]) for line in logs]
    assert told[0] == ("sealing_failed", 1)
    assert told[-1] == ("sealing_goes_on", 450)
    assert len(told) == 4
    backend.close()
