"""The outbox with a real server: how soon a message is there after the commit, acks beside HTTP's, and the how-to."""

import base64
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.commands import doctor
from support.drivers import DRIVERS, close, login
from support.server import client_of, start_server
from support.servers import database, run_sql
from support.waiting import wait_until
from tarry.client import BadRequest, Tarry, outbox
from tarry.service.demo.server_process import ServerProcess, python_path

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "outbox.md"


@pytest.fixture(scope="module")
def dsn(mariadb_server: str) -> Iterator[str]:
    with database(mariadb_server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, dsn: str) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("server"), dsn) as server:
        yield server


@pytest.fixture
def tarry(server: ServerProcess, dsn: str) -> Iterator[Tarry]:
    """There is a topic `orders`; what a test makes goes with its end."""
    with client_of(server) as tarry:
        tarry.put_topic("orders")
        yield tarry
        for topic in list(tarry.topics()):
            tarry.delete_topic(topic["topic"], force=True)
        run_sql(dsn, "DROP TABLE IF EXISTS billed, shop_order, tarry_once")


@pytest.fixture
def user(dsn: str, tarry: Tarry) -> Iterator[Any]:
    connection = DRIVERS["pymysql"](dsn)
    yield connection
    close(connection)


def test_what_is_in_a_transaction_carries_its_trace(tarry: Tarry, user: Any, recorded: InMemorySpanExporter) -> None:
    outbox.publish(user.cursor(), "orders", 1, headers={"a": "b"})
    outbox.publish_many(user.cursor(), "orders", [{"body": 2}, {"body": 3}])
    timer = outbox.set_timer(user.cursor(), "orders", "order-7", 4, delay="1h")
    user.commit()
    tarry.nudge("orders")
    came: dict[Any, Mapping[str, str]] = {}
    wait_until(lambda: came.update(headers_by_body(tarry)) or len(came) == 3)
    came[4] = tarry.message(timer.id)["headers"]
    sent = [span.context for span in recorded.get_finished_spans() if span.name == "send orders"]
    one, many, later = (f"{context.span_id:016x}" for context in sent if context is not None)
    parents = {body: headers["traceparent"].split("-")[2] for body, headers in came.items()}
    assert parents == {1: one, 2: many, 3: many, 4: later}
    assert came[1]["a"] == "b"


def headers_by_body(tarry: Tarry) -> dict[Any, Mapping[str, str]]:
    claim = tarry.claim("orders", "traced", wait="1s", start="earliest")
    return {message.body: message.headers for message in claim.messages} if claim else {}


def test_a_message_is_there_after_the_commit(tarry: Tarry, user: Any) -> None:
    nudged: list[float] = []
    for n in range(5):
        outbox.publish(user.cursor(), "orders", n)
        user.commit()
        began = time.monotonic()
        tarry.nudge("orders")
        claim = tarry.claim("orders", "billing", wait="5s")
        nudged.append(time.monotonic() - began)
        assert claim is not None
        assert [message.body for message in claim.messages] == [n]
        tarry.ack(claim)
    # The promise is 100 ms; of five on a busy machine the quickest is held to it.
    assert min(nudged) < 0.1
    outbox.publish(user.cursor(), "orders", "unnudged")
    user.commit()
    began = time.monotonic()
    claim = tarry.claim("orders", "billing", wait="5s")
    assert claim is not None
    assert time.monotonic() - began < 2.5  # a second, and the machine's own


@pytest.mark.parametrize("topic", [{"queues": 3}, {"queues": 3, "ordered": True}, {"kind": "broadcast"}])
def test_it_answers_as_http_does(tarry: Tarry, user: Any, topic: dict[str, Any]) -> None:
    """The same fields are accepted or refused, in the same words, and take the message to the same queue."""
    tarry.put_topic("placed", **topic)

    def outcome(publish: Callable[..., Any], **fields: Any) -> tuple[str, Any]:
        try:
            return "published", publish(**({"body": 1} | fields)).id
        except BadRequest as error:
            return "refused", str(error).lstrip("/")

    asked: list[dict[str, Any]] = [
        *({"queue": number, "ordering_key": key} for number in (0, 1, 2, 3) for key in (None, "a", "b")),
        *({"ordering_key": key} for key in "abcdefgh"),
        {"queue": -1},
        {"key": ""},
        {"tag": "x" * 256},
        {"body": b"x", "content_type": "\n"},
    ]
    for fields in asked:
        here, one = outcome(partial(tarry.publish, "placed"), **fields)
        there, other = outcome(partial(outbox.publish, user.cursor(), "placed"), **fields)
        user.commit()
        assert here == there, fields
        if here == "refused":
            field = next(name for name in ("queue", "key", "tag", "content_type") if name in fields)
            assert one.startswith(f"{field}: "), one
            assert other.startswith(f"{field}: "), other
        elif "queue" in fields or "ordering_key" in fields:
            tarry.nudge("placed")
            queues = {_streamed(tarry, id_)["queue"] for id_ in (one, other)}
            assert len(queues) == 1, fields


