"""`run` over several topics: what the workers share, what the server is asked, and how it ends.

`test_rota` has whose message is next.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx
import pytest

from support.each_loop import on_each_loop
from support.scripted_server import Answer, Request, ScriptedServer, problem
from support.small_broker import SmallBrokers
from tarry.client import AsyncTarry, BadRequest, Delivery, Tarry
from tarry.client.signals import ends


@pytest.fixture
def brokers(script: ScriptedServer) -> SmallBrokers:
    brokers = SmallBrokers("a", "b", "c")
    script.respond = brokers.respond
    return brokers


def settled(brokers: SmallBrokers, topic: str, verb: str) -> list[int]:
    return brokers.of[topic].settled(verb)


def claims(script: ScriptedServer) -> list[Request]:
    return [request for request in script.requests if request.path.endswith("/claim")]


def test_each_topic_has_its_handler(tarry: Tarry, brokers: SmallBrokers) -> None:
    for topic in "abc":
        brokers.of[topic].backlog.extend(f"{topic}{n}" for n in range(5))
    stop = threading.Event()
    seen: dict[str, list[str]] = {topic: [] for topic in "abc"}

    def handler(topic: str) -> Callable[[str], None]:
        def handle(body: str) -> None:
            seen[topic].append(body)
            if sum(map(len, seen.values())) == 15:
                stop.set()

        return handle

    tarry.run([(topic, handler(topic)) for topic in "abc"], "g", workers=4, stop=stop)
    assert {topic: sorted(bodies) for topic, bodies in seen.items()} == {
        topic: [f"{topic}{n}" for n in range(5)] for topic in "abc"
    }
    assert all(settled(brokers, topic, "ack") == [1, 2, 3, 4, 5] for topic in "abc")


def test_a_handler_may_have_the_message(tarry: Tarry, brokers: SmallBrokers) -> None:
    brokers.of["b"].backlog.append("x")
    stop = threading.Event()

    def handle(message: Delivery) -> None:
        stop.set()
        message.retry(after="1h", reason=message.topic)

    tarry.run([("a", print), ("b", handle)], "g", workers=2, pass_message=True, stop=stop)
    (failed,) = brokers.of["b"].all("fail")
    assert (failed["retry_after"], failed["reason"]) == ("1h", "b")


def test_a_handler_that_takes_long_keeps_no_other_waiting(tarry: Tarry, brokers: SmallBrokers) -> None:
    brokers.of["a"].backlog.append("long")
    stop = threading.Event()
    others_done = threading.Event()
    begun = threading.Event()
    handled: list[int] = []

    def long(_body: str) -> None:
        begun.set()
        brokers.of["b"].backlog.extend(range(20))
        assert others_done.wait(20)
        stop.set()

    def short(body: int) -> None:
        assert begun.is_set()
        handled.append(body)
        if len(handled) == 20:
            others_done.set()

    tarry.run([("a", long), ("b", short)], "g", workers=2, stop=stop)
    assert sorted(handled) == list(range(20))
    assert settled(brokers, "a", "ack") == [1]


def test_one_message_behind_thousands_of_another_topic(tarry: Tarry, brokers: SmallBrokers) -> None:
    brokers.of["a"].backlog.extend(range(3000))
    stop = threading.Event()
    before: list[int] = []
    handled = Counter[str]()

    def many(_body: int) -> None:
        handled["a"] += 1
        if handled["a"] == 200:
            brokers.of["b"].backlog.append("urgent")

    def one(_body: str) -> None:
        before.append(handled["a"])
        stop.set()

    tarry.run([("a", many), ("b", one)], "g", workers=2, stop=stop)
    # It waits for its claim, and not behind what of the other topic is in the client's hands.
    assert before[0] < 2500


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_in_flight_and_gives_back_the_rest(
    tarry: Tarry, brokers: SmallBrokers, number: signal.Signals
) -> None:
    for topic in "ab":
        brokers.of[topic].backlog.extend(range(50))
    first, signalled = threading.Lock(), threading.Event()
    finished: list[tuple[str, int]] = []

    def handle(message: Delivery) -> None:
        if first.acquire(blocking=False):
            os.kill(os.getpid(), number)
            while ends.hears:  # the main thread hears it when it comes to it
                signalled.wait(0.001)
            signalled.set()
        signalled.wait(10)
        finished.append((message.topic, int(message.id)))

    tarry.run([("a", handle), ("b", handle)], "g", workers=2, max=10, pass_message=True)
    assert 0 < len(finished) < 100
    for topic in "ab":
        acked, failed = settled(brokers, topic, "ack"), settled(brokers, topic, "fail")
        assert acked == sorted(id_ for name, id_ in finished if name == topic)
        assert sorted([*acked, *failed]) == list(range(1, 51 - len(brokers.of[topic].backlog)))


@on_each_loop
async def test_a_signal_ends_tasks_too(script: ScriptedServer, brokers: SmallBrokers) -> None:
    brokers.of["b"].backlog.extend(range(50))

    finished: list[int] = []

    async def handle(body: int) -> None:
        if not finished:  # once: a second signal, behind the end of who hears the first, would end this process
            os.kill(os.getpid(), signal.SIGTERM)
            while ends.hears:
                await anyio.sleep(0.001)
        finished.append(body + 1)

    async with AsyncTarry(script.url) as tarry:
        await tarry.run([("a", handle), ("b", handle)], "g", workers=1, max=10)
    acked, failed = settled(brokers, "b", "ack"), settled(brokers, "b", "fail")
    assert acked == finished
    assert sorted([*acked, *failed]) == list(range(1, 51 - len(brokers.of["b"].backlog)))
    assert len(finished) < 50


class Holding:
    """Long polls that are held until the end of the test, each topic's first answer aside."""

    def __init__(self, brokers: SmallBrokers) -> None:
        self.brokers = brokers
        self.over = threading.Event()
        self.held = threading.Semaphore(0)

    def respond(self, request: Request) -> Answer:
        if request.path.endswith("/claim") and not self.brokers.of[request.path.split("/")[3]].backlog:
            self.held.release()
            self.over.wait(30)
            return Answer(200, {"claim": None, "messages": []})
        return self.brokers.respond(request)


