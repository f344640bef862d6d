"""The pool where its server becomes read-only, is another, is silent, or lets in no more."""

from functools import partial
from typing import cast

import pytest
import trio
import trio.testing

from support.at_once import at_once
from support.effort import full, tries
from support.scripted_hosts import Servers, Session, of
from tarry.store.errors import Full, ReadOnly, Unavailable
from tarry.store.mysql.pool import Pool


async def take(pool: Pool) -> None:
    async with pool.connection():
        pass


async def meet_read_only(pool: Pool, servers: Servers) -> None:
    async with pool.connection():
        servers.read_only = {"one"}
        raise ReadOnly("it is read-only", 1290)


async def test_a_session_that_meets_read_only_ends_them_all(servers: Servers) -> None:
    hosts = of("a", "b")
    pool, other = Pool(hosts, size=2, write=True), Pool(hosts, size=2, write=True)
    async with other.connection() as idle:
        pass
    async with pool.connection() as held:
        with pytest.raises(ReadOnly):
            await meet_read_only(pool, servers)
    assert cast(Session, held).closed  # as it came back
    async with other.connection() as next_one:
        assert next_one is not idle
        assert next_one.name == "two"
    assert cast(Session, idle).closed


async def write_in_vain(pool: Pool) -> None:
    async with pool.connection():
        raise ReadOnly("WSREP has not yet prepared node for application use (1047)", 1047)


async def test_of_a_server_that_refuses_to_write_and_does_not_say_why_the_next_host_is_tried(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    pool = Pool(of("a", "b", "c"), size=2, write=True)
    servers.read_only = {"two", "three"}
    with pytest.raises(ReadOnly, match="1047"):
        await write_in_vain(pool)
    servers.asked.clear()
    for _ in range(5):
        with pytest.raises(ReadOnly, match=r"none of the 3 hosts.*it has just refused"):
            await write_in_vain(pool)
    assert servers.asked == ["b", "a", "c"]
    await trio.sleep(0.21)
    with pytest.raises(ReadOnly, match="1047"):
        await write_in_vain(pool)
    servers.read_only = {"two"}
    async with pool.connection() as connection:
        assert connection.name == "three"


async def test_where_the_server_lets_in_no_more_the_pool_goes_on_with_what_it_has(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    pool, served = Pool(of("a"), size=4, write=True), list[object]()

    async def work() -> None:
        async with pool.connection() as connection:
            await trio.sleep(1)
            served.append(connection)

    async with trio.open_nursery() as nursery, pool.connection() as only:
        servers.hosts["a"] = Full("Too many connections (1040)", 1040)
        for _ in range(3):
            nursery.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        assert len(servers.asked) == 4
    assert served == [only] * 3
    assert len(servers.asked) <= 5


async def test_with_more_callers_than_sessions_each_is_served_in_turn(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    """Of sixteen places two have a session: nobody waits beside one at rest, nor asks the server for each use."""
    pool, served = Pool(of("a"), size=16, write=True), list[int]()

    async def work(number: int) -> None:
        await trio.sleep(number / 1000)
        async with pool.connection():
            await trio.sleep(0.1)
            served.append(number)

    servers.most = 2
    await at_once(*(partial(work, number) for number in range(30)))
    assert served == list(range(30))
    assert trio.current_time() < 1.6
    assert len(servers.asked) <= 5
    servers.most, servers.asked[:] = 16, []
    await trio.sleep(1)
    await at_once(*(partial(work, number) for number in range(30)))
    assert len(servers.sessions) == 16  # there is room again


async def test_a_session_that_comes_back_during_a_refused_login_is_used(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    pool, freed = Pool(of("a"), size=2, write=True), trio.Event()

    async def hold() -> None:
        async with pool.connection():
            await freed.wait()

    async def refuse() -> None:
        freed.set()
        await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold)
        await trio.testing.wait_all_tasks_blocked()
        servers.most, servers.before_an_answer = 1, refuse
        began = trio.current_time()
        await take(pool)
        assert trio.current_time() - began == 1


async def test_who_waits_for_a_session_logs_in_when_one_is_lost_and_may_go(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    pool, served = Pool(of("a"), size=4, write=True), list[str]()

    async def work() -> None:
        await take(pool)
        served.append("one")

    async with trio.open_nursery() as nursery, pool.connection() as only:
        servers.most = 1
        nursery.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0.5):
            await work()
        nursery.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        only.close()
    assert served == ["one", "one"]
    assert len(servers.sessions) == 2
    assert pool.statistics()["idle"] == 1


async def test_nobody_is_let_in(servers: Servers, autojump_clock: trio.testing.MockClock) -> None:
    full = servers.hosts["a"] = Full("Too many connections (1040)", 1040)
    pool = Pool(of("a"), size=4, write=True)
    with pytest.raises(Full):
        await take(pool)
    servers.hosts["a"] = "one"
    async with pool.connection():
        servers.hosts["a"] = full
        began = trio.current_time()
        with pytest.raises(Full):  # what there is stays in use
            await take(pool)
        assert trio.current_time() - began == 5


async def test_a_pool_that_has_none_gets_what_is_at_rest_in_another(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    hosts = of("a", "b")
    servers.read_only = {"two"}
    writers, readers = Pool(hosts, size=4, write=True), Pool(hosts, size=4, write=True)
    await take(writers)
    servers.most = 1
    async with readers.connection():
        assert writers.held == 0
        with pytest.raises(Full):
            await take(writers)
    await take(writers)
    assert readers.held == 0


@full
@pytest.mark.parametrize("most", [1, 2, 3])
async def test_pools_that_are_all_busy_share_the_few_sessions_that_the_server_lets_in(
    servers: Servers, autojump_clock: trio.testing.MockClock, most: int
) -> None:
    """A login takes its time, and so does the server until it takes a place for free."""
    hosts, served, seconds = of("a"), [0, 0, 0], tries(12, 60)
    pools = [Pool(hosts, size=4, write=True) for _ in served]

    async def answer_late() -> None:
        await trio.sleep(0.01)

    async def work(number: int) -> None:
        while trio.current_time() < seconds:
            async with pools[number].connection():
                await trio.sleep(0.003)
            served[number] += 1

    servers.most, servers.before_an_answer, servers.leaving = most, answer_late, 0.02
    await take(pools[0])
    await at_once(*(partial(work, number) for number in range(3) for _ in range(4)))
    assert min(served) > 25 * seconds * most
    # A session is handed over now and then, and where there is one for each pool each keeps its own.
    assert sum(pool.statistics()["made"] for pool in pools) < (6 * seconds if most < 3 else seconds)


async def test_sessions_in_use_are_hung_up_when_another_server_has_the_database(servers: Servers) -> None:
    """The one before may be gone without a word: who waits for its answer would wait for half a minute."""
    hosts = of("a", "b")
    pool = Pool(hosts, size=2, write=True)
    async with pool.connection() as held:
        servers.hosts["a"] = Unavailable("a is away")
        async with pool.connection() as new:
            assert held.closed
            assert not new.closed
    assert pool.held == 1


async def test_of_a_server_that_is_silent_one_session_is_waited_for(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    hosts = of("a", "b")
    servers.read_only = {"two"}
    pool = Pool(hosts, size=3, write=False)
    async with pool.connection(), pool.connection(), pool.connection():
        pass
    await trio.sleep(3)
    servers.asked.clear()
    servers.silent, servers.read_only, began = True, set(), trio.current_time()
    async with pool.connection() as connection:
        assert connection.name == "two"
    assert trio.current_time() - began == 3
    assert servers.asked == ["b"]
