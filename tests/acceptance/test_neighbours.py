"""A row that somebody holds, and who has nothing to do with it: neighbours go on, and whoever needs it is told.

A session of another program's locks a row of the store and keeps it until all that is asked of the others has happened.
A neighbour that hung would have the lock held for ever, and fail by its time-out. A neighbour may have been in one
transaction with whoever met the lock, and have waited for the second that the server waits; but not again and again.
"""

import threading
import time
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
from tarry.service.demo.server_process import ServerProcess

PUBLISHERS = 20
NEIGHBOURS = ("payments", "mails", "stock")
ROUNDS = 15
TOO_LONG = 9.0
"""Seconds of a request after which it hangs. A server that waits for the lock keeps its callers for longer."""
LOCK_WAIT = 1.0
"""Seconds for which the server waits for a row."""


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
def locked(dsn: str, sql: str, *, gaps: bool = False) -> Generator[None, None, None]:
    """Rows of the store, in another program's transaction; and the gaps behind them, at MySQL's own isolation level."""
    connection = connect_raw(dsn)
    try:
        with connection.cursor() as cursor:
            if gaps:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
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


class Neighbours:
    """How long each of them waited for an answer."""

    def __init__(self) -> None:
        self._took: list[float] = []

    @contextmanager
    def waiting(self) -> Generator[None, None, None]:
        began = time.monotonic()
        yield
        self._took.append(time.monotonic() - began)

    def felt_it_once(self) -> None:
        """Once each of them may have waited with somebody who met the lock; then they felt nothing of it."""
        assert sum(took > 0.9 * LOCK_WAIT for took in self._took) <= len(NEIGHBOURS), sorted(self._took)

    def mostly_felt_nothing(self) -> None:
        """A few times they may have been in one transaction with what is slow, until they were parted."""
        assert sum(took > LOCK_WAIT / 2 for took in self._took) < len(self._took) / 10, sorted(self._took)


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


@contextmanager
def insisting(calls: int, call: Any) -> Generator[list[httpx.Response], None, None]:
    """Callers in threads that call over and over; what they heard."""
    stop = threading.Event()
    heard: list[httpx.Response] = []

    def insist(one: int) -> None:
        while not stop.is_set():
            heard.append(call(one))

    threads = [threading.Thread(target=insist, args=(one,)) for one in range(calls)]
    for thread in threads:
        thread.start()
    try:
        yield heard
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


OF_ORDERS = "topic_id = (SELECT id FROM topic WHERE name = 'orders')"
QUEUE_OF_ORDERS = f"SELECT * FROM queue WHERE {OF_ORDERS} AND group_id = 0"


@pytest.mark.parametrize("what", ["a queue", "a tally", "a topic"])
@pytest.mark.cases(1)
def test_a_locked_row_of_a_topic_keeps_no_other_topic_waiting(
    place: tuple[ServerProcess, str, httpx.Client], what: str
) -> None:
    """Publishes, at once or for later."""
    _, dsn, http = place
    row, later = {
        "a queue": (QUEUE_OF_ORDERS, False),
        "a tally": (f"SELECT * FROM tally WHERE {OF_ORDERS}", True),
        "a topic": ("SELECT * FROM topic WHERE name = 'orders'", True),  # whose tally is yet to be made
    }[what]
    rest = {"delay": "1h"} if later else {}
    before = {topic: topic != "orders" or what != "a topic" for topic in ("orders", *NEIGHBOURS)}
    for topic, some in before.items():
        if some:
            assert publish(http, topic, "first", **rest).status_code == 201
    neighbours = Neighbours()
    with locked(dsn, row):
        trying = Trying(PUBLISHERS, lambda one: publish(http, "orders", one, **rest))
        for one in range(ROUNDS):
            for topic in NEIGHBOURS:
                with neighbours.waiting():
                    answer = publish(http, topic, one, **rest)
                assert answer.status_code == 201, answer.text
        wait_until(lambda: len(trying.told) >= PUBLISHERS or bool(trying.failed))
        assert http.get("/readyz").status_code == 200
        assert not trying.through
    trying.join()
    neighbours.felt_it_once()
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
    assert name == {"orders": PUBLISHERS + before["orders"]} | dict.fromkeys(NEIGHBOURS, ROUNDS + 1)
    for topic, many in name.items():
        counters = http.get(f"/v1/topics/{topic}").json()
        assert counters["accepted"] == many, counters
        assert counters["pending" if later else "streamed"] == many, counters


