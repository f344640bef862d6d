"""Broadcast, tags and pull through the front door, on a real server that is killed in between; and the alarm."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from support.scripted_server import Answer, Request, scripted_server
from support.server import client_of, start_server
from tarry.client import Message, Tarry
from tarry.service.demo.server_process import ServerProcess, python_path


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {"TARRY_LADDER": "50ms,50ms"}


def take(tarry: Tarry, client: str, count: int, seen: list[int]) -> None:
    for message in tarry.consume("news", "screens", client=client, limit=count, idle_timeout=20):
        with message:
            seen.append(message.body)


def together(*acts: Callable[[], object]) -> None:
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_every_client_gets_every_message_and_a_kill_changes_nothing(server: ServerProcess, tarry: Tarry) -> None:
    tarry.put_topic("news", kind="broadcast", queues=2)
    clients = {name: list[int]() for name in ("hall", "door", "roof")}
    for name in clients:
        assert tarry.claim("news", "screens", client=name) is None
    for number in range(10):
        tarry.publish("news", number, delay=timedelta(milliseconds=20 * (number % 2)))
    together(*(partial(take, tarry, name, 10, seen) for name, seen in clients.items()))
    assert all(sorted(seen) == list(range(10)) for seen in clients.values())
    tarry.publish("news", 10)
    server.kill()
    server.start()
    for name, seen in clients.items():
        take(tarry, name, 1, seen)
        assert sorted(seen) == list(range(11))
    assert tarry.group("news", "screens")["clients"] == ["door", "hall", "roof"]


def test_a_broadcast_poll_is_woken_by_publish_and_by_promotion(tarry: Tarry) -> None:
    tarry.put_topic("woken", kind="broadcast")
    tarry.claim("woken", "screens", client="hall", after="")
    for delay in (0, 300):
        got: list[Message] = []

        def poll(into: list[Message] = got) -> None:
            claim = tarry.claim("woken", "screens", client="hall", wait="20s")
            into.extend(claim.messages if claim is not None else ())

        together(poll, partial(tarry.publish, "woken", delay, delay=timedelta(milliseconds=delay)))
        assert [message.body for message in got] == [delay]


def test_tags_choose(tarry: Tarry) -> None:
    for number in range(6):
        tarry.publish("paint", number, tag="red" if number % 3 == 0 else "blue")
    claim = tarry.claim("paint", "shop", tags=["red"])
    assert claim is not None
    assert [(message.body, message.tag) for message in claim.messages] == [(0, "red"), (3, "red")]
    tarry.fail(claim)
    seen: list[tuple[int, int]] = []
    for message in tarry.consume("paint", "shop", tags=["red"], limit=2, idle_timeout=20):
        with message:
            seen.append((message.body, message.attempt))
    assert seen == [(0, 2), (3, 2)]
    assert tarry.claim("paint", "shop") is None


def test_pull_by_an_own_offset(tarry: Tarry) -> None:
    assert tarry.put_topic("log", queues=2)["queues"] == 2
    for number in range(5):
        tarry.publish("log", number, queue=1)
    offset, seen = 0, list[int]()
    while (page := tarry.pull("log", 1, offset, 2)).messages:
        seen += [message.body for message in page.messages]
        offset = page.next_offset
    assert (seen, offset) == ([0, 1, 2, 3, 4], 5)
    assert tarry.pull("log", 1, 99).next_offset == 99
    got: list[int] = []
    together(
        lambda: got.extend(message.body for message in tarry.pull("log", 1, 5, wait="20s").messages),
        lambda: tarry.publish("log", 5, queue=1),
    )
    assert got == [5]


def test_the_command_line(server: ServerProcess, tarry: Tarry) -> None:
    tarry.put_topic("told", kind="broadcast")
    for number in range(4):
        tarry.publish("told", number, tag="even" if number % 2 == 0 else "odd")

    def run(*arguments: str) -> list[int]:
        command = [sys.executable, "-m", "tarry.service.cli.app", *arguments]
        environment = os.environ | python_path() | {"TARRY_URL": server.url}
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
        return [json.loads(line)["body"] for line in done.stdout.splitlines()]

    common = ("consume", "told", "--group", "screens", "--client", "hall", "--from", "earliest")
    assert run(*common, "--tag", "odd", "--no-ack") == [1, 3]
    assert run(*common, "--max", "3") == [0, 1, 2]
    assert run(*common) == [3]


def test_a_lost_lease_raises_the_alarm(tmp_path: Path) -> None:
    heard = threading.Event()

    def hear(_: Request) -> Answer:
        heard.set()
        return Answer(200, {})

    with scripted_server() as hook:
        hook.respond = hear
        with (
            start_server(tmp_path, env={"TARRY_ALARM_URL": f"{hook.url}/secret"}) as server,
            client_of(server) as tarry,
        ):
            tarry.publish("orders", 1)
            claim = tarry.claim("orders", "billing", lease="20ms")
            assert claim is not None
            assert heard.wait(20)
            log = server.tail(10_000)
        (event,) = [request.json for request in hook.requests]
        assert claim.id.startswith(event["claim"] + "-")
        assert {name: event[name] for name in ("event", "topic", "group", "queue", "retried", "dead")} == {
            "event": "consume_timeout",
            "topic": "orders",
            "group": "billing",
            "queue": 0,
            "retried": 1,
            "dead": 0,
        }
        assert "consume_timeout" in log
        assert "secret" not in log
