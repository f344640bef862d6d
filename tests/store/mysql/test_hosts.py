"""Which host a session is with: the one that was good last, else the first that takes writes."""

from functools import partial

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from support.scripted_hosts import Servers, of
from tarry.store.errors import ReadOnly, Refused, Unavailable
from tarry.store.mysql import hosts as module
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.hosts import Hosts
from tarry.store.mysql.read_only import why_read_only


async def ask(hosts: Hosts) -> str:
    return (await hosts.connect(write=True)).name


def test_the_time_for_each() -> None:
    assert of("a").timeout == 5
    assert of("a", "b").timeout == 3


async def test_the_first_that_takes_writes_and_then_the_one_that_was_good_last(servers: Servers) -> None:
    servers.read_only, hosts = {"one"}, of("a", "b", "c")
    assert await ask(hosts) == "two"
    assert await ask(hosts) == "two"
    assert servers.asked == ["a", "b", "b"]
    assert servers.sessions[0].closed
    servers.hosts["b"] = Unavailable("b is away")
    assert await ask(hosts) == "three"
    assert servers.asked[3:] == ["b", "a", "c"]


async def test_a_change_is_told_once_and_ends_the_sessions_there_were(servers: Servers) -> None:
    hosts = of("a", "b:3307")
    with capture_logs() as told:
        before = await hosts.connect(write=True)
        assert before.era == hosts.era
        servers.hosts["a"] = Unavailable("a is away")
        after = await hosts.connect(write=True)
        await ask(hosts)
    assert before.era != hosts.era == after.era
    assert hosts.name == "two"
    assert [(line["event"], line["before"], line["now"]) for line in told] == [("store_host", "a:3306", "b:3307")]


async def test_another_server_behind_the_same_host_is_a_change(servers: Servers) -> None:
    hosts = of("a")
    before = await hosts.connect(write=True)
    servers.hosts["a"] = "promoted"
    assert await ask(hosts) == "promoted"
    assert before.era != hosts.era


async def test_all_that_is_wrong_is_told_of_each(servers: Servers) -> None:
    servers.hosts |= {"a": Unavailable("u@a: away (2003)", 2003), "b": Refused("u@b: no such user (1045)", 1045)}
    servers.read_only, hosts = {"three"}, of("a", "b", "c")
    with pytest.raises(ReadOnly) as caught:
        await ask(hosts)
    assert str(caught.value) == (
        "none of the 3 hosts takes writes. u@a: away (2003); u@b: no such user (1045);"
        " mysql://u@c:3306/d: it is read-only"
    )
    servers.hosts["c"] = Refused("u@c: no such user (1045)", 1045)
    with pytest.raises(Unavailable, match="none of the 3") as waited:
        await ask(of("a", "b", "c"))
    assert not isinstance(waited.value, ReadOnly)
    with pytest.raises(Refused, match="none of the 2"):  # waiting does not help
        await ask(of("b", "c"))


async def test_of_one_host_its_own_error(servers: Servers) -> None:
    servers.hosts["a"] = error = Refused("no such user (1045)", 1045)
    with pytest.raises(Refused) as caught:
        await ask(of("a"))
    assert caught.value is error


async def test_read_only_servers_are_not_stormed(servers: Servers, autojump_clock: trio.testing.MockClock) -> None:
    servers.read_only, hosts = {"one"}, of("a")
    for _ in range(10):
        with pytest.raises(ReadOnly, match="it is read-only"):
            await ask(hosts)
    assert servers.asked == ["a"]
    servers.read_only.clear()
    await trio.sleep(0.21)
    assert await ask(hosts) == "one"


@pytest.mark.parametrize(
    ("switches", "why"),
    [
        ((0, 0), None),
        (("OFF", "OFF"), None),
        ((1, 0), "@@read_only"),
        (("NO_LOCK", 0), "@@read_only"),
        ((0, 1), "@@innodb_read_only"),
        ((b"ON", b"OFF"), "@@read_only"),
    ],
)
def test_what_makes_a_server_read_only(switches: tuple[object, ...], why: str | None) -> None:
    assert (why_read_only(switches) or "") == ("" if why is None else f"it is read-only ({why} is on)")


async def test_a_look_at_each(servers: Servers) -> None:
    servers.read_only = {"two"}
    servers.hosts["c"] = Unavailable("c is away")
    found = await module.look_at_each(Dsn.parse("mysql://u@a,b,c/d"))
    assert [(one.place, set(one.names), one.why and str(one.why)) for one in found] == [
        ("a:3306", {"one"}, None),
        ("b:3306", {"two"}, "it is read-only"),
        ("c:3306", set(), "c is away"),
    ]
    assert all(session.closed for session in servers.sessions)


async def lead_elsewhere(servers: Servers) -> None:
    """As a balancer does that takes one server after the other."""
    await trio.lowlevel.checkpoint()
    servers.hosts["a"] = "two" if servers.hosts["a"] == "one" else "one"


async def test_a_host_that_leads_to_several_servers_is_told(servers: Servers) -> None:
    servers.before_an_answer = partial(lead_elsewhere, servers)
    (found,) = await module.look_at_each(Dsn.parse("mysql://u@a/d"))
    assert (set(found.names), found.why) == ({"one", "two"}, None)
    hosts = of("a")
    with capture_logs() as told:
        for _ in range(3):
            await ask(hosts)
    assert ["in turn" in line["because"] for line in told] == [False, True]


async def test_a_host_at_the_start_that_is_not_the_first_is_told(servers: Servers) -> None:
    servers.read_only = {"one"}
    with capture_logs() as told:
        await ask(of("a", "b"))
        await ask(of("b", "a"))
    assert [(line["before"], line["now"]) for line in told] == [("a:3306", "b:3306")]
