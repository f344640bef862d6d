"""A topic whose offsets come from Redis, through the front door, with a Redis that comes and goes."""

import threading
import time
from pathlib import Path

import httpx
import redis

from support import servers
from support.server import start_server, start_servers
from support.waiting import wait_until
from tarry.client import NotFound, Tarry
from tarry.service.demo.server_process import ServerProcess
from tarry.service.notices import SUBJECTS
from tarry.store.opening import database_of


def take(tarry: Tarry, many: int) -> list[object]:
    """What a group gets, acked."""
    bodies: list[object] = []
    for message in tarry.consume("orders", group="billing", limit=many, idle_timeout=15):
        with message:
            bodies.append(message.body)
    return bodies


def test_redis_comes_and_goes(mysql_dsn: str, private_redis: servers.PrivateRedis, tmp_path: Path) -> None:
    private_redis.stop()  # at the start, too, nobody waits for it
    environment = {"TARRY_REDIS": private_redis.url}
    with start_server(tmp_path, mysql_dsn, environment) as server, Tarry(server.url) as tarry:
        answer = httpx.put(f"{server.url}/v1/topics/orders", json={"sequencer": "redis"})
        assert (answer.status_code, answer.json()["sequencer"]) == (201, "redis")
        sent: list[int] = []
        offsets: list[int | None] = []

        def publish(many: int) -> None:
            for _ in range(many):
                sent.append(len(sent))
                offsets.append(tarry.publish("orders", sent[-1]).offset)

        publish(10)
        private_redis.start()
        publish(10)
        assert take(tarry, 20) == sent == offsets
        private_redis.stop()
        publish(5)
        later = tarry.publish("orders", "later", delay="100ms")
        private_redis.start()
        assert later.state == "scheduled"
        publish(5)  # among these the other one may fall due, and take an offset
        assert httpx.put(f"{server.url}/v1/topics/orders", json={"sequencer": "store"}).json()["sequencer"] == "store"
        rest = take(tarry, 11)
        assert sorted(rest, key=str) == sorted([*sent[20:], "later"], key=str)
        assert len({*offsets}) == 30
        assert {*offsets} < {*range(31)}
        counts = httpx.get(f"{server.url}/v1/topics/orders").json()
        assert (counts["accepted"], counts["streamed"], counts["pending"]) == (31, 31, 0)


def gone(tarry: Tarry, topic: str) -> bool:
    try:
        tarry.topic(topic)
    except NotFound:
        return True
    return False


def test_two_servers_go_on_without_it_and_use_it_when_it_is_back(
    mysql_dsn: str, private_redis: servers.PrivateRedis, tmp_path: Path
) -> None:
    env = {"TARRY_REDIS": private_redis.url}
    channels = [f"tarry:{database_of(mysql_dsn)}:{subject}" for subject in SUBJECTS]

    def listens() -> bool:
        with redis.Redis.from_url(private_redis.url) as client:  # pyright: ignore[reportUnknownMemberType]
            return [many for _, many in client.pubsub_numsub(*channels)] == [2] * len(channels)

    with (
        start_servers(tmp_path, mysql_dsn, "first", "second", env=env) as (first, second),
        Tarry(first.url) as here,
        Tarry(second.url) as there,
    ):
        for is_there in (True, False, True):
            if is_there:
                private_redis.start()
                wait_until(listens)
                here.put_topic("brief")
                there.topic("brief")
                here.delete_topic("brief")
                wait_until(lambda: gone(there, "brief"), 3)  # without a Redis it would take up to ten seconds
            else:
                private_redis.stop()
            took: list[float] = []

            def poll(took: list[float] = took) -> None:
                claim = there.claim("orders", "billing", client="c", wait="20s", start="earliest")
                took.append(time.monotonic())
                assert claim is not None
                there.ack(claim)

            waiting = threading.Thread(target=poll)
            waiting.start()
            wait_until(lambda: any(one["client"] == "c" for one in there.clients()))
            published = time.monotonic()
            here.publish("orders", "hello")
            waiting.join()
            assert took[0] - published < 10, "not at the end of the poll"


def test_the_embedded_store_refuses(server: ServerProcess) -> None:
    answer = httpx.put(f"{server.url}/v1/topics/orders", json={"sequencer": "redis"})
    assert answer.status_code == 409
    assert "MySQL" in answer.json()["detail"]
    assert httpx.get(f"{server.url}/v1/topics/orders").status_code == 404