def _streamed(tarry: Tarry, id_: str) -> dict[str, Any]:
    """The message, once it is in the stream."""
    wait_until(lambda: tarry.message(id_)["state"] == "published")
    return tarry.message(id_)


def test_work_and_ack_are_one_transaction(tarry: Tarry, user: Any, dsn: str) -> None:
    cursor = user.cursor()
    outbox.prepare(cursor)
    cursor.execute("CREATE TABLE billed (body INT)")
    outbox.publish_many(cursor, "orders", [{"body": n} for n in range(20)])
    user.commit()
    tarry.nudge()
    seen: list[int] = []
    for message in tarry.consume("orders", "billing", limit=21, idle_timeout=5.0):
        with message:
            seen.append(message.body)
            assert outbox.once(cursor, message)
            cursor.execute("INSERT INTO billed VALUES (%s)", (message.body,))
            outbox.ack(cursor, message)
            if message.body == 7 and seen.count(7) == 1:
                user.rollback()
                message.retry(0, reason="rolled back", count=False)
            else:
                user.commit()
    assert sorted(seen) == sorted([*range(20), 7])
    cursor.execute("SELECT body FROM billed ORDER BY body")
    assert [body for (body,) in cursor.fetchall()] == list(range(20))
    user.commit()
    (group,) = tarry.topic("orders")["groups"]
    detail = tarry.group("orders", group["group"])
    assert detail["backlog"] == 0
    assert detail["acked"] == 20
    assert tarry.claim("orders", "billing") is None


def test_an_open_ack_holds_up_only_its_own_claim(tarry: Tarry, user: Any) -> None:
    for n in range(2):
        tarry.publish("orders", n)
    held, other = (tarry.claim("orders", "billing", max=1, wait="5s") for _ in range(2))
    assert held is not None
    assert other is not None
    outbox.ack(user.cursor(), held.messages[0], claim=held)
    began = time.monotonic()
    assert tarry.ack(other) == 1
    assert time.monotonic() - began < 1.0
    response = httpx.post(f"{tarry._transport.url}/v1/claims/{held.id}/ack", json={})
    assert response.status_code == 503
    assert response.headers["Retry-After"]
    user.commit()
    assert tarry.ack(held) == 1


STEPS, FRAMEWORKS = HOW_TO.read_text("utf-8").split("## With SQLAlchemy", 1)


