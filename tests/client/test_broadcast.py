"""`consume` and `run` on a broadcast topic: nothing is acked, what was seen is confirmed, and nothing else is."""

import threading
from collections.abc import Iterator

import pytest
from attrs import define, field

from support.claimed import record
from support.scripted_server import Answer, Request, ScriptedServer
from tarry.client import Tarry


@define
class Broadcaster:
    """One client's view of a topic of one queue: `position` is what it has confirmed."""

    stream: list[int]
    position: int = 0
    claims: list[dict[str, object]] = field(factory=list[dict[str, object]])
    others: list[str] = field(factory=list[str])

    def respond(self, request: Request) -> Answer:
        if not request.path.endswith("/claim"):
            self.others.append(request.path)
            return Answer(500, {})
        self.claims.append(request.json)
        if request.json["after"]:
            self.position = int(request.json["after"].removeprefix("0-"))
        bodies = self.stream[self.position : self.position + request.json["max"]]
        if not bodies:
            threading.Event().wait(0.01)  # in place of a long poll
        records = [record(self.position + i, body) for i, body in enumerate(bodies)]
        return Answer(200, {"claim": None, "next": f"0-{self.position + len(bodies)}", "messages": records})


@pytest.fixture
def topic(script: ScriptedServer) -> Iterator[Broadcaster]:
    topic = Broadcaster(list(range(25)))
    script.respond = topic.respond
    yield topic
    assert topic.others == [], "nothing is acked, failed or extended"


def test_everything_comes_in_order_and_is_confirmed(tarry: Tarry, topic: Broadcaster) -> None:
    seen: list[int] = []
    for message in tarry.consume("t", "g", limit=25, start="earliest", tags=["a"]):
        with message:
            seen.append(message.body)
    assert seen == topic.stream
    assert topic.position == 25
    assert topic.claims[0]["after"] == ""
    assert all(claim["from"] == "earliest" and claim["tags"] == ["a"] for claim in topic.claims)


def test_nothing_is_confirmed_before_it_was_seen(tarry: Tarry, topic: Broadcaster) -> None:
    for number, message in enumerate(tarry.consume("t", "g", limit=25)):
        with message:
            assert topic.position <= number


def test_leaving_confirms_what_was_seen_and_no_more(tarry: Tarry, topic: Broadcaster) -> None:
    for message in tarry.consume("t", "g"):
        with message:
            pass
        if message.body == 13:
            break
    assert topic.position == 14
    (again,) = [message.body for message in tarry.consume("t", "g", limit=1)]
    assert again == 14


def test_an_exception_is_no_reason_to_give_it_again(tarry: Tarry, topic: Broadcaster) -> None:
    seen: list[int] = []
    for message in tarry.consume("t", "g", limit=25):
        with message:
            seen.append(message.body)
            raise ValueError("no")
    assert seen == topic.stream


@pytest.mark.parametrize("tarry", ["threads"], indirect=True)
def test_what_is_dropped_at_once_does_not_end_the_loop(tarry: Tarry, topic: Broadcaster) -> None:
    seen: list[int] = []

    def loop() -> None:
        for message in tarry.consume("t", "g", max=10, limit=25):
            seen.append(message.body)
            del message

    with pytest.warns(RuntimeWarning, match="left the loop unsettled"):
        loop()
    assert seen == topic.stream


def test_what_is_given_back_uncounted_comes_again(tarry: Tarry, topic: Broadcaster) -> None:
    seen: list[int] = []
    for message in tarry.consume("t", "g", max=10, limit=20):
        seen.append(message.body)
        if message.body == 5 and seen.count(5) == 1:
            message.fail(count=False)
        else:
            message.ack()
    assert seen[:10] == list(range(10))
    assert seen[10:] == list(range(5, 15)), "from the first on that was not seen"


def test_a_client_that_was_given_a_name_gives_no_signs_of_life(
    tarry: Tarry, topic: Broadcaster, script: ScriptedServer
) -> None:
    """It would lose its place when it dies."""
    for message in tarry.consume("t", "g", limit=25, client="roof"):
        with message:
            pass
    assert (topic.position, script.signs) == (25, [])


def test_workers(tarry: Tarry, topic: Broadcaster) -> None:
    seen: list[int] = []
    stop = threading.Event()

    def handle(body: int) -> None:
        seen.append(body)
        if len(seen) == 25:
            stop.set()

    tarry.run("t", "g", handle, workers=4, max=5, stop=stop)
    assert sorted(seen) == topic.stream
    assert topic.position == 25


def test_tags_are_a_list(tarry: Tarry, topic: Broadcaster) -> None:
    with pytest.raises(ValueError, match=r"\['red'\]"):
        next(tarry.consume("t", "g", tags="red"))
    with pytest.raises(ValueError, match=r"\['red'\]"):
        tarry.claim("t", "g", tags="red")
    assert topic.claims == []
