"""What a client tells of the messages that it begins: what is in handlers' hands, with whatever it sends anyway; and of
one that was lost before, before its handler is called."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from support.claimed import TERMS, a_claim, a_message
from support.scripted_server import Answer, Request, ScriptedServer, problem
from support.small_broker import SmallBroker
from tarry.client import BadRequest, Tarry
from tarry.client.errors import LeaseLost
from tarry.client.holds import Hold, Settlement
from tarry.client.stock import Stock


class Telling(SmallBroker):
    """A broker whose messages were lost before: each so often as its body says. It notes handlers, too."""

    def __init__(self, *losses: int) -> None:
        super().__init__()
        self.backlog.extend(losses)
        self.before: Callable[[str, Any], Answer | None] = lambda _verb, _request: None
        """May answer in its place."""

    def respond(self, request: Request) -> Answer:
        if (answer := self.before(request.path.rsplit("/", 1)[-1], request.json)) is not None:
            return answer
        answer = super().respond(request)
        for record in answer.document.get("messages", ()):
            if record["body"]:
                record["losses"] = record["body"]
        return answer

    def note(self, what: str, value: Any) -> None:
        with self.called:
            self.calls.append((what, value))
            self.called.notify_all()


@pytest.fixture
def telling(script: ScriptedServer) -> Callable[..., Telling]:
    def make(*losses: int) -> Telling:
        broker = Telling(*losses)
        script.respond = broker.respond
        return broker

    return make


def test_what_is_in_hand_is_told_and_what_waits_is_not(
    script: ScriptedServer, tarry: Tarry, telling: Callable[..., Telling]
) -> None:
    broker = telling(0, 0, 0)
    for message in tarry.consume("t", "g", limit=3, lease="300ms"):
        with message:
            if message.id == "1":
                broker.wait_for("extend", 2)
    assert all(request["tells_begun"] for request in broker.all("claim"))
    # By the sign of life with which it begins, or by the first renewal of the lease.
    signs = [one.json["begun"] for one in script.signs if one.content]
    told = [id_ for begun in signs for one in begun for id_ in one["ids"]]
    told += [id_ for request in broker.all("extend")[:2] for id_ in request.get("begun", ())]
    assert told == ["1"]


def test_of_what_was_lost_before_it_is_handed_out(tarry: Tarry, telling: Callable[..., Telling]) -> None:
    broker = telling(1, 0, 1)
    for message in tarry.consume("t", "g", limit=3):
        with message:
            broker.note("handled", message.id)
    order = [call for call in broker.calls if call[0] in ("extend", "handled")]
    told: set[str] = set()
    for what, value in order:
        if what == "extend":
            told.update(value.get("begun", ()))
        else:
            assert value == "2" or value in told, order
    assert {value for what, value in order if what == "handled"} == {"1", "2", "3"}
    assert {"1", "3"} <= told


def test_what_is_gone_by_then_is_not_handed_out(tarry: Tarry, telling: Callable[..., Telling]) -> None:
    broker = telling(1, 0)
    refusal = problem(409, result="lease_lost", detail="the lease is over")
    broker.before = lambda verb, request: refusal if verb == "extend" and "1" in request["begun"] else None
    seen: list[str] = []
    for message in tarry.consume("t", "g", max=1, limit=1):
        with message:
            seen.append(message.id)
    assert seen == ["2"]


def test_what_was_lost_more_than_once_is_handed_out_alone(
    script: ScriptedServer, telling: Callable[..., Telling]
) -> None:
    telling(2, 3, 2, 0, 2)
    lock, stop, together = threading.Lock(), threading.Event(), threading.Event()
    now: set[int] = set()
    most, done = [0], [0]

    def handle(message: Any) -> None:
        with lock:
            if message.losses:
                now.add(message.id)
            most[0] = max(most[0], len(now))
            if len(now) > 1:
                together.set()
        if message.losses:
            together.wait(0.05)  # another would come meanwhile
        with lock:
            now.discard(message.id)
            done[0] += 1
            if done[0] == 5:
                stop.set()

    with Tarry(script.url) as tarry:
        tarry.run("t", "g", handle, workers=5, pass_message=True, stop=stop)
    assert (most, done) == ([1], [5])


def test_an_older_server_is_told_nothing(tarry: Tarry, telling: Callable[..., Telling]) -> None:
    broker = telling(0, 1)
    unknown = problem(400, detail="unknown", errors=[{"pointer": "/tells_begun", "detail": "there is no such field"}])
    broker.before = lambda verb, request: unknown if verb == "claim" and "tells_begun" in request else None
    for message in tarry.consume("t", "g", limit=2, lease="300ms"):
        with message:
            if message.id == "1":
                broker.wait_for("extend")
    assert broker.all("extend")[0] == {"lease": 300}
    assert sum(len(request["ids"]) for request in broker.all("ack")) == 2


def test_a_claim_that_is_refused_otherwise_is_raised(tarry: Tarry, telling: Callable[..., Telling]) -> None:
    broker = telling()
    refused = problem(400, detail="no", errors=[{"pointer": "/max", "detail": "too many"}])
    broker.before = lambda verb, _: refused if verb == "claim" else None
    with pytest.raises(BadRequest, match="no"):
        next(tarry.consume("t", "g"))


def test_an_older_server_beside_refuses_what_it_does_not_know(tarry: Tarry, telling: Callable[..., Telling]) -> None:
    """During an upgrade the claim may come from one and its renewal go to another."""
    broker = telling(1)
    unknown = problem(400, detail="unknown", errors=[{"pointer": "/begun", "detail": "there is no such field"}])
    broker.before = lambda verb, request: unknown if verb in ("extend", "renew") and "begun" in request else None
    for message in tarry.consume("t", "g", limit=1):
        with message:
            broker.note("handled", message.id)
    assert broker.all("extend")[0] == {"lease": 60_000}
    assert broker.all("handled") == ["1"]


# The rules by themselves


def stock_of(*losses: int, ordered: bool = False, keys: str | None = None) -> tuple[Stock, Hold]:
    """With one claim; the bodies say how often each was lost before."""
    stock = Stock(TERMS)
    messages = [
        a_message(str(n), body=lost, losses=lost, ordering_key=keys and keys[n - 1]) for n, lost in enumerate(losses, 1)
    ]
    stock.add(a_claim("one", *messages, ordered=ordered), 0.0)
    (hold,) = {hold for hold, _ in stock.waiting}
    return stock, hold


def taken(stock: Stock) -> list[str]:
    ids: list[str] = []
    while (pair := stock.take(1.0)) is not None:
        ids.append(pair[1].id)
    return ids


def renewed(stock: Stock, hold: Hold) -> list[str]:
    """What is told with the renewal that is due, if there is one."""
    if hold not in stock.holds.due_for_renewal(1.0):
        return []
    begun = [id_ for _, ids in stock.begun(hold) for id_ in ids]
    stock.renewed(hold, None, 1.0, begun)
    return begun


def test_what_is_in_hand_is_told_once() -> None:
    stock, hold = stock_of(0, 0, 0)
    assert stock.begun() == []
    stock.take(1.0)
    stock.take(1.0)
    assert stock.begun() == [(hold, ["1", "2"])]
    stock.ack(hold, "1", 1.0)
    assert stock.begun() == [(hold, ["2"])]
    hold.told.add("2")
    assert stock.begun() == []


def test_as_many_are_told_of_as_workers_wait() -> None:
    stock, hold = stock_of(1, 1, 1)
    assert taken(stock) == []
    stock.suspect(0, 1.0)
    assert renewed(stock, hold) == []
    stock.suspect(2, 1.0)
    assert renewed(stock, hold) == ["1", "2"]
    assert taken(stock) == ["1", "2"]
    stock.suspect(1, 1.0)
    assert renewed(stock, hold) == ["3"]


def test_a_server_that_is_away_is_told_again() -> None:
    stock, hold = stock_of(1)
    stock.suspect(1, 1.0)
    stock.renewed(hold, LeaseLost("over"), 1.0, ["1"])
    assert taken(stock) == []
    assert not stock.waiting


def test_a_sign_of_life_tells_nothing_of_what_waits() -> None:
    """Its answer says nothing of claims: what is to be handed out after it might be another's."""
    stock, _ = stock_of(1, 0)
    stock.suspect(1, 1.0)
    assert taken(stock) == ["2"]
    assert [ids for _, ids in stock.begun()] == [["2"]]


