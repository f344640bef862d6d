"""Stubs of the hosts of a DSN, as `hosts`, `pool` and `backend` see them."""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from tarry.store.errors import Full, Unavailable
from tarry.store.mysql.connection import GALERA, GROUP
from tarry.store.mysql.dsn import Dsn
from tarry.store.mysql.galera import STATES
from tarry.store.mysql.group import MEMBERS
from tarry.store.mysql.hosts import Hosts
from tarry.store.mysql.rows import Answer


class Session:
    """A stub of a connection, as `hosts` and `pool` see it."""

    def __init__(self, servers: "Servers", name: str, read_only: str | None) -> None:
        self.servers = servers
        self.name, self.read_only, self.era = name, read_only, 0
        self.closed = self.in_transaction = self.silent = False
        self.cluster = GROUP if name in servers.members else GALERA if name in servers.clusters else None
        self.gone_at = math.inf  # when the server has noticed that the client is gone
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
        if self.name in self.servers.frozen:
            await self.hung_up.wait()
            raise Unavailable("closed", 2006)
        if sql == MEMBERS:
            return self.servers.members[self.name]
        if sql == STATES:
            return self.servers.states(self.name)
        if sql.startswith(b"SHOW"):
            return []
        return [(1_000_000, int(self.name in self.servers.read_only), 0)]

    async def ask_all(self, statements: Sequence[bytes], *, write: bool) -> list[Answer]:
        del write
        answers = [Answer() for _ in statements]
        for answer, sql in zip(answers, statements, strict=True):
            answer.rows = await self.fetch(sql)
        return answers

    async def catch_up(self) -> None:
        """Does nothing: the server is up to date."""

    async def ping(self) -> None:
        if self.servers.silent:
            await trio.sleep_forever()

    def close(self) -> None:
        self.closed = True
        self.gone_at = min(self.gone_at, trio.current_time() + self.servers.leaving)
        self.hung_up.set()

    def is_stale(self) -> bool:
        return self.closed


class Servers:
    """The servers by host: the server's name, or the error of a login."""

    def __init__(self, **hosts: str | Exception) -> None:
        self.hosts = hosts
        self.read_only: set[str] = set()
        self.foreign: set[str] = set()
        self.clusters: dict[str, str] = {}
        """The clusters of servers that are Galera nodes."""
        self.cut_off: set[str] = set()
        """Galera nodes that have no majority."""
        self.members: dict[str, list[tuple[int, str]]] = {}
        """The members of the replication groups of servers that are in one, as `group.MEMBERS` returns them."""
        self.asked: list[str] = []
        self.sessions: list[Session] = []
        self.wrote: list[str] = []
        self.frozen: set[str] = set()
        self.most = 100
        self.leaving = 0.0
        self.silent = False
        self.before_an_answer: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint

    def states(self, name: str) -> list[tuple[str, str]]:
        """The states of a node, as `galera.STATES` returns them."""
        ready, status = ("OFF", "non-Primary") if name in self.cut_off else ("ON", "Primary")
        uuid = ("wsrep_cluster_state_uuid", self.clusters[name])
        return [("wsrep_ready", ready), ("wsrep_cluster_status", status), uuid]

    async def connect(self, dsn: Dsn, *, write: bool, timeout: float) -> Any:
        assert dsn.others == ()
        del write, timeout
        self.asked.append(dsn.host)
        await self.before_an_answer()
        answer = self.hosts[dsn.host]
        if isinstance(answer, Exception):
            raise answer
        if (
            sum(trio.current_time() < session.gone_at for session in self.sessions) >= self.most
            and answer not in self.read_only
        ):
            raise Full("Too many connections (1040)", 1040)
        session = Session(self, answer, "it is read-only" if answer in self.read_only else None)
        self.sessions.append(session)
        return session


def of(*hosts: str) -> Hosts:
    return Hosts(Dsn.parse(f"mysql://u:geheim@{','.join(hosts)}/d"))