def blocks_of(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run_as_printed(script: str, server: ServerProcess, dsn: str, tmp_path: Path) -> list[str]:
    """What it printed, with the connections of `dsn` in place of the page's."""
    parts = login(dsn)
    written = ", ".join(f"{name}={value!r}" for name, value in parts.items())
    script = (
        script.replace("http://127.0.0.1:8277", server.url)
        .replace('host="db.example", user="shop", password="...", database="tarry"', written)
        .replace('host="db.example", user="shop", password="...", db="tarry"', written.replace("database=", "db="))
        .replace("mysql+pymysql://shop:...@db.example/tarry", dsn.replace("mysql://", "mysql+pymysql://"))
    )
    assert "db.example" not in script
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | python_path(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_how_to(server: ServerProcess, tarry: Tarry, dsn: str, tmp_path: Path) -> None:
    first, *blocks = blocks_of(STEPS)
    assert run_as_printed("\n".join(blocks), server, dsn, tmp_path) == ["scheduled", "1 cancelled", "billed"]
    exec(compile(first, "outbox.md", "exec"), {})


def test_how_to_unpaid_order(server: ServerProcess, tarry: Tarry, dsn: str, tmp_path: Path) -> None:
    tarry.put_topic("unpaid")
    page = (HOW_TO.parent / "unpaid-order.md").read_text("utf-8")
    said = [run_as_printed(block, server, dsn, tmp_path) for block in blocks_of(page)]
    assert said == [["scheduled"], ["cancelled"], ["given up: 8"], ["cancelled"]]

    def is_counted() -> bool:
        """What the last one cancelled in its own transaction is, when the server has heard of it."""
        topic = tarry.topic("unpaid")
        return (topic["accepted"], topic["cancelled"], topic["streamed"]) == (3, 2, 1)

    wait_until(is_counted)


DJANGO = """
import django, pymysql
from django.conf import settings

pymysql.install_as_MySQLdb()
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.mysql",
            **dict(zip(("HOST", "PORT", "USER", "PASSWORD", "NAME"), PARTS)),
        }
    }
)
django.setup()
"""


@pytest.mark.long
def test_the_how_to_with_each_framework(
    server: ServerProcess, tarry: Tarry, dsn: str, user: Any, tmp_path: Path
) -> None:
    blocks = blocks_of(FRAMEWORKS)
    groups = [re.findall(r'group="(\w+)"', block)[0] for block in blocks]
    assert groups == ["sqlalchemy", "django", "aiomysql", "asyncmy"]
    outbox.prepare(user.cursor())
    user.cursor().execute("CREATE TABLE shop_order (id INT PRIMARY KEY, state VARCHAR(20))")
    user.cursor().execute("INSERT INTO shop_order VALUES (7, 'new')")
    user.commit()
    tarry.publish("orders", {"order": 7})
    for block, group in zip(blocks, groups, strict=True):
        before = DJANGO.replace("PARTS", repr(tuple(login(dsn).values()))) if group == "django" else ""
        run_as_printed(before + block, server, dsn, tmp_path)
        cursor = user.cursor()
        cursor.execute("SELECT state FROM shop_order WHERE id = 7")
        assert cursor.fetchall() == ((group,),)
        cursor.execute("SELECT COUNT(*) FROM tarry_once WHERE consumer_group = %s", (group,))
        assert cursor.fetchall() == ((1,),)
        user.rollback()
        state = tarry.group("orders", group)
        assert (state["acked"], state["backlog"], state["retried"]) == (1, 0, 0)


def test_what_a_handler_did_before_it_raised_is_not_saved_by_the_next_message(tarry: Tarry, user: Any) -> None:
    """The how-to's loop, whose handler raises at the first delivery of one message in three."""
    outbox.prepare(user.cursor())
    user.cursor().execute("CREATE TABLE billed (body INT)")
    tarry.put_group("orders", "billing", ladder=["10ms"])
    tarry.publish_many("orders", [{"body": n} for n in range(9)])
    raised: set[int] = set()
    for message in tarry.consume("orders", "billing", limit=12, idle_timeout=10.0):
        with message, outbox.settle(user, message) as cursor:
            cursor.execute("INSERT INTO billed VALUES (%s)", (message.body,))
            if message.body % 3 == 0 and message.body not in raised:
                raised.add(message.body)
                raise ValueError("at first")
    cursor = user.cursor()
    cursor.execute("SELECT body FROM billed ORDER BY body")
    assert [body for (body,) in cursor.fetchall()] == list(range(9))
    user.commit()
    state = tarry.group("orders", "billing")
    assert (state["acked"], state["retried"], state["backlog"]) == (9, 3, 0)


def test_one_bad_row_takes_no_neighbour_along(tarry: Tarry, user: Any, server: ServerProcess, dsn: str) -> None:
    with pytest.raises(BadRequest, match=r"^body: it is no JSON value: json: .* JSON has no NaN"):
        outbox.Outbox(json=partial(json.dumps, default=str)).publish(user.cursor(), "orders", {"price": float("nan")})
    # As an outbox of before wrote it; and a row that is in the stream already, as after half a restore.
    tarry.put_topic("orders", ladder=[])
    cursor = user.cursor()
    receipts = outbox.publish_many(cursor, "orders", [{"body": number} for number in range(10)])
    cursor.execute("UPDATE delay SET body = '{\"price\":NaN}' WHERE id = %s", (receipts[4].id,))
    (taken,) = outbox.publish_many(cursor, "orders", [{"body": "taken"}])
    cursor.execute(
        "INSERT INTO message (queue_id, `offset`, id, nonce, body, accepted_at, deliver_at, streamed_at)"
        " VALUES (999, 0, %s, 0, '', 0, 0, 0)",
        (taken.id,),
    )
    user.commit()
    tarry.nudge("orders")
    handled: list[int] = []
    for message in tarry.consume("orders", "billing", max=10, limit=10):
        with message:
            handled.append(message.body + 0)
    wait_until(lambda: tarry.group("orders", "billing")["dead"] == 1)
    assert sorted(handled) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    (letter,) = httpx.get(f"{server.url}/v1/topics/orders/groups/billing/dead").json()["messages"]
    assert (letter["id"], letter["content_type"]) == (receipts[4].id, "application/octet-stream")
    assert base64.b64decode(letter["body_base64"]) == b'{"price":NaN}'
    assert letter["attempts"][0]["reason"].startswith("TypeError")

    told = f"message {taken.id}: a message with its id is in the stream already"
    wait_until(lambda: told in httpx.get(f"{server.url}/readyz?verbose").text)
    assert httpx.get(f"{server.url}/readyz").status_code == 200
    assert told in httpx.get(f"{server.url}/ui").text
    assert "tarry_rows_set_aside 1.0" in httpx.get(f"{server.url}/metrics").text
    # A server tells the database at every other second, and the doctor asks the database.
    wait_until(lambda: any((check, state) == ("rows", "wrong") and told in text for check, state, text in doctor(dsn)))
    # Put right, it goes; nobody has to be told.
    cursor.execute("DELETE FROM message WHERE queue_id = 999")
    user.commit()
    claim = tarry.claim("orders", "billing", wait="30s")
    deadline = time.monotonic() + 90
    while claim is None and time.monotonic() < deadline:
        claim = tarry.claim("orders", "billing", wait="30s")
    assert claim is not None
    assert [message.body for message in claim.messages] == ["taken"]
    wait_until(lambda: told not in httpx.get(f"{server.url}/readyz?verbose").text)
