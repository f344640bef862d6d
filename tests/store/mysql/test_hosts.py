"""Which host a session is with: the one that was good last, else the first that takes writes."""

from functools import partial

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from support.at_once import at_once
from support.scripted_hosts import Servers, of
from tarry.store.errors import Foreign, ReadOnly, Refused, Unavailable
from tarry.store.mysql import hosts as module
from tarry.store.mysql.connection import Connection
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


async def test_another_database_is_left_alone_and_told_once(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    hosts = of("a", "b")
    looked = list[str]()

    async def check(connection: Connection) -> None:
        await trio.lowlevel.checkpoint()
        looked.append(connection.name)
        if servers.foreign:
            raise Foreign("it has no schema")

    with capture_logs() as told:
        good = await hosts.connect(write=True)
        hosts.check = check
        servers.hosts["a"], servers.foreign = Unavailable("u@a: away"), {"two"}
        for _ in range(3):
            with pytest.raises(Foreign, match=r"none of the 2 hosts.*mysql://u@b:3306/d: it has no schema"):
                await ask(hosts)
            await trio.sleep(0.3)
        assert (hosts.name, good.era) == ("one", hosts.era)
        assert all(session.closed for session in servers.sessions if session.name == "two")
        servers.hosts["a"] = "one"
        assert await ask(hosts) == "one"
        servers.hosts["a"], servers.foreign = Unavailable("u@a: away"), set()
        assert await ask(hosts) == "two"
    assert [line["event"] for line in told] == ["store_host_refused", "store_host"]
    assert (told[0]["host"], told[0]["because"]) == ("b:3306", "it has no schema")
    assert set(looked) == {"two"}  # the one that it was before is not asked


async def freeze(_: Connection) -> None:
    await trio.sleep_forever()


async def test_a_server_that_freezes_as_it_is_looked_at(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    hosts = of("a", "b")
    await ask(hosts)
    hosts.check = freeze
    servers.hosts["a"] = Unavailable("u@a: away")
    with pytest.raises(Unavailable, match="u@b:3306/d: no answer within 3 s"):
        await ask(hosts)
    assert servers.sessions[-1].closed


async def test_all_hosts_are_away_and_one_at_a_time_waits_for_them(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    """Each would wait three seconds for each of them, one after the other."""
    hosts, away, heard = of("a", "b"), Unavailable("no answer within 3 s", 2013), list[float]()

    async def three_seconds() -> None:
        await trio.sleep(3)

    async def ask_in_vain() -> None:
        with pytest.raises(Unavailable, match="none of the 2 hosts"):
            await ask(hosts)
        heard.append(trio.current_time() - began)

    await ask(hosts)
    servers.hosts |= {"a": away, "b": away}
    servers.before_an_answer, began = three_seconds, trio.current_time()
    await ask_in_vain()
    servers.asked.clear()
    await ask_in_vain()
    assert servers.asked == []
    await trio.sleep(0.3)
    await at_once(*[ask_in_vain] * 20)
    assert len(servers.asked) == 2
    assert heard == pytest.approx([6, 6] + [12.3] * 20)
    servers.hosts["b"] = "two"
    await trio.sleep(0.3)
    assert await ask(hosts) == "two"
    began = trio.current_time()
    await at_once(*[partial(ask, hosts)] * 20)
    assert trio.current_time() - began == 3, "one is good again: nobody waits for another's look"