@contextmanager
def slow(dsn: str, table: str, column: str, ids: str) -> Generator[None, None, None]:
    """Each change of this row takes a second, and holds what its transaction has locked."""
    tables = open_tables(dsn)
    ((id_,),) = tables.rows(ids)
    tables.rows(
        f"CREATE TRIGGER slowly BEFORE UPDATE ON {table} FOR EACH ROW"
        f" BEGIN IF NEW.{column} = {id_} THEN DO SLEEP(1); END IF; END"
    )
    try:
        yield
    finally:
        tables.rows("DROP TRIGGER slowly")
        tables.close()


def test_a_slow_topic_keeps_no_other_waiting(place: tuple[ServerProcess, str, httpx.Client]) -> None:
    """Publishes, claims and acks. The neighbours always have something that waits, as the slow topic has."""
    _, dsn, http = place
    for topic in ("orders", *NEIGHBOURS):
        assert publish(http, topic, "first").status_code == 201
    publishers, consumers = Neighbours(), Neighbours()

    def publish_beside(one: int) -> httpx.Response:
        with publishers.waiting():
            return publish(http, NEIGHBOURS[one % len(NEIGHBOURS)], one)

    with (
        slow(dsn, "queue", "id", QUEUE_OF_ORDERS.replace("*", "id")),
        insisting(PUBLISHERS, lambda one: publish(http, "orders", one)) as heard,
        insisting(2 * len(NEIGHBOURS), publish_beside) as beside,
    ):
        wait_until(lambda: len(heard) >= 5 * PUBLISHERS)
        for _ in range(ROUNDS):
            for topic in NEIGHBOURS:
                with consumers.waiting():
                    mine = claim(http, topic, wait="5s").json()
                assert mine["messages"]
                with consumers.waiting():
                    assert http.post(f"/v1/claims/{mine['claim']}/ack", json={}).json()["acked"] > 0
    assert {answer.status_code for answer in heard + beside} == {201}
    publishers.mostly_felt_nothing()
    consumers.felt_it_once()


def test_timers_of_a_slow_topic_keep_no_other_waiting(place: tuple[ServerProcess, str, httpx.Client]) -> None:
    _, dsn, http = place
    neighbours = Neighbours()
    with (
        slow(dsn, "queue", "id", QUEUE_OF_ORDERS.replace("*", "id")),
        insisting(1, lambda one: publish(http, "orders", one, delay="50ms")) as heard,
    ):
        for one in range(ROUNDS):
            for topic in NEIGHBOURS:
                assert publish(http, topic, one, delay="50ms").status_code == 201
                with neighbours.waiting():
                    assert claim(http, topic, wait="5s").json()["messages"]
    assert {answer.status_code for answer in heard} == {201}
    neighbours.felt_it_once()


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


@pytest.mark.long
def test_the_locked_row_of_a_client_keeps_no_other_from_renewing(tmp_path: Path, mysql_dsn: str) -> None:
    """Nor from living on; nor is it taken for dead itself."""
    others = [f"client-{number}" for number in range(5)]

    def renew(http: httpx.Client, name: str) -> httpx.Response:
        return http.post(f"/v1/clients/{name}/renew", json={})

    with (
        start_server(tmp_path, mysql_dsn, {"TARRY_CLIENT_TIMEOUT": "3s"}) as server,
        httpx.Client(base_url=server.url, timeout=TOO_LONG) as http,
    ):
        held: dict[str, str] = {}
        for name in ("ann", *others):
            assert publish(http, "orders", name).status_code == 201
            assert renew(http, name).status_code == 200
            held[name] = claim(http, "orders", client=name, max=1).json()["claim"]
        neighbours = Neighbours()
        with (
            insisting(1, lambda _: renew(http, "ann")) as hers,
            locked(mysql_dsn, "SELECT * FROM client WHERE name = 'ann'"),
        ):
            began, rounds = time.monotonic(), 0
            while rounds < ROUNDS or time.monotonic() < began + 2 * 3:
                for name in others:
                    with neighbours.waiting():
                        answer = renew(http, name)
                    assert answer.status_code == 200, answer.text
                rounds += 1
            wait_until(lambda: hers[-1].status_code == 503)
        neighbours.felt_it_once()
        # What her row has is new enough for a while; then a sign of life counts only when it is written.
        assert all(answer.status_code == 200 or is_told(answer) for answer in hers)
        assert renew(http, "ann").status_code == 200
        for name, claimed in held.items():
            assert http.post(f"/v1/claims/{claimed}/ack", json={}).json() == {"acked": 1}, name


