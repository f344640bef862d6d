"""The backend when another server has the database, or the one that has it does not answer."""

import math

import pytest
import trio
import trio.testing

from support.scripted_hosts import Servers
from tarry.store.errors import ReadOnly, Unavailable
from tarry.store.mysql.backend import MySQLBackend
from tarry.store.ports import Transaction


async def nothing(_: Transaction) -> None:
    """Writes nothing."""


def backend_of(*hosts: str) -> MySQLBackend:
    backend = MySQLBackend(f"mysql://u@{','.join(hosts)}/d")
    backend._forget_at = math.inf
    return backend


async def test_nothing_is_written_to_another_server_before_it_is_admitted(servers: Servers) -> None:
    backend = backend_of("a", "b")
    await backend.write(nothing)
    backend.admit("one")
    await backend.write(nothing)
    servers.hosts["a"] = Unavailable("a is away")
    backend._hosts.leave()
    assert await backend.now() == 1000
    assert backend.server == "two"
    for _ in range(3):
        with pytest.raises(Unavailable, match="read again"):
            await backend.write(nothing)
    await backend.note(nothing)
    await backend.read(nothing)
    backend.admit("two")
    await backend.write(nothing)
    assert servers.wrote == ["one", "one", "two"]


async def test_the_session_that_finds_another_server_is_kept(servers: Servers) -> None:
    backend = backend_of("a", "b")
    await backend.write(nothing)
    servers.hosts["a"] = Unavailable("a is away")
    backend._hosts.leave()
    with pytest.raises(Unavailable, match="another server"):
        await backend.write(nothing)
    asked = len(servers.asked)
    await backend.write(nothing)
    assert servers.wrote == ["one", "two"]
    assert len(servers.asked) == asked


async def ask_for_the_time(backend: MySQLBackend, answers: list[Exception | int]) -> None:
    try:
        answers.append(await backend.now())
    except Unavailable as error:
        answers.append(error)


async def test_the_clock_finds_out_that_no_session_is_answered(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    """All sessions of the readers, used a moment ago, wait for a server that neither answers nor hangs up."""
    servers.read_only = {"two"}
    backend, answers = backend_of("a", "b"), list[Exception | int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_for_the_time, backend, answers)
        await trio.testing.wait_all_tasks_blocked()
        servers.frozen = {"one"}
        for _ in range(8):
            nursery.start_soon(ask_for_the_time, backend, answers)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == [1000]
        servers.hosts["a"], servers.read_only = Unavailable("no answer within 3 s"), set()
        began = trio.current_time()
        assert await backend.exact_now() == 1000
        assert trio.current_time() - began == 3
        assert backend.server == "two"
    assert len(answers) == 9
    assert all(isinstance(answer, Unavailable) for answer in answers[1:])


async def test_one_server_that_lets_in_and_does_not_answer(
    servers: Servers, autojump_clock: trio.testing.MockClock
) -> None:
    servers.frozen, began = {"one"}, trio.current_time()
    with pytest.raises(Unavailable, match="does not answer"):
        await backend_of("a").exact_now()
    assert trio.current_time() - began == 10
    assert all(session.closed for session in servers.sessions)


async def test_a_second_server_that_takes_writes_is_found_with_one_login_a_look(servers: Servers) -> None:
    backend = backend_of("a", "b", "c")
    servers.read_only = {"two"}
    await backend.write(nothing)
    await backend.now()
    servers.asked.clear()
    assert await backend.rivals() == []
    assert await backend.rivals() == ["c:3306"]
    assert await backend.rivals() == ["c:3306"]
    assert servers.asked == ["b", "c", "b"]
    assert all(session.closed for session in servers.sessions if session.name != "one")
    servers.read_only = {"three"}
    assert await backend.rivals() == []
    assert await backend_of("a").rivals() == []


async def test_the_nodes_of_a_cluster_are_no_second_servers(servers: Servers) -> None:
    """All of a Galera take writes, and have one database."""
    backend = backend_of("a", "b", "c")
    servers.clusters = {"one": "f59564f7", "two": "f59564f7", "three": "another"}
    await backend.now()
    assert await backend.rivals() == []
    assert await backend.rivals() == ["c:3306"]
    servers.hosts["a"] = Unavailable("a does not answer just now")
    servers.clusters["three"] = "f59564f7"
    assert await backend.rivals() == ["c:3306"]
    assert await backend.rivals() == [], "nor are they while ours cannot be asked"


async def test_a_change_of_the_server_is_no_second_one(servers: Servers) -> None:
    backend = backend_of("a", "b")
    servers.read_only = {"two"}
    await backend.write(nothing)
    await backend.now()

    async def hand_over() -> None:
        await trio.lowlevel.checkpoint()
        servers.read_only = {"one"}

    servers.before_an_answer = hand_over
    assert await backend.rivals() == []
    assert await backend.rivals() == []
    assert await backend.now() == 1000
    assert backend.server == "two"
    assert await backend.rivals() == []


async def test_what_was_found_before_a_change_of_the_server_is_forgotten(servers: Servers) -> None:
    backend = backend_of("a", "b", "c")
    servers.read_only = {"three"}
    await backend.now()
    assert await backend.rivals() == ["b:3306"]
    for without, server in (({"one", "three"}, "two"), ({"two", "three"}, "one")):
        servers.read_only = without
        with pytest.raises(ReadOnly):
            await backend.now()
        await backend.now()
        assert backend.server == server
    servers.asked.clear()
    assert await backend.rivals() == []
    assert servers.asked == ["c"], "b was not looked at again"


async def test_one_server_under_two_names_is_no_second_one(servers: Servers) -> None:
    servers.hosts["b"] = "one"
    backend = backend_of("a", "b")
    await backend.write(nothing)
    assert await backend.rivals() == []


async def test_a_server_whose_group_lost_its_majority_is_left_and_nobody_waits_there(servers: Servers) -> None:
    """A COMMIT that waits for the majority may wait for ever."""
    servers.members["one"] = [(1, "ONLINE"), (0, "ONLINE"), (0, "ONLINE")]
    backend = backend_of("a", "b")
    await backend.write(nothing)
    await backend.now()
    ended = trio.Event()

    async def wait_at_commit(_: Transaction) -> None:
        (session,) = (one for one in servers.sessions if one.in_transaction)
        await session.hung_up.wait()
        raise Unavailable("the connection was lost", 2013)

    async def write() -> None:
        with pytest.raises(Unavailable):
            await backend.write(wait_at_commit)
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        servers.members["one"] = [(1, "ONLINE"), (0, "UNREACHABLE"), (0, "UNREACHABLE")]
        servers.hosts["a"] = ReadOnly("its group has no majority")
        with pytest.raises(ReadOnly, match="no majority: of 3 members it reaches 1"):
            await backend.now()
        await ended.wait()
    with pytest.raises(Unavailable, match="another server"):
        await backend.write(nothing)
    await backend.write(nothing)
    assert servers.wrote[-1] == "two"


async def test_a_node_of_a_galera_that_lost_the_majority_is_left(servers: Servers) -> None:
    """It goes on telling the time."""
    servers.clusters = {"one": "f59564f7", "two": "f59564f7"}
    backend = backend_of("a", "b")
    await backend.write(nothing)
    await backend.now()
    servers.cut_off = {"one"}
    servers.hosts["a"] = ReadOnly("its Galera has no majority here")
    with pytest.raises(ReadOnly, match="no majority here"):
        await backend.now()
    assert await backend.now() == 1000
    assert backend.server == "two"
