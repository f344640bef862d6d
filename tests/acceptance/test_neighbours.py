"""A row that somebody holds, and who has nothing to do with it: neighbours go on, and whoever needs it is told.

A session of another program's locks a row of the store and keeps it until all that is asked of the others has happened:
nothing here is measured in seconds. A neighbour that hung would have the lock held for ever, and fail by its time-out.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.server import start_server
from support.stores import connect_raw, open_tables
from support.waiting import wait_until
from tarry.service.cli.server_process import ServerProcess

PUBLISHERS = 20
NEIGHBOURS = ("payments", "mails", "stock")
ROUNDS = 15
TOO_LONG = 9.0
"""Seconds of a request after which it hangs. A server that waits for the lock keeps its callers for longer."""


@pytest.fixture
def place(tmp_path: Path, mysql_dsn: str) -> Iterator[tuple[ServerProcess, str, httpx.Client]]:
    with (
        start_server(tmp_path, mysql_dsn) as server,
        httpx.Client(base_url=server.url, timeout=TOO_LONG, limits=httpx.Limits(max_connections=200)) as http,
    ):
        for topic in ("orders", *NEIGHBOURS):
            assert http.put(f"/v1/topics/{topic}", json={"queues": 1}).status_code == 201
            assert http.put(f"/v1/topics/{topic}/groups/billing", json={}).status_code == 201
        yield server, mysql_dsn, http


@contextmanager
def locked(dsn: str, sql: str) -> Generator[None, None, None]:
    """Rows of the store, in another program's transaction."""
    connection = connect_raw(dsn)
    try:
        with connection.cursor() as cursor:
            assert cursor.execute(f"{sql} FOR UPDATE") > 0
        yield
        connection.rollback()
    finally:
        connection.close()


def publish(http: httpx.Client, topic: str, body: Any, **rest: Any) -> httpx.Response:
    return http.post(f"/v1/topics/{topic}/messages", json={"body": body, **rest})


def claim(http: httpx.Client, topic: str, **how: Any) -> httpx.Response:
    return http.post(f"/v1/topics/{topic}/groups/billing/claim", json={"client": "c", "max": 100, **how})


def is_told(answer: httpx.Response) -> bool:
    """Whether it is a no that may be tried again, of which nothing was done."""
    return (
        answer.status_code == 503
        and int(answer.headers["retry-after"]) >= 1
        and answer.json()["executed"] is False
        and answer.json()["type"] == "/problems/busy"
    )


class Trying:
    """Callers in threads, each trying again until it is through; what they were told meanwhile."""

    def __init__(self, calls: int, call: Any) -> None:
        self.told: list[httpx.Response] = []
        self.through: list[httpx.Response] = []
        self.failed: list[BaseException] = []
        self.stop = threading.Event()
        self._threads = [threading.Thread(target=self._try, args=(call, one)) for one in range(calls)]
        for thread in self._threads:
            thread.start()

    def _try(self, call: Any, one: int) -> None:
        try:
            while not self.stop.is_set():
                answer = call(one)
                if answer.status_code != 503:
                    self.through.append(answer)
                    return
                self.told.append(answer)
        except BaseException as error:
            self.failed.append(error)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in self._threads)
        assert not self.failed


@pytest.mark.parametrize("later", [False, True], ids=["a queue", "a tally"])
def test_a_locked_row_of_a_topic_keeps_no_other_topic_waiting(
    place: tuple[ServerProcess, str, httpx.Client], *, later: bool
) -> None:
    """Publishes, at once or for later."""
    _, dsn, http = place
    rest = {"delay": "1h"} if later else {}
    for topic in ("orders", *NEIGHBOURS):
        assert publish(http, topic, "first", **rest).status_code == 201
    of_orders = "topic_id = (SELECT id FROM topic WHERE name = 'orders')"
    row = (
        f"SELECT * FROM tally WHERE {of_orders}" if later else f"SELECT * FROM queue WHERE {of_orders} AND group_id = 0"
    )
    with locked(dsn, row):
        trying = Trying(PUBLISHERS, lambda one: publish(http, "orders", one, **rest))
        for one in range(ROUNDS):
            for topic in NEIGHBOURS:
                answer = publish(http, topic, one, **rest)
                assert answer.status_code == 201, answer.text
        wait_until(lambda: len(trying.told) >= PUBLISHERS or bool(trying.failed))
        assert http.get("/readyz").status_code == 200
        assert not trying.through
    trying.join()
    assert all(is_told(answer) for answer in trying.told), [answer.text for answer in trying.told]
    assert [answer.status_code for answer in trying.through] == [201] * PUBLISHERS
    # I14: what was answered is there once, and what was refused is not.
    tables = open_tables(dsn)
    try:
        there = tables.rows(
            "SELECT t.name, COUNT(*) FROM topic t JOIN "
            + (
                "delay d ON d.topic_id = t.id"
                if later
                else "queue q ON q.topic_id = t.id JOIN message m ON m.queue_id = q.id"
            )
            + " GROUP BY t.name"
        )
    finally:
        tables.close()
    name = {row[0].decode() if isinstance(row[0], bytes) else row[0]: row[1] for row in there}
    assert name == {"orders": PUBLISHERS + 1} | dict.fromkeys(NEIGHBOURS, ROUNDS + 1)
    for topic, many in name.items():
        counters = http.get(f"/v1/topics/{topic}").json()
        assert counters["accepted"] == many, counters
        assert counters["pending" if later else "streamed"] == many, counters


