"""Who is there, and what becomes of messages when clients are careless: one name twice, a seek or a change of hands
while claims are open. Nothing is lost, and every answer says what was done."""

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.commands import command
from support.effort import full, tries
from support.server import client_of, start_server
from support.worker_process import wait_for
from tarry.client import Claim, Delivery, LeaseLost, Tarry
from tarry.service.demo.server_process import ServerProcess

ROUNDS = tries(10, 30)


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {"TARRY_LADDER": ",".join(["20ms"] * 60)}


def claimed(tarry: Tarry, topic: str, client: str, group: str = "g", **how: Any) -> Claim:
    claim = tarry.claim(topic, group, client=client, wait="10s", **how)
    assert claim is not None
    return claim


def drain(tarry: Tarry, topic: str, client: str, left: set[int]) -> None:
    """Acks until nothing is left, each once."""
    for message in tarry.consume(topic, "g", client=client, wait="200ms", limit=len(left), idle_timeout=10):
        with message:
            left.remove(message.body)
    assert not left


def test_the_command_lists_clients(server: ServerProcess, tarry: Tarry) -> None:
    def listed(*arguments: str) -> list[str]:
        done = command(server.url, "clients", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    tarry.put_topic("listed", ordered=True, queues=2)
    tarry.publish("listed", 1, queue=1)
    tarry.publish("plain", 1)
    claimed(tarry, "listed", "list-ann")
    claimed(tarry, "plain", "list-bob")
    tarry.renew("list-bob")
    found = {one["client"]: one for one in map(json.loads, listed("--json"))}
    ann, bob = found["list-ann"], found["list-bob"]
    assert (ann["registered_at"], ann["alive"]) == (None, None)
    assert bob["alive"]
    assert bob["holds"] == [{"topic": "plain", "group": "g", "queue": 0, "claims": 1, "owner": False}]
    head, *rows = (line.split("\t") for line in listed())
    assert head == ["client", "registered", "renewed", "alive", "claims", "holds"]
    by_name = {row[0]: row for row in rows}
    assert by_name["list-ann"][1:] == ["", "", "", "1", "listed/g: 0*, 1* (1)"]
    assert by_name["list-bob"][3:] == ["yes", "1", "plain/g: 0 (1)"]
    assert tarry.deregister("list-ann") == tarry.deregister("list-bob") == 1
    assert not {"list-ann", "list-bob"} & {one["client"] for one in tarry.clients()}


@pytest.mark.parametrize("ordered", [False, True])
def test_two_clients_with_one_name_share_its_fate_and_lose_nothing(
    server: ServerProcess, tarry: Tarry, *, ordered: bool
) -> None:
    topic = f"twins-{ordered}"
    tarry.put_topic(topic, ordered=ordered, queues=2)
    tarry.publish_many(topic, [{"body": number, "queue": number % 2} for number in range(6)])
    with client_of(server) as other:
        first, second = claimed(tarry, topic, "twin", max=3), claimed(other, topic, "twin", max=3)
        assert not {m.id for m in first.messages} & {m.id for m in second.messages}, "each has its own"
        assert tarry.ack(first, [first.messages[0].id]) == 1
        assert tarry.deregister("twin") == 2
        for one, claim in ((tarry, first), (other, second)):
            with pytest.raises(LeaseLost):
                one.ack(claim)
    drain(tarry, topic, "twin", set(range(6)) - {first.messages[0].body})
    state = tarry.group(topic, "g")
    assert (state["acked"], state["dead"], state["claims"]) == (6, 0, 0)


def test_a_seek_while_a_consumer_works(server: ServerProcess, tarry: Tarry) -> None:
    """Its acks are refused and it goes on from the new place; another group feels nothing."""
    tarry.publish_many("sought", [{"body": number} for number in range(30)])
    other = claimed(tarry, "sought", "far", "other", max=30)
    sought = threading.Event()
    seen: list[int] = []

    def handle(message: Delivery) -> None:
        seen.append(message.body)
        if len(seen) == 5 and not sought.is_set():
            assert tarry.seek("sought", "g", "earliest") == {0: 0}
            sought.set()

    stop = threading.Event()

    def run() -> None:
        with client_of(server) as mine:
            mine.run("sought", "g", handle, 1, pass_message=True, max=10, wait="200ms", stop=stop)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_for(lambda: len(seen) >= 35 and tarry.group("sought", "g")["backlog"] == 0, "it has come to the end again")
    wait_for(lambda: tarry.group("sought", "g")["claims"] == 0, "and is done")
    stop.set()
    thread.join(30)
    assert set(seen[5:]) == set(range(30))
    assert tarry.ack(other) == 30
    assert tarry.group("sought", "other")["acked"] == 30


@full
def test_acks_that_meet_a_change_of_hands(server: ServerProcess, tarry: Tarry) -> None:
    """Of each claim either the ack holds and nothing of it comes again, or it is refused and all of it does."""
    tarry.put_topic("handed", ordered=True)
    refused = acked = 0
    left: set[int] = set()
    with client_of(server) as second, client_of(server) as third:
        for number in range(ROUNDS):
            tarry.publish("handed", number, ordering_key="k")
            left.add(number)
            claim = claimed(tarry, "handed", "giver", max=100)
            bodies = {message.body for message in claim.messages}
            assert bodies <= left, "acked, and handed out again"
            start = threading.Barrier(3, timeout=20)
            told: list[int] = []
            taken: list[Claim | None] = []

            def ack(claim: Claim = claim, start: threading.Barrier = start, told: list[int] = told) -> None:
                start.wait()
                try:
                    told.append(tarry.ack(claim))
                except LeaseLost:
                    told.append(0)

            def go(start: threading.Barrier = start) -> None:
                start.wait()
                second.deregister("giver")

            def take(start: threading.Barrier = start, taken: list[Claim | None] = taken) -> None:
                start.wait()
                taken.append(third.claim("handed", "g", client="taker", max=100, wait="100ms"))

            threads = [threading.Thread(target=act) for act in (ack, go, take)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            (count,) = told
            if count:
                assert count == len(bodies)
                left -= bodies
                acked += 1
            else:
                refused += 1
            if taken and (next_claim := taken[0]) is not None:
                got = {message.body for message in next_claim.messages}
                assert got <= left, "acked, and handed out again"
                assert third.ack(next_claim) == len(got)
                left -= got
            assert tarry.deregister("taker") == 0
    if left:
        drain(tarry, "handed", "last", left)
    assert acked + refused == ROUNDS
    state = tarry.group("handed", "g")
    assert (state["acked"], state["dead"], state["parked"]) == (ROUNDS, 0, 0)


def test_what_is_acked_after_a_restart_is_no_time_out(tmp_path: Path) -> None:
    """The server watches the leases that it finds at its start, also of claims that are settled before they end."""
    with start_server(tmp_path, env={"TARRY_LADDER": "20ms"}) as server, client_of(server) as tarry:
        for number in range(2):
            tarry.publish("orders", number)
        acked = claimed(tarry, "orders", "c", lease="60s", max=1)
        left = claimed(tarry, "orders", "c", lease="60s", max=1)
        server.kill()
        server.start()
        tarry.extend(acked, "3s")
        assert tarry.ack(acked) == 1
        tarry.extend(left, "3s")
        (again,) = claimed(tarry, "orders", "c", lease="20s").messages
        assert (again.id, again.attempt) == (left.messages[0].id, 2)
        # The lease of the acked claim was over before that of the one that was left.
        log = server.tail(100_000)
        assert log.count("consume_timeout") == 1, log
        assert left.id.rpartition("-")[0] in log
        assert "tarry_lease_lost_total 1.0" in httpx.get(f"{server.url}/metrics").text
