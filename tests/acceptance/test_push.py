"""Webhooks through the front door: real servers, a real endpoint, and what becomes of messages when one of them is not
there."""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from support.in_turn import in_turn
from support.receiver import OK, Received, Receiver, head, receiver
from support.server import client_of, start_server, start_servers
from support.waiting import wait_until
from tarry.client import Tarry
from tarry.service.demo.server_process import ServerProcess

SECRET = "whsec_" + b64encode(b"only the server and I know it").decode()
ENVIRONMENT = {"TARRY_PUSH_ALLOW": "127.0.0.1/32", "TARRY_CLIENT_TIMEOUT": "2s", "TARRY_LADDER": "50ms,100ms,200ms,1h"}


@pytest.fixture
def endpoint() -> Iterator[Receiver]:
    with receiver() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return ENVIRONMENT


def put(server: ServerProcess, endpoint: Receiver, topic: str, **more: Any) -> dict[str, Any]:
    given = {"url": f"{endpoint.url}/in", "secret": SECRET, "timeout": "1s", **more}
    answer = httpx.put(f"{server.url}/v1/topics/{topic}/groups/shop/push", json=given)
    assert answer.status_code in (200, 201), answer.text
    told: dict[str, Any] = answer.json()
    return told


def state(server: ServerProcess, topic: str) -> dict[str, Any]:
    told: dict[str, Any] = httpx.get(f"{server.url}/v1/topics/{topic}/groups/shop/push").json()
    return told


def acked(tarry: Tarry, topic: str) -> int:
    return int(tarry.group(topic, "shop")["acked"])


def test_now_and_later(server: ServerProcess, tarry: Tarry, endpoint: Receiver) -> None:
    assert put(server, endpoint, "plain")["state"] == "on"
    tarry.publish("plain", {"order": 7}, key="order-7")
    tarry.publish("plain", {"order": 8}, delay="300ms")
    wait_until(lambda: acked(tarry, "plain") == 2)
    first, second = endpoint.received
    for one, order in ((first, 7), (second, 8)):
        assert one.body == b'{"order":%d}' % order or one.body == b'{"order": %d}' % order
        assert Webhook(SECRET).verify(one.body, dict(one.headers)) == {"order": order}
    assert (first.headers["tarry-key"], first.headers["tarry-topic"]) == ("order-7", "plain")
    metrics = httpx.get(f"{server.url}/metrics").text
    assert 'tarry_push_sent_total{group="shop",topic="plain"} 2.0' in metrics
    assert "tarry_push_duration_seconds_count" in metrics
    assert SECRET not in server.tail(1_000_000)


@pytest.mark.parametrize("wrong", [head(500), None], ids=["an error", "no answer"])
def test_a_bad_start(server: ServerProcess, tarry: Tarry, endpoint: Receiver, wrong: bytes | None) -> None:
    """Whatever it is, it is a failure, and counted."""
    topic = f"bad-{abs(hash(wrong))}"
    endpoint.answer = lambda one: wrong if one.headers["tarry-attempt"] == "1" else OK
    put(server, endpoint, topic, timeout="300ms")
    tarry.publish_many(topic, [{"body": n} for n in range(3)])
    wait_until(lambda: acked(tarry, topic) == 3)
    assert Counter(one.headers["tarry-attempt"] for one in endpoint.received) == {"1": 3, "2": 3}
    assert len({one.id for one in endpoint.received}) == 3


def test_it_is_left_alone_for_as_long_as_it_asks(server: ServerProcess, tarry: Tarry, endpoint: Receiver) -> None:
    came: list[datetime] = []

    def answer(_: Received) -> bytes:
        came.append(datetime.now(UTC))
        return head(429, "Retry-After: 1") if len(came) == 1 else OK

    endpoint.answer = answer
    put(server, endpoint, "slow", max_in_flight=1)
    tarry.publish_many("slow", [{"body": n} for n in range(3)])
    wait_until(lambda: acked(tarry, "slow") == 3)
    assert came[1] - came[0] >= timedelta(seconds=0.95)
    assert {one.headers["tarry-attempt"] for one in endpoint.received} == {"1"}


