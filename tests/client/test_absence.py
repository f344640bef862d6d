"""What the log says of a server that goes away under a loop: few lines, and one that it answers again."""

import logging
import re
import threading
from collections.abc import Iterator

import pytest

from support.blocking import KINDS, client_of
from support.scripted_server import Answer, Request, ScriptedServer, problem
from support.small_broker import SmallBroker
from tarry.client import Tarry, Unavailable
from tarry.client.absence import Absence

GONE = Unavailable("http://tarry does not answer")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="tarry.client"):
        yield caplog


def test_an_hour_away_is_a_handful_of_lines(log: pytest.LogCaptureFixture) -> None:
    absence = Absence("orders")
    absence.answered(1000.0)
    for step in range(36_000):
        absence.failed("claiming from", GONE, 1000.0 + step / 10)
    assert absence.lost(3)
    assert absence.lost(4)
    absence.answered(4600.0)
    absence.answered(4601.0)
    first, *reminders, last = log.messages
    assert first == "claiming from orders: http://tarry does not answer; going on"
    assert [re.findall(r"away for (\d+) s", line) for line in reminders] == [[str(10 * 2**n)] for n in range(9)]
    assert last == "orders: the server answers again after 3600 s, 36000 calls; 7 messages come again"


def test_each_absence_has_its_lines_and_the_last_one_an_end(log: pytest.LogCaptureFixture) -> None:
    absence = Absence("orders")
    assert not absence.lost(1)
    for again in range(2):
        absence.failed("claiming from", GONE, 10.0)
        absence.lost(again)
        absence.answered(12.0)
    absence.failed("ack of messages of", GONE, 20.0)
    absence.closed(25.0)
    absence.closed(26.0)
    assert [line.partition(": ")[2] for line in log.messages if "going on" not in line] == [
        "the server answers again after 2 s, 1 calls; 0 messages come again",
        "the server answers again after 2 s, 1 calls; 1 messages come again",
        "the server was away until the end, for 5 s, 1 calls; 0 messages come again",
    ]


@pytest.fixture(params=KINDS)
def impatient(request: pytest.FixtureRequest, script: ScriptedServer) -> Iterator[Tarry]:
    """A client that gives each call up at once."""
    with client_of(request.param, script.url, deadline=0.0) as client:
        yield client


def test_a_loop_tells_of_it_and_of_its_end(
    script: ScriptedServer, impatient: Tarry, log: pytest.LogCaptureFixture
) -> None:
    """Claims and renewals fail, dozens of them; the lease that is over meanwhile is told with the end."""
    broker = SmallBroker()
    broker.backlog.append("before")
    away, refused = threading.Event(), threading.Semaphore(0)

    def respond(request: Request) -> Answer:
        if away.is_set():
            refused.release()
            return problem(503, detail="away")
        return broker.respond(request)

    script.respond = respond
    seen: list[str] = []
    for message in impatient.consume("t", "g", max=2, limit=2, wait=0, lease="50ms"):
        seen.append(message.body)
        if message.body == "after":
            message.ack()
            continue
        away.set()
        while not message.hold.lost:
            assert refused.acquire(timeout=10)
        for _ in range(47):
            assert refused.acquire(timeout=10)
        broker.backlog.append("after")
        away.clear()
        with message:
            pass
    assert seen == ["before", "after"]
    *lines, end = [line for line in log.messages if "its result is dropped" not in line]
    assert [re.sub("^(claiming from|renewing a lease on) t: ", "", line) for line in lines] == ["away; going on"]
    assert re.fullmatch(r"t: the server answers again after \d s, \d+ calls; 1 messages come again", end)
