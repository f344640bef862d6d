"""Messages that expire, through a real server: told to be refused, given until their time, and counted from then on."""

import json
import time
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from support.drivers import DRIVERS, close
from support.receiver import OK, head, receiver
from support.waiting import wait_until
from tarry.client import BadRequest, Draft, Tarry, outbox
from tarry.service.cli.app import run
from tarry.service.demo.server_process import ServerProcess
from tarry.testing import EmbeddedServer

SECRET = "whsec_" + b64encode(b"only the server and I know it").decode()


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {"TARRY_PUSH_ALLOW": "127.0.0.1/32"}


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def life(tarry: Tarry, id_: str) -> list[str]:
    return [event["what"] for event in tarry.message(id_)["life"]]


def given(tarry: Tarry, topic: str, group: str = "shop") -> list[Any]:
    """All that a group is given until there is nothing."""
    found: list[Any] = []
    while (claim := tarry.claim(topic, group, client="c", max=10)) is not None:
        for message in claim.messages:
            assert message.expires_at is None or claim.lease_until - timedelta(minutes=1) < message.expires_at
            found.append(message.body)
        tarry.ack(claim)
    return found


def test_until_its_time_and_not_from_then_on(server: ServerProcess, tarry: Tarry) -> None:
    end = soon(1.5)
    first = tarry.publish("codes", "first", expires_at=end)
    second = tarry.publish("codes", "second")
    rest = tarry.publish_many("codes", [Draft(body=n, expires_at=end, delay="1s") for n in range(3)])
    assert given(tarry, "codes") == ["first", "second"]
    assert datetime.now(UTC) < end, "too slow a machine for this test"
    time.sleep(1.6)
    assert given(tarry, "codes") == []
    assert given(tarry, "codes", "late") == ["second"]
    groups = {name: tarry.group("codes", name)["expired"] for name in ("shop", "late")}
    assert groups == {"shop": 3, "late": 4}
    assert life(tarry, rest[0].id)[-1] == "expired"
    shown = tarry.message(first.id)
    assert shown["expires_at"] == end.strftime("%Y-%m-%dT%H:%M:%S.") + f"{-(-end.microsecond // 1000):03}Z"
    assert "expires_at" not in tarry.message(second.id)
    ends = {(event["what"], event.get("group")) for event in shown["life"]}
    assert {("acked", "shop"), ("expired", "late")} <= ends
    metrics = httpx.get(f"{server.url}/metrics").text
    assert 'tarry_messages_expired_total{group="late",topic="codes"} 4.0' in metrics


def test_a_poll_goes_on_behind_them() -> None:
    """Six thousand in a row, more than one turn passes over; the poll is answered with what is behind."""
    with EmbeddedServer() as server, Tarry(server.url) as tarry:
        end = server.clock.now() + timedelta(minutes=1)
        for _ in range(6):
            tarry.publish_many("many", [Draft(body=n, expires_at=end) for n in range(1000)])
        tarry.publish("many", "behind")
        server.clock.advance("1m")
        claim = tarry.claim("many", "shop", client="c", max=1)
        assert claim is not None, "one that does not wait is not told that there is nothing"
        assert [message.body for message in claim.messages] == ["behind"]
        assert tarry.group("many", "shop")["expired"] == 6000
        pulled = tarry.pull("many", 0, 0)
        assert [message.body for message in pulled.messages] == ["behind"]
        assert pulled.next_offset == 6001


def test_what_is_refused(server: ServerProcess, tarry: Tarry) -> None:
    url, late = f"{server.url}/v1/topics/refused/messages", "2020-01-01T00:00:00Z"
    for body in (
        {"body": 1, "expires_at": late},
        {"body": 1, "expires_at": "tomorrow"},
        {"body": 1, "delay": "2h", "expires_at": soon(3600).isoformat()},
        {"body": 1, "deliver_at": "2030-01-01T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z"},
    ):
        answer = httpx.post(url, json=body)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/expires_at"), body
    answer = httpx.post(url, json={"messages": [{"body": 1}, {"body": 1, "expires_at": late}]})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/messages/1/expires_at")
    lines = "\n".join(json.dumps({"body": 1, "expires_at": at}) for at in (late, "2030-01-01T00:00:00Z"))
    answer = httpx.post(url, content=lines, headers={"content-type": "application/x-ndjson"})
    first, second = map(json.loads, answer.text.splitlines())
    assert (first["error"]["errors"][0]["pointer"], second["state"]) == ("/expires_at", "published")
    with pytest.raises(BadRequest, match="expires_at"):
        tarry.set_timer("refused", "k", 1, delay="2h", expires_at=soon(3600))
    waiting = tarry.publish("refused", 1, delay="10m", expires_at=soon(3600))
    with pytest.raises(BadRequest, match="expires at"):
        tarry.reschedule(waiting.id, delay="2h")
    assert tarry.message(waiting.id)["deliver_at"] == waiting.document()["deliver_at"]
    tarry.reschedule(waiting.id, delay="20m")
    assert tarry.topic("refused")["accepted"] == 2


