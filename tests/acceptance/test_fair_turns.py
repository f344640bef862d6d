"""Many messages of one topic fall due in one second, at a real server: those of another do not wait behind them."""

import re
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from support.server import start_server
from support.stores import open_tables
from support.waiting import paced, wait_until
from tarry.service.demo.server_process import ServerProcess

MANY, FEW = 20_000, 20
PAGE = 1000
BATCH = 1000
"""Twice the hand's."""


pytestmark = pytest.mark.parametrize("dsn", ["sqlite", "mariadb"], indirect=True)


@pytest.fixture
def server(dsn: str, tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, dsn) as server:
        yield server


def schedule(http: httpx.Client, topic: str, dues: list[float]) -> None:
    for begin in range(0, len(dues), PAGE):
        times = [
            datetime.fromtimestamp(due, UTC).isoformat(timespec="milliseconds") for due in dues[begin : begin + PAGE]
        ]
        page = {"messages": [{"body": number, "deliver_at": at} for number, at in enumerate(times, begin)]}
        assert http.post(f"/v1/topics/{topic}/messages", json=page).status_code == 201


def streamed(dsn: str, topic: str) -> list[tuple[int, bytes, int]]:
    """(streamed_at, body, deliver_at) of a topic's messages, in the order of their offsets."""
    with closing(open_tables(dsn)) as tables:
        return tables.rows(
            "SELECT m.streamed_at, m.body, m.deliver_at FROM message m JOIN queue q ON q.id = m.queue_id"
            f" JOIN topic t ON t.id = q.topic_id WHERE t.name = x'{topic.encode().hex()}' ORDER BY m.`offset`"
        )


def count(http: httpx.Client, topic: str) -> int:
    return int(http.get(f"/v1/topics/{topic}").json()["streamed"])


def begin(http: httpx.Client) -> None:
    """A crowd of A in one millisecond, and messages of B, each a few milliseconds behind the one before."""
    at = time.time() + paced(5)
    schedule(http, "a", [at] * MANY)
    schedule(http, "b", [at + 0.001 + number / 200 for number in range(FEW)])
    assert time.time() < at, "it was too slow for the test to begin in time"


@pytest.mark.cases(1)
def test_a_neighbour_has_its_turns(server: ServerProcess, dsn: str) -> None:
    with httpx.Client(base_url=server.url, timeout=30) as http:
        begin(http)
        wait_until(lambda: count(http, "a") == MANY and count(http, "b") == FEW, 60)
    a, b = streamed(dsn, "a"), streamed(dsn, "b")
    assert sorted(int(body) for _, body, _ in a) == list(range(MANY))
    assert [int(body) for _, body, _ in b] == list(range(FEW)), "in the order of time, each once"
    assert all(at >= due for at, _, due in a + b), "none is early"
    times = [at for at, _, _ in a]
    # What of A came into the stream while one of B was due and was not in it, of twenty such in all.
    passed = [bisect_right(times, at) - bisect_right(times, due) for at, _, due in b]
    assert sorted(passed)[FEW // 2] <= 3 * BATCH, passed
    assert max(passed) <= 6 * BATCH, passed


@pytest.mark.long
def test_kill_in_the_middle_of_a_crowd(server: ServerProcess, dsn: str) -> None:
    with httpx.Client(base_url=server.url, timeout=30) as http:
        begin(http)
        wait_until(lambda: count(http, "a") > 0, 30)
    server.kill()
    before = len(streamed(dsn, "a"))
    assert 0 < before < MANY, "it was to be in the middle"
    server.start()
    with httpx.Client(base_url=server.url, timeout=30) as http:
        wait_until(lambda: count(http, "a") == MANY and count(http, "b") == FEW, 60)
    assert sorted(int(body) for _, body, _ in streamed(dsn, "a")) == list(range(MANY))
    assert sorted(int(body) for _, body, _ in streamed(dsn, "b")) == list(range(FEW))


@pytest.mark.cases(1)
def test_a_release_rate_holds_its_topic_back(server: ServerProcess, dsn: str) -> None:
    rate, many = 100, 400
    with httpx.Client(base_url=server.url, timeout=30) as http:
        assert http.put("/v1/topics/a", json={"release_rate": rate}).status_code == 201
        at = time.time() + paced(2)
        schedule(http, "a", [at] * many)
        schedule(http, "b", [at + 0.01 * number for number in range(FEW)])
        assert http.post("/v1/topics/a/messages", json={"body": many}).status_code == 201

        def series() -> list[tuple[str, float]]:
            found = re.findall(r"^tarry_held_back_messages{(.*)} (.*)$", http.get("/metrics").text, re.MULTILINE)
            return [(labels, float(value)) for labels, value in found]

        # It lasts four seconds, so each is looked for as soon as it may be there.
        wait_until(lambda: any(value > 0 for _, value in series()), 60)
        held = http.get("/v1/topics/a").json()
        assert 0 < held["held_back"] <= held["pending"]
        assert [labels for labels, _ in series()] == ['topic="a"']
        wait_until(lambda: count(http, "b") == FEW, 60)
        assert count(http, "a") < many, "B goes on while A is held back"
        assert http.get("/v1/topics/b").json()["held_back"] == 0
        assert http.get("/readyz").status_code == 200
        wait_until(lambda: count(http, "a") == many + 1, 60)
        assert http.get("/v1/topics/a").json()["held_back"] == 0
    now, *released = streamed(dsn, "a")
    assert int(now[1]) == many, "what is for now is not held"
    assert sorted(int(body) for _, body, _ in released) == list(range(many))
    times = [at for at, _, _ in released]
    # Half a second's worth may go at once, a batch has the time at which it was begun, and a busy machine is later.
    assert all(number <= rate * (time_ - at * 1000 + 600) / 1000 + 1 for number, time_ in enumerate(times, 1))
    behind = sum(at > due + 2_500 for at, _, due in released)
    assert behind >= many - 300, "the last of it came seconds later"
