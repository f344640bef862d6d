"""`consume`: what the loop tells the server, whatever handlers do and however the server behaves."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.scripted_server import LOST, Answer, Request, ScriptedServer, problem
from support.small_broker import SmallBroker
from tarry.client import BadRequest, Delivery, Tarry


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="tarry.client"):
        yield caplog


def test_leaving_acks(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend(range(25))
    seen: list[int] = []
    for message in tarry.consume("t", "g", max=10, limit=25):
        with message:
            seen.append(message.body)
    assert seen == list(range(25))
    assert [id_ for request in broker.all("ack") for id_ in request["ids"]] == [str(n) for n in range(1, 26)]
    assert broker.all("fail") == []
    assert [request["max"] for request in broker.all("claim")] == [10, 10, 5]


def test_a_claim_asks_for_a_hundred_and_no_more_than_is_left(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend(range(250))
    for message in tarry.consume("t", "g", limit=250):
        message.ack()
    assert [request["max"] for request in broker.all("claim")] == [100, 100, 50]


@pytest.mark.parametrize("body", [b"1" * 5000, b'{"a":[' + b"-" + b"7" * 5000 + b"]}", b"1e999", b'[{"a":-1e400}]'])
def test_a_body_that_python_cannot_read_keeps_nobody_from_the_others(
    tarry: Tarry, broker: SmallBroker, script: ScriptedServer, body: bytes
) -> None:
    broker.backlog.extend(["first", "spoilt", "last"])

    def respond(request: Request) -> Answer:
        answer = broker.respond(request)
        content = json.dumps(answer.document).encode().replace(b'"spoilt"', body)
        return Answer(answer.status, headers=answer.headers, content=content)

    script.respond = respond
    seen: list[object] = []
    for message in tarry.consume("t", "g", max=3, limit=3):
        with message:
            seen.append(message.body)
            assert (message.content_type == "application/json") == (message.body == body)
            if isinstance(message.body, bytes):
                raise TypeError("bytes")
    assert seen == ["first", body, "last"]
    assert [request["ids"] for request in broker.all("fail")] == [["2"]]
    assert [id_ for request in broker.all("ack") for id_ in request["ids"]] == ["1", "3"]


def test_acks_of_a_claim_go_together(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend(range(10))
    for message in tarry.consume("t", "g", limit=10):
        with message:
            pass
    assert len(broker.all("ack")) < 10


def test_an_exception_fails_it_and_the_loop_goes_on(
    tarry: Tarry, broker: SmallBroker, warnings: pytest.LogCaptureFixture
) -> None:
    broker.backlog.extend(range(3))
    for message in tarry.consume("t", "g", limit=3):
        with message:
            if message.body == 1:
                raise ValueError("no " * 1000)
    (fail,) = broker.all("fail")
    assert fail["ids"] == ["2"]
    assert fail["count"] is True
    assert fail["reason"].startswith("ValueError: no no")
    assert len(fail["reason"]) == 500
    assert broker.settled("ack") == [1, 3]
    assert warnings.messages == ["message 2 of t failed"]


def test_a_handler_chooses_when_it_comes_again(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend(range(2))
    for message in tarry.consume("t", "g", limit=2):
        with message:
            message.retry(after="10m", reason="busy", count=message.body == 0)
    first, second = broker.all("fail")
    assert first == {"ids": ["1"], "reason": "busy", "retry_after": "10m", "count": True}
    assert second["count"] is False
    assert broker.all("ack") == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_gives_everything_back(
    tarry: Tarry, broker: SmallBroker, kind: type[BaseException]
) -> None:
    broker.backlog.extend(range(3))

    def interrupted() -> None:
        for message in tarry.consume("t", "g", max=3):
            with message:
                if message.body == 1:
                    raise kind

    with pytest.raises(kind):
        interrupted()
    assert [request["ids"] for request in broker.all("ack")] == [["1"]]
    back = broker.all("fail")
    assert [request["ids"] for request in back] == [["2"], ["3"]]
    assert all(request["retry_after"] == 0 and request["count"] is False for request in back)


def test_leaving_the_loop_gives_back_what_was_claimed_ahead(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend(range(100))
    for message in tarry.consume("t", "g"):
        with message:
            broker.wait_for("claim", 1)
        if message.body == 4:
            break
    handled = broker.settled("ack")
    back = broker.settled("fail")
    claimed = 100 - len(broker.backlog)
    assert handled == [1, 2, 3, 4, 5]
    assert back == list(range(6, claimed + 1))


def test_the_next_claim_is_made_while_messages_are_handled(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend(range(3))
    loop = tarry.consume("t", "g", max=1, limit=3)
    with next(loop):
        broker.wait_for("claim", 2)
    loop.close()
    assert [request["ids"] for request in broker.all("ack")] == [["1"]]
    assert [request["ids"] for request in broker.all("fail")] == [["2"]]


def test_leases_are_renewed_while_a_handler_works(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.append("long")
    for message in tarry.consume("t", "g", limit=1, lease="300ms"):
        with message:
            broker.wait_for("extend", 4)
    assert broker.all("extend")[-1] == {"lease": 300}
    assert len(broker.all("ack")) == 1


def test_the_result_of_a_lost_lease_is_dropped(
    tarry: Tarry, broker: SmallBroker, warnings: pytest.LogCaptureFixture
) -> None:
    broker.backlog.extend(["lost", "never handed out", "next"])
    seen: list[str] = []
    for message in tarry.consume("t", "g", max=2, limit=2, lease="3s"):  # renewed after one; a busy machine is slow
        with message:
            seen.append(message.body)
            if message.body == "lost":
                assert not message.lost
                broker.lost = True
                broker.wait_for("extend")
                while not message.lost:
                    time.sleep(0.001)
                broker.lost = False
    assert seen == ["lost", "next"]
    assert [request["ids"] for request in broker.all("ack")] == [["3"]]
    assert "a lease on t is over; 2 messages come again" in warnings.messages
    assert "message 1 of t: its lease is over, so its result is dropped" in warnings.messages


def test_a_refused_ack_is_a_warning(tarry: Tarry, broker: SmallBroker, warnings: pytest.LogCaptureFixture) -> None:
    broker.backlog.append(1)
    broker.lost = True
    for message in tarry.consume("t", "g", limit=1):
        with message:
            pass
    assert warnings.messages == ["ack of 1 messages of t dropped: the lease is over"]


def test_a_lost_answer_to_an_ack_is_asked_for_again(
    script: ScriptedServer, tarry: Tarry, broker: SmallBroker, warnings: pytest.LogCaptureFixture
) -> None:
    broker.backlog.append(1)
    for message in tarry.consume("t", "g", limit=1):
        with message:
            script.say(LOST, LOST)
    assert len(broker.all("ack")) == 1
    assert warnings.messages == []


def test_a_fail_whose_answer_was_lost_is_no_warning(
    script: ScriptedServer, tarry: Tarry, broker: SmallBroker, warnings: pytest.LogCaptureFixture
) -> None:
    broker.backlog.append(1)
    for message in tarry.consume("t", "g", limit=1):
        with message:
            script.say(LOST, problem(409, result="lease_lost"))
            message.retry(after="1h")
    assert [request.path.split("/")[-1] for request in script.requests].count("fail") == 2
    assert warnings.messages == []


def test_an_error_with_half_a_character_in_its_text(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.append(1)
    for message in tarry.consume("t", "g", limit=1):
        with message:
            raise ValueError("\ud800")
    assert broker.all("fail")[0]["reason"] == "ValueError: ?"


def test_a_server_that_is_away_for_a_while(script: ScriptedServer, tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.append(1)
    script.say(problem(503), LOST, problem(500))
    for message in tarry.consume("t", "g", limit=1):
        with message:
            assert message.body == 1


def test_a_claim_that_is_refused_is_raised_in_the_loop(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(problem(400, detail="max is 1000 or less"))
    with pytest.raises(BadRequest, match="1000"):
        next(tarry.consume("t", "g", max=2000))


def test_nonsense_from_the_server_is_raised_in_the_loop(script: ScriptedServer, tarry: Tarry) -> None:
    script.say(Answer(200, {"surprise": 1}))
    with pytest.raises(KeyError, match="claim"):
        next(tarry.consume("t", "g"))


def test_it_ends_when_nothing_comes(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.append(1)
    seen: list[int] = []
    for message in tarry.consume("t", "g", idle_timeout=0.05):
        with message:
            seen.append(message.body)
    assert seen == [1]


def test_messages_may_be_handled_elsewhere(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend(range(4))

    def handle(message: Delivery) -> None:
        with message:
            pass

    with ThreadPoolExecutor(4) as pool:
        loop = tarry.consume("t", "g", limit=4)
        for done in [pool.submit(handle, next(loop)) for _ in range(4)]:
            done.result()
        assert next(loop, None) is None
    assert broker.settled("ack") == [1, 2, 3, 4]


def test_no_threads_are_left(tarry: Tarry, broker: SmallBroker) -> None:
    before = set(threading.enumerate())
    for _ in tarry.consume("t", "g", idle_timeout=0.01):
        pass
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("tarry-")]


LEFT = "left the loop unsettled"


def left(broker: SmallBroker) -> list[str]:
    """Of which messages a counted fail has said that the loop left them."""
    fails = [request for request in broker.all("fail") if request["count"]]
    assert all(LEFT in request["reason"] for request in fails)
    return sorted((id_ for request in fails for id_ in request["ids"]), key=int)


def test_what_leaves_the_loop_unsettled_has_failed_and_is_warned_of_once(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend("abcde")

    def loop() -> None:
        for message in tarry.consume("t", "g", limit=5):
            assert message.body in "abcde"

    with pytest.warns(RuntimeWarning, match=LEFT) as warned:
        loop()
    assert len(warned) == 1
    assert left(broker) == ["1", "2", "3", "4", "5"]
    assert broker.all("ack") == []


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_the_warning_is_at_the_line_of_the_loop_and_in_it(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend("abc")
    bodies: list[str] = []

    def loop() -> None:
        for message in tarry.consume("t", "g"):
            bodies.append(message.body)
            if warned:
                break

    with pytest.warns(RuntimeWarning) as warned:
        loop()
    # Two steps later: the loop's own name had the first until the second came.
    assert bodies == ["a", "b", "c"]
    assert warned[0].filename == __file__
    broker.wait_for("fail")
    assert left(broker)[:1] == ["1"]


def test_what_is_settled_by_hand_or_kept_is_no_fault(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend("abcdef")
    kept: list[Delivery] = []
    for message in tarry.consume("t", "g", limit=6):
        if message.body == "a":
            message.ack()
        elif message.body == "b":
            message.fail("b")
        elif message.body == "c":
            message.retry("1h")
        else:
            kept.append(message)
        if len(kept) == 3:
            for one in kept:
                one.ack()
    assert broker.settled("ack") == [1, 4, 5, 6]
    assert [request["ids"] for request in broker.all("fail")] == [["2"], ["3"]]


def test_what_is_in_hand_when_a_loop_is_left_goes_back_uncounted(tarry: Tarry, broker: SmallBroker) -> None:
    broker.backlog.extend("ab")
    for message in tarry.consume("t", "g"):
        assert message.body == "a"
        break
    assert sum(len(request["ids"]) for request in broker.all("fail")) == 2
    assert left(broker) == []