def test_what_failed_is_posted_no_more(server: ServerProcess, tarry: Tarry) -> None:
    """The endpoint refuses; its second try would lie past the end, and there is none."""
    with receiver() as endpoint:
        endpoint.answer = lambda _: head(500)
        url = f"{server.url}/v1/topics/posted/groups/shop/push"
        assert httpx.put(url, json={"url": endpoint.url, "secret": SECRET}).status_code < 300
        one = tarry.publish("posted", 1, expires_at=soon(5))
        wait_until(lambda: tarry.group("posted", "shop")["expired"] == 1)
        endpoint.answer = lambda _: OK
        tarry.publish("posted", 2)
        wait_until(lambda: tarry.group("posted", "shop")["acked"] == 1)
        assert [post.body for post in endpoint.received] == [b"1", b"2"]
        assert sorted(life(tarry, one.id)) == ["claimed", "expired", "published"]


def test_a_letter_past_its_time_stays() -> None:
    with EmbeddedServer(ladder=[]) as server, Tarry(server.url) as tarry:
        end = server.clock.now() + timedelta(minutes=1)
        tarry.publish_many("codes", [Draft(body=n, expires_at=end if n % 2 else None) for n in range(6)])
        claim = tarry.claim("codes", "shop", client="c", max=10)
        assert claim is not None
        tarry.fail(claim, reason="no")
        server.clock.advance("1m")
        url = f"{server.url}/v1/topics/codes/groups/shop/dead/redrive"
        for dry in (True, False):
            answer = httpx.post(url, json={"dry_run": dry}).json()
            assert (answer["redriven"], answer["expired"]) == (3, 3)
        wait_until(lambda: tarry.group("codes", "shop")["backlog"] == 3)
        assert sorted(given(tarry, "codes")) == [0, 2, 4]
        assert tarry.group("codes", "shop")["dead_letters"] == 3


def test_the_command(server: ServerProcess, tarry: Tarry, capsys: pytest.CaptureFixture[str]) -> None:
    end = "2030-01-01T09:00:00.000Z"
    assert run(["publish", "said", "1", "--expires-at", end, "--url", server.url, "--json"]) == 0
    id_ = json.loads(capsys.readouterr().out)["id"]
    assert tarry.message(id_)["expires_at"] == end
    assert run(["peek", "said", "--url", server.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["expires_at"] == end
    assert run(["publish", "said", "1", "--expires-at", "2020-01-01T00:00:00Z", "--url", server.url]) == 2


def test_an_outbox(mysql_dsn: str) -> None:
    with EmbeddedServer(dsn=mysql_dsn) as server, Tarry(server.url) as tarry:
        tarry.put_topic("codes")
        user, now = DRIVERS["pymysql"](server.dsn), server.clock.now()
        end, late = now + timedelta(minutes=1), now + timedelta(hours=1)
        outbox.publish(user.cursor(), "codes", "short", expires_at=end)
        outbox.publish_many(user.cursor(), "codes", [{"body": "long"}, {"body": "timely", "expires_at": late}])
        outbox.set_timer(user.cursor(), "codes", "k", "timer", delay="30s", expires_at=end)
        with pytest.raises(BadRequest, match="expires_at"):
            outbox.publish(user.cursor(), "codes", 1, delay="1h", expires_at=end)
        user.commit()
        server.clock.advance("1m")
        wait_until(lambda: tarry.topic("codes")["streamed"] == 4)
        assert sorted(given(tarry, "codes")) == ["long", "timely"]
        assert tarry.group("codes", "shop")["expired"] == 2
        close(user)