@pytest.mark.parametrize("end", ["ack", "fail"])
def test_the_next_of_those_lost_twice_waits_for_the_one_before(end: str) -> None:
    stock, hold = stock_of(2, 2, 1)
    stock.suspect(3, 1.0)
    assert renewed(stock, hold) == ["1", "3"]
    assert taken(stock) == ["1", "3"]
    stock.suspect(3, 1.0)
    assert renewed(stock, hold) == []
    if end == "ack":
        stock.ack(hold, "1", 1.0)
    else:
        stock.fail(Settlement(hold, "fail", ("1",)))
    stock.suspect(3, 1.0)
    assert renewed(stock, hold) == [], "the server does not know of its end yet"
    stock.settled(Settlement(hold, "ack", ("1",)), None, 1.0)
    stock.suspect(3, 1.0)
    assert renewed(stock, hold) == ["2"]
    assert taken(stock) == ["2"]
    stock.lose(hold)
    assert not stock.alone


def test_whether_any_wait_is_known_however_they_leave() -> None:
    for leave in ("take", "lose", "give back"):
        stock, hold = stock_of(0, 1)
        assert stock.suspicious
        if leave == "take":
            hold.told.add("2")
            assert taken(stock) == ["1", "2"]
        elif leave == "lose":
            stock.lose(hold)
        else:
            stock.give_back()
        assert not stock.suspicious, leave
    stock, hold = stock_of(0, 1, ordered=True, keys="aa")
    assert stock.take(1.0) is not None
    stock.fail(Settlement(hold, "fail", ("1",)))
    assert not stock.suspicious, "it leaves the claim with the one before it"


def test_of_an_ordered_topic_what_is_behind_it_waits_too() -> None:
    stock, hold = stock_of(1, 0, 0, ordered=True, keys="aab")
    assert taken(stock) == ["3"]
    stock.suspect(1, 1.0)
    assert renewed(stock, hold) == ["1", "3"]
    assert taken(stock) == ["1"]
    stock.ack(hold, "1", 1.0)
    assert taken(stock) == ["2"]


def test_with_an_older_server_nothing_waits_for_it() -> None:
    stock, _ = stock_of(2, 1)
    stock.tells = False
    assert taken(stock) == ["1", "2"]
    assert stock.begun() == []
