"""Ordered topics against a real server: keys in order whoever handles them, through failures and changes of hands."""

import threading
from collections import defaultdict

import pytest

from support.server import client_of
from tarry.client import Delivery, Tarry
from tarry.service.demo.server_process import ServerProcess

KEYS = [f"account-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return {"TARRY_LADDER": "20ms,50ms,50ms,50ms,50ms"}


def test_two_consumers_share_the_keys_and_each_is_in_order(tarry: Tarry, server: ServerProcess) -> None:
    """One of them leaves half-way; every fifth handling fails."""
    tarry.put_topic("bank", ordered=True, queues=4)
    for number in range(25):
        for key in KEYS:
            tarry.publish("bank", {"number": number}, ordering_key=key)
    lock = threading.Lock()
    in_hands: set[str] = set()
    done: dict[str, list[int]] = defaultdict(list)
    handled = 0
    stops = {name: threading.Event() for name in ("ann", "bob")}
    faults: list[str] = []

    def handle(message: Delivery) -> None:
        nonlocal handled
        key = message.ordering_key or ""
        with lock:
            if key in in_hands:
                faults.append(f"{key} is in two hands")
            in_hands.add(key)
            handled += 1
            fails = handled % 5 == 0
            if handled == 80:
                stops["bob"].set()
        threading.Event().wait(0.002)
        with lock:
            in_hands.discard(key)
            if fails:
                raise ValueError("every fifth")
            done[key].append(message.body["number"])
            if sum(map(len, done.values())) == 25 * len(KEYS):
                stops["ann"].set()

    def consume(name: str) -> None:
        with client_of(server) as mine:
            mine.run("bank", "ledger", handle, 8, pass_message=True, max=5, wait="200ms", client=name, stop=stops[name])

    threads = [threading.Thread(target=consume, args=(name,)) for name in stops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not faults
    assert done == {key: list(range(25)) for key in KEYS}
    state = tarry.group("bank", "ledger")
    assert (state["claims"], state["parked"], state["dead"], sum(state["retries"])) == (0, 0, 0, 0)
    assert {queue["owner"] for queue in state["queues"]} <= {"ann", "bob"}