def test_an_endpoint_that_is_away_for_a_while(server: ServerProcess, tarry: Tarry, endpoint: Receiver) -> None:
    endpoint.answer = lambda _: head(503)
    put(server, endpoint, "away", max_in_flight=20)
    tarry.publish_many("away", [{"body": n} for n in range(20)])
    wait_until(lambda: state(server, "away")["state"] == "broken")
    endpoint.answer = lambda _: OK
    wait_until(lambda: acked(tarry, "away") == 20)
    wait_until(lambda: state(server, "away")["state"] == "on")
    assert tarry.group("away", "shop")["dead"] == 0


def test_it_goes_nowhere_else(server: ServerProcess, tarry: Tarry, endpoint: Receiver) -> None:
    url = f"{server.url}/v1/topics/inside/groups/shop/push"
    for target in ("http://127.0.0.2/", "http://10.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest"):
        answer = httpx.put(url, json={"url": target, "secret": SECRET})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/url")
    # A name is looked up at each post: this one leads to ::1 or to 127.0.0.1, of which only the second is allowed.
    put(server, endpoint, "inside", url=f"http://localhost:{endpoint.port}/in")
    tarry.publish("inside", 1)
    wait_until(lambda: acked(tarry, "inside") == 1)
    assert endpoint.received[0].headers["host"] == f"localhost:{endpoint.port}"


@pytest.mark.parametrize("dsn", in_turn(()), indirect=True)
def test_killed_while_it_posts(dsn: str, tmp_path: Path, endpoint: Receiver) -> None:
    """What was under way is posted again, and nothing is lost."""
    with start_server(tmp_path, dsn, ENVIRONMENT) as server, client_of(server) as tarry:
        endpoint.answer = lambda _: None
        put(server, endpoint, "killed", timeout="1m", max_in_flight=3)
        sent = {one.id for one in tarry.publish_many("killed", [{"body": n} for n in range(10)])}
        endpoint.wait_for(3)
        server.kill()
        endpoint.answer = lambda _: OK
        server.start()
        wait_until(lambda: acked(tarry, "killed") == 10)
        times = Counter(one.id for one in endpoint.received)
        assert times.keys() == sent
        assert sorted(times.values()) == [1] * 7 + [2] * 3
        assert tarry.group("killed", "shop")["dead"] == 0


def test_stopped_while_it_posts(tmp_path: Path, endpoint: Receiver) -> None:
    """It is given back, and not counted."""
    environment = ENVIRONMENT | {"TARRY_SHUTDOWN_GRACE": "5s"}
    with start_server(tmp_path, None, environment) as server, client_of(server) as tarry:
        endpoint.answer = lambda _: None
        put(server, endpoint, "stopped", timeout="1m")
        tarry.publish("stopped", 1)
        endpoint.wait_for(1)
        assert server.stop() == 0
        endpoint.answer = lambda _: OK
        server.start()
        wait_until(lambda: acked(tarry, "stopped") == 1)
        assert [one.headers["tarry-attempt"] for one in endpoint.received] == ["1", "1"]


def test_two_servers(mysql_dsn: str, tmp_path: Path, endpoint: Receiver) -> None:
    """Both post, each message once; what one is told, the other knows."""
    with (
        start_servers(tmp_path, mysql_dsn, "first", "second", env=ENVIRONMENT) as (first, second),
        client_of(first) as tarry,
    ):
        wait_until(lambda: all(len(httpx.get(f"{one.url}/v1/nodes").json()["nodes"]) == 2 for one in (first, second)))
        put(first, endpoint, "both", max_in_flight=4)
        ids = {one.id for one in tarry.publish_many("both", [{"body": n} for n in range(200)])}
        wait_until(lambda: acked(tarry, "both") == 200, 60)
        assert {one.id for one in endpoint.received} == ids
        assert len(endpoint.received) == 200
        assert posted(first) > 0

        def second_posts() -> bool:
            tarry.publish_many("both", [{"body": n} for n in range(20)])
            return posted(second) > 0

        wait_until(second_posts)
        assert endpoint.most_at_once <= 4 + 4, "until both know of each other it may be as many at each"
        wait_until(lambda: tarry.group("both", "shop")["backlog"] == tarry.group("both", "shop")["claimed"] == 0)
        endpoint.answer = lambda _: head(410)
        tarry.publish("both", 1)
        wait_until(lambda: state(second, "both")["state"] == "off")
        assert state(second, "both")["because"] == "the endpoint answered 410"


def posted(server: ServerProcess) -> float:
    text = httpx.get(f"{server.url}/metrics").text
    name = 'tarry_push_sent_total{group="shop",topic="both"} '
    return next((float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name)), 0.0)
