"""The servers of Tarry on a Galera write to one and the same of its nodes."""

import pytest
import trio
from attrs import define
from structlog.testing import capture_logs

from support.scripted_hosts import Servers
from tarry.store import leases
from tarry.store.errors import ReadOnly, Refused
from tarry.store.leases import Lease
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.ports import Transaction

NOW = 1000
"""Milliseconds, at all scripted servers."""


@define
class TheLease:
    """Of the node that is written to."""

    lease: Lease | None = None

    async def find(self, _: Transaction, name: str) -> Lease | None:
        assert name == "writer"
        await trio.lowlevel.checkpoint()
        return self.lease

    async def hold(self, _: Transaction, name: str, holder: str, now: int, until: int) -> bool:
        await trio.lowlevel.checkpoint()
        assert (name, now) == ("writer", NOW)
        if self.lease is not None and self.lease.holder != holder and self.lease.until > now:
            return False
        self.give(holder, until)
        return True

    def give(self, holder: str, until: int) -> None:
        self.lease = Lease(holder, 1, until)


@pytest.fixture
def lease(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> TheLease:
    """The hosts a, b and c are nodes of a Galera, on which it is."""
    servers.clusters = dict.fromkeys(("one", "two", "three"), "f59564f7")
    lease = TheLease()
    monkeypatch.setattr(leases, "find", lease.find)
    monkeypatch.setattr(leases, "hold", lease.hold)
    return lease


def backend_of(*hosts: str) -> MySQLBackend:
    return MySQLBackend(f"mysql://u@{','.join(hosts)}/d")


async def found(backend: MySQLBackend) -> str:
    await backend.now()
    return backend.server


@pytest.mark.parametrize(
    ("holder", "until", "goes_to"),
    [("one", 2000, "one"), ("two", 2000, "two"), ("three", 1001, "three"), ("two", 1000, "one"), ("nine", 0, "one")],
)
async def test_it_goes_where_others_write(lease: TheLease, holder: str, until: int, goes_to: str) -> None:
    lease.give(holder, until)
    backend = backend_of("a", "b", "c")
    assert await found(backend) == goes_to
    assert lease.lease == Lease(holder, 1, until), "who only looks takes nothing"
    await backend.agree()
    assert lease.lease == Lease(goes_to, 1, 7000)


async def test_it_waits_where_that_node_is_not_to_be_had(lease: TheLease) -> None:
    lease.give("nine", 2000)
    with pytest.raises(ReadOnly, match=r"b:3306/d: Tarry writes to another node of its Galera \(nine\)"):
        await backend_of("a", "b").now()


async def test_where_there_is_no_schema_yet_nobody_writes(lease: TheLease, monkeypatch: pytest.MonkeyPatch) -> None:
    async def absent(_: Transaction, name: str) -> Lease | None:
        raise Refused(f"Table 'd.lease' doesn't exist: {name}", 1146)

    monkeypatch.setattr(leases, "find", absent)
    assert await found(backend_of("a", "b")) == "one"


async def test_a_server_alone_has_no_lease(lease: TheLease, servers: Servers) -> None:
    servers.clusters = {}
    lease.give("two", 2000)
    backend = backend_of("a", "b")
    assert await found(backend) == "one"
    await backend.agree()
    assert await found(backend) == "one"
    assert lease.lease == Lease("two", 1, 2000)


async def test_who_comes_to_another_node_takes_the_lease_for_it(lease: TheLease, servers: Servers) -> None:
    backend = backend_of("a", "b", "c")
    await found(backend)
    await backend.agree()
    servers.hosts["a"] = ReadOnly("its Galera has no majority here")
    backend._hosts.leave()
    with pytest.raises(ReadOnly, match=r"another node of its Galera \(one\)"):
        await backend.now()
    assert lease.lease == Lease("one", 1, 7000)
    lease.give("one", NOW)
    backend._hosts._again_at = 0
    goes_to = await found(backend)
    assert goes_to in ("two", "three")
    assert lease.lease == Lease(goes_to, 1, 7000)


async def test_it_leaves_a_node_of_which_another_has_the_lease(lease: TheLease) -> None:
    backend = backend_of("a", "b", "c")
    await found(backend)
    await backend.agree()
    lease.give("two", 9000)
    with capture_logs() as said:
        await backend.agree()
        assert await found(backend) == "two"
    assert [line["event"] for line in said] == ["store_host_left", "store_host"]
    await backend.agree()
    assert await found(backend) == "two"


async def test_it_does_not_come_back_to_it(lease: TheLease) -> None:
    """The node that has it is not to be had from here."""
    backend = backend_of("a", "b")
    await found(backend)
    lease.give("nine", 2000)
    await backend.agree()
    backend._hosts._left_until = 0
    with pytest.raises(ReadOnly, match=r"b:3306/d: Tarry writes to another .*a:3306/d: Tarry writes to another"):
        await backend.now()
    lease.give("nine", NOW)
    backend._hosts._again_at = 0
    assert await found(backend) in ("one", "two")


async def test_sessions_that_are_made_at_the_same_time_are_with_one_node(lease: TheLease, servers: Servers) -> None:
    """Each would have found another one."""
    backend = backend_of("a", "b", "c")
    await found(backend)
    turn = [trio.Event(), trio.Event()]
    logins = iter(turn)

    async def hold_up() -> None:
        if (event := next(logins, None)) is not None:
            await event.wait()

    backend._hosts.leave()
    backend._hosts._left_until = 0
    servers.before_an_answer = hold_up
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backend.now)
        await trio.testing.wait_all_tasks_blocked()
        servers.hosts["b"] = ReadOnly("another one")
        backend._hosts._first = 2
        nursery.start_soon(backend.now)
        await trio.testing.wait_all_tasks_blocked()
        turn[1].set()
        await trio.testing.wait_all_tasks_blocked()
        assert backend.server == "three"
        servers.hosts["b"] = "two"
        turn[0].set()
    assert backend.server == "three"
