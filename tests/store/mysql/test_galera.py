"""Whether a node of a Galera commits what is written to it."""

import re

import pytest

from tarry.store.mysql.galera import describe, why_cut_off

UUID = ("wsrep_cluster_state_uuid", "f59564f7")


@pytest.mark.parametrize("states", [[], [(b"wsrep_ready", b"ON"), (b"wsrep_cluster_status", b"Primary")]])
def test_a_node_that_is_ready_and_a_server_without(states: list[tuple[bytes, bytes]]) -> None:
    assert why_cut_off(states) is None


@pytest.mark.parametrize(
    ("status", "state", "told"),
    [
        ("non-Primary", "Initialized", "no majority here .*non-Primary.*nothing is committed"),
        ("Disconnected", "Initialized", "no majority here .*Disconnected"),
        ("Primary", "Joining: receiving State Transfer", "not up to date .*receiving State Transfer"),
    ],
)
def test_a_node_that_is_not(status: str, state: str, told: str) -> None:
    states = [("wsrep_ready", "OFF"), ("wsrep_cluster_status", status), ("wsrep_local_state_comment", state), UUID]
    assert re.search(told, str(why_cut_off(states)))


def test_what_a_node_tells_of_its_cluster() -> None:
    three, two = (describe([UUID, ("wsrep_cluster_size", size)]) for size in "32")
    assert three is not None
    assert two is not None
    assert (three.name, three.several_primaries, three.members, three.advice) == ("f59564f7", True, 3, [])
    assert [advice.split(":")[0] for advice in two.advice] == ["of 2 nodes none may be lost"]
    assert describe([]) is None
    assert describe([("wsrep_cluster_state_uuid", "00000000-0000-0000-0000-000000000000")]) is None
