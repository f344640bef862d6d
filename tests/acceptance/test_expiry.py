"""Messages that expire, through a real server: told to be refused, given until their time, and counted from then on."""

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.drivers import DRIVERS, close
from support.receiver import OK, head, receiver
from support.server import client_of, start_server
from support.waiting import paced, wait_until
from tarry.client import BadRequest, Draft, Tarry, outbox
from tarry.service.cli.app import run
from tarry.service.demo.server_process import ServerProcess

SECRET = "whsec_" + b64encode(b"only the server and I know it").decode()


@pytest.fixture
def server(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_database: Callable[[str], str]
) -> Iterator[ServerProcess]:
    kind, dsn = getattr(request, "param", "sqlite"), None
    if kind != "sqlite":
        dsn = fresh_database(request.getfixturevalue(f"{kind}_server"))
    with start_server(tmp_path, dsn, {"TARRY_PUSH_ALLOW": "127.0.0.1/32"}) as server:
        yield server


@pytest.fixture
def tarry(server: ServerProcess) -> Iterator[Tarry]:
    with client_of(server) as tarry:
        yield tarry


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


@pytest.mark.parametrize("server", ["sqlite", "mariadb", "mysql"], indirect=True)
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


def test_a_poll_goes_on_behind_them(tarry: Tarry) -> None:
    """Six thousand in a row, more than one turn passes over; the poll is answered with what is behind."""
    end = soon(paced(3))
    for _ in range(6):
        tarry.publish_many("many", [Draft(body=n, expires_at=end) for n in range(1000)])
    tarry.publish("many", "behind")
    time.sleep(max(0.0, (end - datetime.now(UTC)).total_seconds()) + 0.1)
    claim = tarry.claim("many", "shop", client="c", max=1)
    assert claim is not None, "one that does not wait is not told that there is nothing"
    assert [message.body for message in claim.messages] == ["behind"]
    assert tarry.group("many", "shop")["expired"] == 6000
    pulled = tarry.pull("many", 0, 0)
    assert [message.body for message in pulled.messages] == ["behind"]
    assert pulled.next_offset == 6001


def test_what_is_refused(server: ServerProcess, tarry: Tarry) -> None:
    url, late = f"{server.url}/v1/topics/codes/messages", "2020-01-01T00:00:00Z"
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
        tarry.set_timer("codes", "k", 1, delay="2h", expires_at=soon(3600))
    waiting = tarry.publish("codes", 1, delay="10m", expires_at=soon(3600))
    with pytest.raises(BadRequest, match="expires at"):
        tarry.reschedule(waiting.id, delay="2h")
    assert tarry.message(waiting.id)["deliver_at"] == waiting.document()["deliver_at"]
    tarry.reschedule(waiting.id, delay="20m")
    assert tarry.topic("codes")["accepted"] == 2


def test_a_timer(tarry: Tarry) -> None:
    tarry.set_timer("codes", "k", 1, delay="200ms", expires_at=soon(0.9))
    tarry.set_timer("codes", "other", 2, delay="200ms")
    time.sleep(1)
    wait_until(lambda: tarry.topic("codes")["streamed"] == 2)
    assert given(tarry, "codes") == [2]


def test_what_failed_is_posted_no_more(server: ServerProcess, tarry: Tarry) -> None:
    """The endpoint refuses; its second try would lie past the end, and there is none."""
    with receiver() as endpoint:
        endpoint.answer = lambda _: head(500)
        url = f"{server.url}/v1/topics/codes/groups/shop/push"
        assert httpx.put(url, json={"url": endpoint.url, "secret": SECRET}).status_code < 300
        one = tarry.publish("codes", 1, expires_at=soon(5))
        wait_until(lambda: tarry.group("codes", "shop")["expired"] == 1)
        endpoint.answer = lambda _: OK
        tarry.publish("codes", 2)
        wait_until(lambda: tarry.group("codes", "shop")["acked"] == 1)
        assert [post.body for post in endpoint.received] == [b"1", b"2"]
        assert sorted(life(tarry, one.id)) == ["claimed", "expired", "published"]


def test_a_letter_past_its_time_stays(server: ServerProcess, tarry: Tarry) -> None:
    tarry.put_topic("codes", ladder=[])
    tarry.publish_many("codes", [Draft(body=n, expires_at=soon(1) if n % 2 else None) for n in range(6)])
    claim = tarry.claim("codes", "shop", client="c", max=10)
    assert claim is not None
    tarry.fail(claim, reason="no")
    time.sleep(1.1)
    url = f"{server.url}/v1/topics/codes/groups/shop/dead/redrive"
    for dry in (True, False):
        answer = httpx.post(url, json={"dry_run": dry}).json()
        assert (answer["redriven"], answer["expired"]) == (3, 3)
    wait_until(lambda: tarry.group("codes", "shop")["backlog"] == 3)
    assert sorted(given(tarry, "codes")) == [0, 2, 4]
    assert tarry.group("codes", "shop")["dead_letters"] == 3


def test_the_command(server: ServerProcess, tarry: Tarry, capsys: pytest.CaptureFixture[str]) -> None:
    end = "2030-01-01T09:00:00.000Z"
    assert run(["publish", "codes", "1", "--expires-at", end, "--url", server.url, "--json"]) == 0
    id_ = json.loads(capsys.readouterr().out)["id"]
    assert tarry.message(id_)["expires_at"] == end
    assert run(["peek", "codes", "--url", server.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["expires_at"] == end
    assert run(["publish", "codes", "1", "--expires-at", "2020-01-01T00:00:00Z", "--url", server.url]) == 2


def test_an_outbox(mysql_dsn: str, tmp_path: Path) -> None:
    with start_server(tmp_path, mysql_dsn) as server, client_of(server) as tarry:
        tarry.put_topic("codes")
        user = DRIVERS["pymysql"](mysql_dsn)
        outbox.publish(user.cursor(), "codes", "short", expires_at=soon(1.5))
        outbox.publish_many(user.cursor(), "codes", [{"body": "long"}, {"body": "timely", "expires_at": soon(60)}])
        outbox.set_timer(user.cursor(), "codes", "k", "timer", delay="1s", expires_at=soon(1.2))
        with pytest.raises(BadRequest, match="expires_at"):
            outbox.publish(user.cursor(), "codes", 1, delay="1h", expires_at=soon(60))
        user.commit()
        time.sleep(1.7)
        wait_until(lambda: tarry.topic("codes")["streamed"] == 4)
        assert sorted(given(tarry, "codes")) == ["long", "timely"]
        assert tarry.group("codes", "shop")["expired"] == 2
        close(user)


def test_a_publish_that_comes_again_past_its_time_is_answered_as_before(server: ServerProcess, tarry: Tarry) -> None:
    """As of a client whose first answer was lost, and whose server was away meanwhile."""
    end = soon(1).isoformat()
    asked = {"body": 1, "expires_at": end}
    where = f"{server.url}/v1/topics/codes/messages"
    first = httpx.post(where, json=asked, headers={"Idempotency-Key": "once"})
    wait_until(lambda: httpx.post(where, json=asked).status_code == 400, 5)
    again = httpx.post(where, json=asked, headers={"Idempotency-Key": "once"})
    assert (again.status_code, again.json()) == (201, first.json() | {"replayed": True})
    line = json.dumps(asked | {"idempotency_key": "line"})
    assert "error" in httpx.post(where, content=line, headers={"Content-Type": "application/x-ndjson"}).json()