def test_a_locked_cursor_keeps_no_other_group_waiting(place: tuple[ServerProcess, str, httpx.Client]) -> None:
    _, dsn, http = place
    for topic in ("orders", *NEIGHBOURS):
        assert publish(http, topic, "first").status_code == 201
    held = claim(http, "orders").json()
    assert len(held["messages"]) == 1
    for one in range(PUBLISHERS):
        assert publish(http, "orders", one).status_code == 201
    group = "SELECT g.id FROM consumer_group g JOIN topic t ON t.id = g.topic_id WHERE t.name = 'orders'"
    with locked(dsn, f"SELECT * FROM `cursor` WHERE group_id = ({group})"):
        claims = Trying(PUBLISHERS, lambda _: claim(http, "orders", max=1))
        ack = Trying(1, lambda _: http.post(f"/v1/claims/{held['claim']}/ack", json={}))
        for one in range(ROUNDS):
            for topic in NEIGHBOURS:
                assert publish(http, topic, one).status_code == 201
                mine = claim(http, topic)
                assert mine.status_code == 200, mine.text
                assert mine.json()["messages"]
                acked = http.post(f"/v1/claims/{mine.json()['claim']}/ack", json={})
                assert acked.status_code == 200, acked.text
        wait_until(lambda: (len(claims.told) >= PUBLISHERS and bool(ack.told)) or bool(claims.failed + ack.failed))
        assert http.get("/readyz").status_code == 200
        assert not claims.through
        assert not ack.through
    claims.join()
    ack.join()
    assert all(is_told(answer) for answer in claims.told + ack.told)
    assert [answer.json() for answer in ack.through] == [{"acked": 1}]
    given = [message["body"] for answer in claims.through for message in answer.json()["messages"]]
    assert sorted(given) == list(range(PUBLISHERS))
    state = http.get("/v1/topics/orders/groups/billing").json()
    assert (state["backlog"], state["acked"]) == (0, 1), state


def test_a_locked_queue_keeps_no_other_promotion_waiting(place: tuple[ServerProcess, str, httpx.Client]) -> None:
    _, dsn, http = place
    of_orders = "topic_id = (SELECT id FROM topic WHERE name = 'orders')"
    later = [{"body": one, "delay": "2s"} for one in range(PUBLISHERS)]
    answer = http.post("/v1/topics/orders/messages", json={"messages": later})
    (due,) = {receipt["deliver_at"] for receipt in answer.json()["messages"]}
    with locked(dsn, f"SELECT * FROM queue WHERE {of_orders} AND group_id = 0"):
        rounds = 0
        while rounds < ROUNDS or datetime.now(UTC) < datetime.fromisoformat(due) + timedelta(seconds=1):
            for topic in NEIGHBOURS:
                assert publish(http, topic, rounds, delay="50ms").status_code == 201
            for topic in NEIGHBOURS:
                mine = claim(http, topic, wait="5s")
                assert [message["body"] for message in mine.json()["messages"]] == [rounds]
            rounds += 1
        assert claim(http, "orders").json()["messages"] == []
    given: list[int] = []
    while len(given) < PUBLISHERS:
        messages = claim(http, "orders", wait="8s").json()["messages"]
        assert messages
        given += [message["body"] for message in messages]
    assert sorted(given) == list(range(PUBLISHERS))
    counters = http.get("/v1/topics/orders").json()
    assert (counters["accepted"], counters["streamed"], counters["pending"]) == (PUBLISHERS, PUBLISHERS, 0), counters
