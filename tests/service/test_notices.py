"""Notices between nodes over a real Redis; one that is away costs nothing but the notice."""

from functools import partial

import trio
from structlog.testing import capture_logs

from support import servers
from tarry.service.notices import SUBJECTS, Heard, Notices, Subject


def of_queues(heard: list[int]) -> Heard:
    """Takes note of what is heard of queues."""
    return {"grown": heard.append, "group": lambda _: None, "catalogue": lambda _: None, "node": lambda _: None}


async def heard_from(teller: Notices, heard: list[int], queue_id: int) -> None:
    """Tells until it is heard: a subscription begins at its own time."""

    async def is_heard() -> bool:
        teller.tell("grown", queue_id)
        await trio.sleep(0.01)
        return queue_id in heard

    await servers.until(is_heard)


def pair(redis: servers.PrivateRedis) -> tuple[Notices, Notices]:
    """Of nodes on one database."""
    return Notices(redis.url, "orders"), Notices(redis.url, "orders")


async def test_nodes_on_one_database_hear_each_other(private_redis: servers.PrivateRedis) -> None:
    here, there, elsewhere = list[int](), list[int](), list[int]()
    one, other = pair(private_redis)
    stranger = Notices(private_redis.url, "invoices")
    async with trio.open_nursery() as nursery:
        for node, heard in ((one, here), (other, there), (stranger, elsewhere)):
            nursery.start_soon(node.run, of_queues(heard))
        await heard_from(one, there, 7)
        await heard_from(other, here, 8)
        assert 7 not in here  # nobody hears himself
        assert elsewhere == []
        nursery.cancel_scope.cancel()


async def test_a_redis_that_goes_and_comes_back(private_redis: servers.PrivateRedis) -> None:
    there: list[int] = []
    one, other = pair(private_redis)
    private_redis.stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run, of_queues([]))
        nursery.start_soon(other.run, of_queues(there))
        for queue_id in range(5_000):  # more than may wait: dropped, nobody is held up
            one.tell("grown", queue_id)
        private_redis.start()
        await heard_from(one, there, 9_999)
        nursery.cancel_scope.cancel()


async def test_each_time_that_it_goes_and_comes_back_is_told_once(private_redis: servers.PrivateRedis) -> None:
    node = Notices(private_redis.url, "orders")
    with capture_logs() as told:

        async def until_told(events: list[str], times: int) -> None:
            async def all_are_told() -> bool:
                node.tell("grown", 7)
                await trio.sleep(0.01)
                return all([line["event"] for line in told].count(event) == times for event in events)

            await servers.until(all_are_told)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run, of_queues([]))
            for times in (1, 2):
                private_redis.stop()
                await until_told(["notices_not_sent", "notices_not_heard"], times)
                private_redis.start()
                await until_told(["notices_sent", "notices_heard"], times)
            nursery.cancel_scope.cancel()
    assert len(told) == 8


async def test_each_subject_has_its_hearer(private_redis: servers.PrivateRedis) -> None:
    heard: list[tuple[Subject, int]] = []
    one, other = pair(private_redis)
    hearers: Heard = {
        subject: partial(lambda subject, id_: heard.append((subject, id_)), subject) for subject in SUBJECTS
    }
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run, of_queues([]))
        nursery.start_soon(other.run, hearers)

        async def all_are_heard() -> bool:
            for number, subject in enumerate(SUBJECTS):
                one.tell(subject, number)
            await trio.sleep(0.01)
            return len(set(heard)) == len(SUBJECTS)

        await servers.until(all_are_heard)
        assert set(heard) == {("grown", 0), ("group", 1), ("catalogue", 2), ("node", 3)}
        nursery.cancel_scope.cancel()
