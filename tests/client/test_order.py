"""Ordered topics in `consume` and `run`: one message of a key at a time; and a consumer's signs of life."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from attrs import evolve

from support.claimed import TERMS, TIME, record
from support.scripted_server import Answer, Request, ScriptedServer
from tarry.client import Tarry, loops
from tarry.client.consumption import Consumption
from tarry.client.coroutines import drive
from tarry.client.transport import ThreadTransport

_TERMS = evolve(TERMS, wait=0.0)


class OneClaim:
    """Hands out one claim of an ordered topic, and notes what is told of it."""

    def __init__(self, *keys: str | None) -> None:
        self.records = [record(n, n, ordering_key=key) for n, key in enumerate(keys, 1)]
        self.told: list[tuple[str, Any]] = []
        self.rest = threading.Event()

    def respond(self, request: Request) -> Answer:
        verb = request.path.rsplit("/", 1)[-1]
        if verb == "claim":
            records, self.records = self.records, []
            if not records:
                self.rest.wait(0.01)
                return Answer(200, {"claim": None, "messages": []})
            return Answer(200, {"claim": "c1", "ordered": True, "lease_until": TIME, "messages": records})
        if verb == "settle":
            told = [
                ("ack", one["ack"]) if "ack" in one else ("fail", one["fail"]["ids"]) for one in request.json["settle"]
            ]
            self.told += told
            return Answer(200, {"settled": [{"acked": 1, "retried": 1, "dead": 0}] * len(told)})
        self.told.append((verb, request.json.get("ids")))
        return Answer(200, {"acked": 1, "retried": 1, "dead": 0})


@pytest.fixture
def transport(script: ScriptedServer) -> Iterator[ThreadTransport]:
    transport = ThreadTransport(script.url, timeout=5, deadline=5)
    yield transport
    drive(transport.close())


def test_one_of_a_key_is_handed_out_at_a_time(script: ScriptedServer, transport: ThreadTransport) -> None:
    claim = OneClaim("a", "a", "b", None, None)
    script.respond = claim.respond
    consuming = Consumption(transport, _TERMS)
    consuming.start()
    first, second, third = consuming.next(5), consuming.next(5), consuming.next(5)
    assert first is not None
    assert second is not None
    assert third is not None
    assert [first.body, second.body, third.body] == [1, 3, 4]
    assert consuming.next(0.01) is None
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(consuming.next, 5)
        first.ack()
        following = waiting.result()
    assert following is not None
    assert following.body == 2
    third.ack()
    last = consuming.next(5)
    assert last is not None
    assert last.body == 5
    consuming.close()
    assert ("fail", ["2", "3", "5"]) in claim.told


def test_what_lies_behind_a_failed_one_is_dropped(script: ScriptedServer, transport: ThreadTransport) -> None:
    """The server has taken it back, and gives it again after the failed one."""
    claim = OneClaim("a", "a", "b", "a")
    script.respond = claim.respond
    consuming = Consumption(transport, _TERMS)
    consuming.start()
    message = consuming.next(5)
    assert message is not None
    message.fail("no")
    other = consuming.next(5)
    assert other is not None
    assert other.body == 3
    other.ack()
    assert consuming.next(0.01) is None
    assert consuming.stock.holds.messages == 0
    consuming.close()
    assert sorted(claim.told) == [("ack", ["3"]), ("fail", ["1"])]


def test_a_consumer_gives_signs_of_life_and_goes(
    tarry: Tarry, script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "_GOODBYE", 60.0)  # it is not said for long, and here it is to be heard
    claim = OneClaim("a")
    script.respond = claim.respond
    for message in tarry.consume("t", "g", limit=1):
        with message:
            while not script.signs:
                threading.Event().wait(0.001)
    first, *_, last = script.signs
    assert first.path.startswith("/v1/clients/")
    assert first.path.endswith("-1/renew")
    assert (last.method, last.path) == ("DELETE", first.path.removesuffix("/renew"))


def test_signs_come_every_five_seconds(script: ScriptedServer, transport: ThreadTransport) -> None:
    clock = [0.0]
    script.respond = OneClaim().respond
    consuming = Consumption(transport, _TERMS, clock=lambda: clock[0])
    consuming.start()
    for signs in range(1, 4):
        while consuming._pulse.at <= clock[0]:
            with consuming._lock:
                consuming._leases.ring()
            threading.Event().wait(0.001)
        assert len(script.signs) == signs
        assert consuming._pulse.at == clock[0] + 5
        clock[0] += 5
    consuming.close()


def test_a_client_that_was_given_a_name_gives_signs_once_it_holds_a_claim(
    script: ScriptedServer, transport: ThreadTransport
) -> None:
    clock = [0.0]
    claimed = OneClaim("a")
    empty = threading.Event()

    def respond(request: Request) -> Answer:
        if clock[0] < 3:
            empty.set()
            threading.Event().wait(0.001)  # in place of a long poll
            return Answer(200, {"claim": None, "messages": []})
        return claimed.respond(request)

    script.respond = respond
    consuming = Consumption(transport, evolve(_TERMS, named=True), clock=lambda: clock[0])
    consuming.start()
    assert empty.wait(10)
    while clock[0] < 3:
        while consuming._pulse.at <= clock[0]:
            threading.Event().wait(0.001)
        assert consuming._pulse.at == clock[0] + 1
        clock[0] += 1
        with consuming._lock:
            consuming._leases.ring()
    assert script.signs == []
    while not script.signs:
        clock[0] += 1
        with consuming._lock:
            consuming._leases.ring()
        threading.Event().wait(0.001)
    consuming.close()


def test_renew_and_deregister(tarry: Tarry, script: ScriptedServer) -> None:
    assert tarry.renew("a b").second == 15
    assert tarry.deregister("a b") == 0
    assert [(sign.method, sign.path) for sign in script.signs] == [
        ("POST", "/v1/clients/a%20b/renew"),
        ("DELETE", "/v1/clients/a%20b"),
    ]