def test_the_locked_offset_of_a_broadcast_client_keeps_no_other_waiting(
    place: tuple[ServerProcess, str, httpx.Client],
) -> None:
    _, dsn, http = place
    others = [f"screen-{number}" for number in range(4)]
    assert http.put("/v1/topics/news", json={"kind": "broadcast"}).status_code == 201
    assert http.put("/v1/topics/news/groups/billing", json={}).status_code == 201

    def read(client: str) -> httpx.Response:
        return claim(http, "news", client=client)

    for client in ("ann", *others):
        assert read(client).json()["messages"] == []
    neighbours = Neighbours()
    with locked(dsn, "SELECT * FROM reader WHERE client = 'ann'"):
        trying = Trying(5, lambda _: read("ann"))
        for one in range(ROUNDS):
            assert publish(http, "news", one).status_code == 201
            for client in others:
                with neighbours.waiting():
                    answer = read(client)
                assert [message["body"] for message in answer.json()["messages"]] == [one], answer.text
        wait_until(lambda: len(trying.told) >= 5 or bool(trying.failed))
        assert not trying.through
    trying.join()
    neighbours.felt_it_once()
    assert all(is_told(answer) for answer in trying.told)
    assert {message["body"] for answer in trying.through for message in answer.json()["messages"]} == set(range(ROUNDS))


@pytest.mark.parametrize("what", ["a queue", "a gap", "a topic"])
@pytest.mark.cases(1)
def test_a_locked_row_keeps_no_other_promotion_waiting(
    place: tuple[ServerProcess, str, httpx.Client], what: str
) -> None:
    _, dsn, http = place
    for topic in ("orders", *NEIGHBOURS):
        assert publish(http, topic, "first").status_code == 201
        assert len(claim(http, topic).json()["messages"]) == 1
    later = [{"body": one, "delay": "3s"} for one in range(PUBLISHERS)]
    answer = http.post("/v1/topics/orders/messages", json={"messages": later})
    due = max(receipt["deliver_at"] for receipt in answer.json()["messages"])
    if what == "a topic":  # they are of an outbox: the first of a topic that is counted takes the topic's row
        tables = open_tables(dsn)
        tables.rows("UPDATE delay SET uncounted = 1")
        tables.rows("DELETE FROM tally")
        tables.close()
    row = {
        "a queue": QUEUE_OF_ORDERS,
        "a gap": f"SELECT * FROM message WHERE queue_id = ({QUEUE_OF_ORDERS.replace('*', 'id')})",
        "a topic": "SELECT * FROM topic WHERE name = 'orders'",
    }[what]
    neighbours = Neighbours()
    with locked(dsn, row, gaps=what == "a gap"):
        rounds = 0
        while rounds < ROUNDS or datetime.now(UTC) < datetime.fromisoformat(due) + timedelta(seconds=1):
            for topic in NEIGHBOURS:
                assert publish(http, topic, rounds, delay="50ms").status_code == 201
            for topic in NEIGHBOURS:
                with neighbours.waiting():
                    mine = claim(http, topic, wait="5s")
                assert [message["body"] for message in mine.json()["messages"]] == [rounds]
            rounds += 1
        assert claim(http, "orders").json()["messages"] == []
    neighbours.felt_it_once()
    given: list[int] = []
    while len(given) < PUBLISHERS:
        messages = claim(http, "orders", wait="8s").json()["messages"]
        assert messages
        given += [message["body"] for message in messages]
    assert sorted(given) == list(range(PUBLISHERS))
    counters = http.get("/v1/topics/orders").json()
    many = PUBLISHERS + 1
    assert (counters["accepted"], counters["streamed"], counters["pending"]) == (many, many, 0), counters
