"""The servers of Tarry on a Galera write to one and the same of its nodes."""

import json

import pytest
import trio
from structlog.testing import capture_logs

from support.scripted_hosts import Servers
from tarry.store.errors import ReadOnly, Refused
from tarry.store.mysql.backend import MySQLBackend

NOW = 1_795_000_000_000
"""Milliseconds."""


def row(boot: str, slot: int, *writes_to: str, age: int = 0, facts: bytes | None = None) -> tuple[object, ...]:
    """Of a server, which renewed it so many milliseconds ago."""
    told = json.dumps({"writes_to": writes_to}).encode() if facts is None else facts
    return boot.encode(), b"name", slot, 21, 0, NOW - age, told, NOW * 1000


@pytest.fixture
def galera(servers: Servers) -> Servers:
    """The hosts a, b and c are its nodes."""
    servers.clusters = dict.fromkeys(("one", "two", "three"), "f59564f7")
    return servers


def backend_of(*hosts: str) -> MySQLBackend:
    backend = MySQLBackend(f"mysql://u@{','.join(hosts)}/d")
    backend.introduce("own")
    return backend


async def found(backend: MySQLBackend) -> str:
    await backend.now()
    return backend.server


@pytest.mark.parametrize(
    ("rows", "goes_to"),
    [
        ([], "one"),
        ([row("other", 0, "two")], "two"),
        ([row("other", 3, "three")], "three"),
        ([row("other", 0, "two", age=5000)], "two"),
        ([row("other", 0, "two", age=5001)], "one"),
        ([row("own", 0, "two")], "one"),
        ([row("old", 0)], "one"),
        ([row("spoilt", 0, facts=b"\xff{")], "one"),
        ([row("other", 0, "two"), row("another", 1, "one")], "one"),
    ],
)
async def test_it_goes_where_those_that_live_write(
    galera: Servers, rows: list[tuple[object, ...]], goes_to: str
) -> None:
    galera.nodes = rows
    backend = backend_of("a", "b", "c")
    assert await found(backend) == goes_to
    assert backend.writes_to == [goes_to]


async def test_it_waits_where_that_node_is_not_to_be_had(galera: Servers) -> None:
    galera.nodes = [row("other", 0, "nine")]
    with pytest.raises(
        ReadOnly, match=r"b:3306/d: other servers of Tarry write to another node of its Galera \(nine\)"
    ):
        await backend_of("a", "b").now()


async def test_where_there_is_no_schema_yet_nobody_is_at_work(galera: Servers) -> None:
    class Rows(list[tuple[object, ...]]):
        def __bool__(self) -> bool:
            raise Refused("Table 'd.node' doesn't exist (1146)", 1146)

    galera.nodes = Rows()
    assert await found(backend_of("a", "b")) == "one"


async def test_a_server_alone_is_asked_for_nothing(servers: Servers) -> None:
    servers.nodes = [row("other", 0, "two")]
    backend = backend_of("a", "b")
    assert await found(backend) == "one"
    assert backend.writes_to == []
    for _ in range(5):
        await backend.agree()
    assert await found(backend) == "one"


@pytest.mark.parametrize(("slot", "goes_to"), [(0, "two"), (2, "one")])
async def test_of_two_that_are_apart_the_later_one_gives_way(
    galera: Servers, slot: int, goes_to: str, autojump_clock: trio.testing.MockClock
) -> None:
    backend = backend_of("a", "b", "c")
    assert await found(backend) == "one"
    galera.nodes = [row("own", 1, "one"), row("other", slot, "two")]
    with capture_logs() as said:
        for _ in range(3):
            assert await found(backend) == "one", "not at once"
            await backend.agree()
        assert await found(backend) == goes_to
    left = [line["event"] for line in said]
    assert left == ([] if goes_to == "one" else ["store_host_left", "store_host"])


async def test_one_that_gave_way_does_not_come_back(galera: Servers) -> None:
    """The others' node is not to be had from here."""
    backend = backend_of("a", "b")
    await backend.now()
    galera.nodes = [row("own", 1, "one"), row("other", 0, "nine")]
    for _ in range(3):
        await backend.agree()
    backend._hosts._left_until = 0
    with pytest.raises(ReadOnly, match=r"b:3306/d: other servers .*a:3306/d: other servers"):
        await backend.now()
    galera.nodes = [row("own", 1, "one"), row("other", 0, "nine", age=6000)]
    backend._hosts._again_at = 0
    assert await found(backend) in ("one", "two")