@pytest.fixture
def holding(script: ScriptedServer, brokers: SmallBrokers) -> Iterator[Holding]:
    holding = Holding(brokers)
    script.respond = holding.respond
    yield holding
    holding.over.set()


@pytest.mark.parametrize("client", [None, "me"])
def test_the_end_waits_for_no_long_poll(
    script: ScriptedServer, tarry: Tarry, holding: Holding, client: str | None
) -> None:
    stop = threading.Event()
    ended: list[float] = []

    def end() -> None:
        for _ in range(3):
            assert holding.held.acquire(timeout=20)
        ended.append(time.monotonic())
        stop.set()

    ender = threading.Thread(target=end)
    ender.start()
    tarry.run([(topic, print) for topic in "abc"], "g", workers=2, client=client, stop=stop)
    assert time.monotonic() - ended[0] < 10  # of the 30 s that the polls are held
    ender.join()
    # What the server may have given in an answer that nobody waits for goes back with the client, also with one that
    # has a name and gave no sign of life so far.
    assert [sign.method for sign in script.signs].count("DELETE") == 1


def test_all_topics_have_one_client_that_lives(script: ScriptedServer, tarry: Tarry, holding: Holding) -> None:
    for topic in "abc":
        holding.brokers.of[topic].backlog.append(1)
    stop = threading.Event()
    handled = threading.Semaphore(0)

    def end() -> None:
        for semaphore in (handled, holding.held):
            for _ in range(3):
                assert semaphore.acquire(timeout=20)
        stop.set()

    ender = threading.Thread(target=end)
    ender.start()
    tarry.run([(topic, lambda _: handled.release()) for topic in "abc"], "g", workers=2, stop=stop)
    ender.join()
    assert len({request.json["client"] for request in claims(script)}) == 1
    # At the beginning, and when it holds its first claim; the third would come after five seconds.
    assert [sign.method for sign in script.signs].count("POST") <= 2
    assert script.signs[-1].method == "DELETE"


