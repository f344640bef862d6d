"""Which host a session is with: the one that was good last, else the first that takes writes."""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from tarry.store.errors import Full, ReadOnly, Refused, Unavailable
from tarry.store.mysql import hosts as module
from tarry.store.mysql.backend import MySQLBackend, MySQLTransaction
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.hosts import Hosts
from tarry.store.mysql.pool import Pool
from tarry.store.mysql.read_only import why_read_only


class Session:
    """What `hosts` and `pool` see of a connection."""

    def __init__(self, servers: "Servers", name: str, read_only: str | None) -> None:
        self.servers = servers
        self.name, self.read_only, self.era = name, read_only, 0
        self.closed = self.in_transaction = False
        self.number = 1
        self.hung_up = trio.Event()

    async def begin(self) -> None:
        self.in_transaction = True

    async def commit(self, statements: Sequence[bytes]) -> list[Any]:
        self.in_transaction = False
        self.servers.wrote.append(self.name)
        return [None for _ in statements]

    async def rollback(self) -> None:
        self.in_transaction = False

    async def fetch(self, sql: bytes) -> list[Any]:
        del sql
        if self.name in self.servers.frozen:
            await self.hung_up.wait()
            raise Unavailable("closed", 2006)
        return [(1_000_000, 0, 0)]

    async def ping(self) -> None:
        if self.servers.silent:
            await trio.sleep_forever()

    def close(self) -> None:
        self.closed = True
        self.hung_up.set()

    def is_stale(self) -> bool:
        return self.closed


class Servers:
    """By host: the server's name, or why it does not let in."""

    def __init__(self, **hosts: str | Exception) -> None:
        self.hosts = hosts
        self.read_only: set[str] = set()
        self.asked: list[str] = []
        self.sessions: list[Session] = []
        self.wrote: list[str] = []
        self.frozen: set[str] = set()
        self.most = 100
        self.silent = False
        self.before_an_answer: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    async def connect(self, dsn: Dsn, *, write: bool, timeout: float) -> Any:
        assert dsn.others == ()
        del write, timeout
        self.asked.append(dsn.host)
        await self.before_an_answer()
        answer = self.hosts[dsn.host]
        if isinstance(answer, Exception):
            raise answer
        if sum(not session.closed for session in self.sessions) >= self.most and answer not in self.read_only:
            raise Full("Too many connections (1040)", 1040)
        session = Session(self, answer, "it is read-only" if answer in self.read_only else None)
        self.sessions.append(session)
        return session


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers(a="one", b="two", c="three")
    monkeypatch.setattr(module, "connect", servers.connect)
    return servers


def of(*hosts: str) -> Hosts:
    return Hosts(Dsn.parse(f"mysql://u:geheim@{','.join(hosts)}/d"))


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
    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(work, number)
    assert served == list(range(30))
    assert trio.current_time() < 1.6
    assert len(servers.asked) <= 5
    servers.most, servers.asked[:] = 16, []
    await trio.sleep(1)
    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(work, number)
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


async def take(pool: Pool) -> None:
    async with pool.connection():
        pass


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


async def test_a_look_at_each(servers: Servers) -> None:
    servers.read_only = {"two"}
    servers.hosts["c"] = Unavailable("c is away")
    assert await module.look_at_each(Dsn.parse("mysql://u@a,b,c/d")) == [
        ("a:3306", None),
        ("b:3306", "it is read-only"),
        ("c:3306", "c is away"),
    ]


async def nothing(_: MySQLTransaction) -> None:
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
    assert await backend.now() == 1_000_000
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
        assert answers == [1_000_000]
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