@pytest.mark.parametrize(("topics", "wait"), [("a", 2000), ("ab", 4000), ("abc", 6000), ("abcdefghijklmnop", 20000)])
def test_more_topics_are_no_more_long_polls(script: ScriptedServer, tarry: Tarry, topics: str, wait: int) -> None:
    script.respond = SmallBrokers(*topics).respond
    stop = threading.Event()

    def respond(request: Request) -> Answer:
        if len(claims(script)) >= 2 * len(topics):
            stop.set()
        return Answer(200, {"claim": None, "messages": []})

    script.respond = respond
    tarry.run([(topic, print) for topic in topics], "g", workers=1, stop=stop)
    assert {request.json["wait"] for request in claims(script)} == {wait}


def test_a_server_with_shorter_long_polls(script: ScriptedServer, tarry: Tarry) -> None:
    stop = threading.Event()

    def respond(request: Request) -> Answer:
        if request.json["wait"] > 2000:
            return problem(400, detail="too long", errors=[{"pointer": "/wait", "detail": "2 s at most"}])
        stop.set()
        return Answer(200, {"claim": None, "messages": []})

    script.respond = respond
    tarry.run([("a", print), ("b", print)], "g", workers=1, stop=stop)
    assert {request.json["wait"] for request in claims(script)} == {2000, 4000}


def test_a_refused_claim_of_one_topic_ends_it(script: ScriptedServer, tarry: Tarry, brokers: SmallBrokers) -> None:
    def respond(request: Request) -> Answer:
        return problem(400, detail="no such thing") if "/b/" in request.path else brokers.respond(request)

    script.respond = respond
    with pytest.raises(BadRequest, match="no such thing"):
        tarry.run([("a", print), ("b", print), ("c", print)], "g", workers=3)


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_a_handler_that_never_returns_is_left_alone(
    script: ScriptedServer, tarry: Tarry, brokers: SmallBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.of["a"].backlog.extend(["stuck", "waits"])
    stop = threading.Event()
    release = threading.Event()

    def handle(_body: str) -> None:
        stop.set()
        release.wait(30)

    tarry.run([("a", handle), ("b", handle)], "g", workers=1, stop=stop, drain="50ms")
    release.set()
    assert "1 handlers still work" in caplog.text
    assert settled(brokers, "a", "fail") == [2]  # what it has in hand is left to its lease
    assert settled(brokers, "a", "ack") == []
    assert [sign.method for sign in script.signs].count("DELETE") == 0


def test_leases_of_all_are_renewed(tarry: Tarry, brokers: SmallBrokers) -> None:
    for topic in "ab":
        brokers.of[topic].backlog.append("long")
    stop = threading.Event()
    renewed = threading.Barrier(2, timeout=20, action=stop.set)

    def handle(message: Delivery) -> None:
        brokers.of[message.topic].wait_for("extend", 2)
        renewed.wait()

    tarry.run([("a", handle), ("b", handle)], "g", workers=2, lease="300ms", pass_message=True, stop=stop)
    assert all(settled(brokers, topic, "ack") == [1] for topic in "ab")


def test_an_httpx_client_of_ones_own(script: ScriptedServer, brokers: SmallBrokers) -> None:
    for topic in "ab":
        brokers.of[topic].backlog.extend(range(3))
    stop = threading.Event()
    handled: list[int] = []

    def handle(body: int) -> None:
        handled.append(body)
        if len(handled) == 6:
            stop.set()

    with httpx.Client(headers={"X-Own": "yes"}) as client:
        Tarry(script.url, client=client).run([("a", handle), ("b", handle)], "g", workers=2, stop=stop)
    assert all(request.headers.get("X-Own") == "yes" for request in script.requests)
    assert all(settled(brokers, topic, "ack") == [1, 2, 3] for topic in "ab")


def test_what_may_be_held_is_shared_out(script: ScriptedServer, tarry: Tarry, brokers: SmallBrokers) -> None:
    for topic in "ab":
        brokers.of[topic].backlog.extend(range(40))
    stop = threading.Event()
    handled: list[int] = []
    most: list[int] = []

    def handle(body: int) -> None:
        handled.append(body)
        most.append(80 - sum(len(broker.backlog) for broker in brokers.of.values()) - len(handled))
        if len(handled) == 80:
            stop.set()

    tarry.run([("a", handle), ("b", handle)], "g", workers=1, max_cached=8, stop=stop)
    assert {request.json["max"] for request in claims(script)} <= {1, 2, 3, 4}
    assert max(most) <= 8


def yields(_body: object) -> Iterator[int]:
    yield 1


WRONG: list[tuple[Any, Any, type[Exception], str]] = [
    ([], None, ValueError, "topic: the list is empty"),
    ([("a", print), ("b", print), ("a", repr)], None, ValueError, r"topic\[2\]: 'a' is there twice"),
    ([("a", print), ("b", "print")], None, TypeError, r"topic\[1\]: the handler of 'b': a function"),
    ([("a", None)], None, TypeError, r"topic\[0\]: the handler of 'a': a function"),
    ([("a", print, 3)], None, TypeError, r"topic\[0\]: a pair \(topic, handler\), not \('a', "),
    (["a"], None, TypeError, r"topic\[0\]: a pair \(topic, handler\), not 'a'"),
    (("a", print), None, TypeError, r"topic\[0\]: a pair"),
    ([(7, print)], None, TypeError, r"topic\[0\]: a pair begins with the name of its topic, not with 7"),
    ({"a": print}, None, TypeError, "topic: a name, or a list of pairs"),
    (7, None, TypeError, "topic: a name, or a list of pairs .* not a int"),
    ([("a", print)], print, TypeError, "handler: in a list each topic has its own.* leave handler= out"),
    ("a", None, TypeError, "handler: say what handles the messages of 'a'"),
    ("a", 7, TypeError, "handler: a function that is called with each message, not 7"),
]


@pytest.mark.parametrize(("topic", "handler", "kind", "told"), WRONG)
def test_what_is_wrong_is_told_before_anything_is_asked(
    script: ScriptedServer, tarry: Tarry, topic: Any, handler: Any, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        tarry.run(topic, "g", handler)
    assert script.requests == []


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_a_generator_is_no_handler_of_a_topic(script: ScriptedServer, tarry: Tarry) -> None:
    with pytest.raises(TypeError, match="the handler of 'b': it is a generator"):
        tarry.run([("a", print), ("b", yields)], "g")
    with pytest.raises(ValueError, match="max_cached is shared by the topics: 2 or more"):
        tarry.run([("a", print), ("b", print)], "g", max_cached=1)
    assert script.requests == []


def test_consume_takes_one_of_each_in_turn(tarry: Tarry, brokers: SmallBrokers) -> None:
    for topic in "abc":
        brokers.of[topic].backlog.extend(range(4))
    seen = Counter[str]()
    for message in tarry.consume(["a", "b", "c"], "g", limit=9, idle_timeout=5):
        with message:
            seen[message.topic] += 1
    assert seen.total() == 9
    for topic in "abc":
        assert len(settled(brokers, topic, "ack")) == seen[topic]


def test_consume_ends_when_none_of_them_has_anything(tarry: Tarry, brokers: SmallBrokers) -> None:
    brokers.of["b"].backlog.extend(range(4))
    seen: list[int] = []
    for message in tarry.consume(["a", "b"], "g", idle_timeout=0.2):
        with message:
            seen.append(message.body)
    assert seen == [0, 1, 2, 3]
    assert settled(brokers, "b", "ack") == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("topics", "kind", "told"),
    [
        ([], ValueError, "topic: the list is empty"),
        (["a", "a"], ValueError, r"topic\[1\]: 'a' is there twice"),
        (["a", 7], TypeError, r"topic\[1\]: the name of a topic, not 7"),
    ],
)
def test_consume_of_a_wrong_list(
    script: ScriptedServer, tarry: Tarry, topics: Any, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        next(iter(tarry.consume(topics, "g")))
    assert script.requests == []


def test_what_was_left_unsettled_is_warned_of_at_the_callers_line(tarry: Tarry, brokers: SmallBrokers) -> None:
    brokers.of["b"].backlog.append("left")
    with pytest.warns(RuntimeWarning, match="a message of b left the loop unsettled") as warned:
        for _message in tarry.consume(["a", "b"], "g", limit=1, idle_timeout=5):
            pass
    assert len(warned) == 1
    assert type(tarry) is not Tarry or warned[0].filename == __file__
    assert brokers.of["b"].all("fail")[0]["count"] is True
