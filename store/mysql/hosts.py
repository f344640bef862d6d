"""Finds the one of the DSN's hosts that takes writes, and makes all sessions use it.

A new session tries the host that was good last, then the others as they are listed, each for a bounded time, and stays
with the first that is not read-only. From then on all sessions are with that host: those of an earlier `era` are closed
by their holders. So are all sessions when their server says that it takes no writes any more.

When it is another server than before, it is checked first: a server without the same database is not used.
"""

import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager
from copy import copy
from typing import Protocol

import attrs
import structlog
import trio

from ..errors import Contention, Foreign, Full, ReadOnly, StoreError, Unavailable
from . import galera
from .connection import GALERA, Connection, connect
from .dsn import Dsn
from .group import ServerGroup, describe

_PATIENCE = 5.0
_EACH = 3.0
"""Seconds for the login at a host; the second value where there are several hosts."""
_REST = 0.2
"""Seconds for which the last failure is raised again, before the hosts are tried again."""

_LEAVING = 1.0
"""Seconds until the server counts the place of a closed session as free."""
_IN_TURN = 0.2
"""Seconds that a pool waits without a session before another pool gives up one that is in use."""

_LOGINS = 3
"""How many logins are made at a host to look at it: a balancer in front of several servers leads to another by then."""

log = structlog.get_logger()


class Sessions(Protocol):
    """The sessions of a pool."""

    @property
    def held(self) -> int:
        """How many sessions there are."""
        ...

    def spare(self) -> bool:
        """Closes an idle session, if there is one."""
        ...

    def hang_up(self, name: str) -> None:
        """Closes the sessions that are not with this server."""
        ...


class Hosts:
    """The hosts of one DSN, for all pools of one backend."""

    def __init__(self, dsn: Dsn, *, timeout: float | None = None) -> None:
        """`timeout`: seconds for the login at a host."""
        self.dsn = dsn
        self.timeout = timeout or (_EACH if dsn.others else _PATIENCE)
        self.era = 0
        """Counts the changes of the server; sessions of an earlier era must not be used."""
        self.name = ""
        """The name of the server that the sessions are with, see `Connection.name`; empty before the first."""
        self.check: Callable[[Connection], Awaitable[None]] | None = None
        """Checks a session with another server than before; raises `Foreign`. None: it is not known yet which database
        the server must have."""
        self.settle: Callable[[Connection], Awaitable[str | None]] | None = None
        """Called with a session at another node of a Galera: returns the node that has the writes instead, see
        `one_writer`."""
        self.in_galera = False
        """Whether the server that the sessions are with is a node of a Galera."""
        self._gave_way = False  # to another node of the Galera, at which others write
        self._before = ""  # the name of the server before
        self.pools: list[Sessions] = []
        # Callers that found no session in their pool, and since when; the time at which a session was last closed.
        self._wanting, self._one_less_at = list[tuple[Sessions, float]](), -math.inf
        self._each = dsn.each
        # The host that was good last, and the host that is tried first: another one when the good one did not answer.
        self._good = self._first = 0
        # Why no host was good at the last try. Then one caller at a time tries, and the others get its result.
        self._fault: StoreError | None = None
        self._turn = trio.Lock()
        # What was logged about hosts that have another database, since a host was good.
        self._foreign: set[str] = set()
        # For `look_aside`: the host that it looked at last, and the hosts where another server took writes.
        self._aside, self._rivals = 0, set[str]()
        self._again_at = 0.0
        # The server that was left, and until when it is refused: its variables may not show that it takes no writes.
        self._left, self._left_until = "", 0.0

    async def connect(self, *, write: bool) -> Connection:
        """A new session with the host that takes writes. Raises `ReadOnly` when a host can be reached but takes no
        writes, another `StoreError` when none can be reached; for several hosts the text gives the reason of each."""
        if self._fault is None:
            return await self._try_each(write=write)
        async with self._turn:
            if (fault := self._found_just_now()) is not None:
                raise type(fault)(str(fault), fault.code)
            return await self._try_each(write=write)

    def _found_just_now(self) -> StoreError | None:
        return self._fault if trio.current_time() < self._again_at else None

    async def _try_each(self, *, write: bool) -> Connection:
        wrong: list[StoreError] = []
        first, name = self._first, self.name
        for number in (first, *(n for n in range(len(self._each)) if n != first)):
            try:
                connection = await self._log_in(self._each[number], write=write)
                if connection.cluster is GALERA and self.name not in (name, connection.name):
                    connection.close()  # meanwhile another session has found a node, and all sessions must use the same
                    return await self._try_each(write=write)
                return self._with(number, connection)
            except StoreError as error:
                wrong.append(error)
                if number == first:
                    self._first = (number + 1) % len(self._each)
        fault = _of_all(wrong)
        if not isinstance(fault, Full):  # then open sessions may work all the same
            self._fault, self._again_at = fault, trio.current_time() + _REST
        raise fault

    def leave(self) -> None:
        """Gives up the server, since it takes no writes: no session is used any more, and the next login looks for a
        host that takes them. Where there are several hosts it begins behind this one, which is refused for `_REST`
        seconds."""
        self.era += 1
        if self.dsn.others:
            self._first = (self._good + 1) % len(self._each)
            self._left, self._left_until = self.name, trio.current_time() + _REST

    def give_way(self) -> None:
        """Leaves this node of the Galera, since another one has the writes: from now on only that one is good."""
        self._gave_way = True
        self.leave()

    def cut_off(self) -> None:
        """Leaves the server and closes all sessions, with every COMMIT that waits there, since its group can commit
        nothing."""
        self.leave()
        for pool in self.pools:
            pool.hang_up("")

    def note_silence(self) -> None:
        """Called when a session got no answer in time. Where there are other hosts, no idle session is used any more,
        and the other hosts are tried first: otherwise callers would wait for one silent session after the other."""
        if self.dsn.others:
            self.era += 1
            self._first = (self._good + 1) % len(self._each)

    async def look_aside(self) -> bool:
        """Looks at one of the hosts that the sessions are not with, the next one each time. Returns whether another
        server takes writes there. Costs a login."""
        aside = [number for number in range(len(self._each)) if number != self._good]
        self._aside = next((number for number in aside if number > self._aside), aside[0])
        found, place = await look_at(self._each[self._aside]), self._each[self._aside].place
        takes_writes = found.why is None and self.name not in found.names
        if takes_writes and found.cluster:
            # That is no rival if it belongs to the same cluster, whose nodes all get what one of them commits.
            good = await look_at(self._each[self._good])
            takes_writes = good.why is None and found.cluster != good.cluster
        (self._rivals.add if takes_writes else self._rivals.discard)(place)
        return takes_writes

    @property
    def rivals(self) -> list[str]:
        """The hosts at which `look_aside` has found another server that also takes writes."""
        return sorted(self._rivals - {self._each[self._good].place})

    def forget_rivals(self) -> None:
        """Forgets the rivals found so far, which may have been seen during a change of the server."""
        self._rivals.clear()

    def make_room(self) -> bool:
        """Called when the server accepts no more sessions: makes one of the pools close an idle session. Returns False
        when no pool has a session, idle or in use, or had one a moment ago."""
        for pool in self.pools:
            if pool.spare():
                return True
        if any(pool.held for pool in self.pools):
            return True
        # Two pools may close each other's sessions before the server notices; or a third one is logging in meanwhile.
        return trio.current_time() < self._one_less_at + _LEAVING

    def note_one_less(self) -> None:
        """Notes that a pool has closed a session."""
        self._one_less_at = trio.current_time()

    @contextmanager
    def wanting(self, pool: Sessions, since: float) -> Generator[None, None, None]:
        """Notes, inside its block, that a caller waits in a pool without sessions while the server accepts no more."""
        self._wanting.append((pool, since))
        try:
            yield
        finally:
            self._wanting.remove((pool, since))

    def is_one_wanted(self, by_another_than: Sessions) -> bool:
        """Whether a returned session is to be closed, to make room for a pool that has been without one for long."""
        if not self._wanting:  # this runs after each use of a session
            return False
        now = trio.current_time()
        # One at a time: a waiting caller may not have used the last room yet. A pool that has a session needs no more.
        return now > self._one_less_at + _IN_TURN and any(
            now > since + _IN_TURN and not pool.held and pool is not by_another_than for pool, since in self._wanting
        )

    async def _log_in(self, dsn: Dsn, *, write: bool) -> Connection:
        connection = await connect(dsn, write=write, timeout=self.timeout)
        try:
            await self._judge(connection, dsn)
        except BaseException as error:
            connection.close()
            if isinstance(error, StoreError):
                error.args = (f"{dsn}: {error}",)
            raise
        return connection

    async def _judge(self, connection: Connection, dsn: Dsn) -> None:
        """Raises `StoreError` if this session must not be used."""
        if connection.read_only is not None:
            raise ReadOnly(connection.read_only)
        if connection.name == self._left and trio.current_time() < self._left_until:
            raise ReadOnly("it has just refused to write")
        if self.name == connection.name and not self._gave_way:
            return
        try:
            with trio.fail_after(self.timeout):
                if connection.cluster is GALERA:
                    await self._judge_node(connection)
                if self.name and self.check is not None:
                    await self.check(connection)
        except trio.TooSlowError as error:
            raise Unavailable(f"no answer within {self.timeout:g} s", 2013) from error
        except Foreign as error:
            because = str(error)
            if because not in self._foreign:
                self._foreign.add(because)
                log.error("store_host_refused", host=dsn.place, because=because)
            raise

    async def _judge_node(self, connection: Connection) -> None:
        await connection.catch_up()
        if self.settle is not None and (other := await self.settle(connection)) is not None:
            raise ReadOnly(f"Tarry writes to another node of its Galera ({other}), and to one at a time")

    def _with(self, number: int, connection: Connection) -> Connection:
        if connection.name != self.name:
            if self.name:
                self.era += 1
                because = "it takes the writes; what is in memory is read again"
                if number == self._good and connection.name == self._before:
                    because = "this host leads to several servers in turn: it must lead to one at a time"
                self._tell(number, because)
            elif number and structlog.is_configured():  # in a command this would spoil the output
                self._tell(number, "it takes the writes, and those before it do not")
            self._before, self.name = self.name, connection.name
            self.forget_rivals()
            for pool in self.pools:
                pool.hang_up(self.name)
        self._good = self._first = number
        self._gave_way, self.in_galera = False, connection.cluster is GALERA
        self._fault = None
        self._foreign.clear()
        connection.era = self.era
        return connection

    def _tell(self, number: int, because: str) -> None:
        before, now = self._each[self._good].place, self._each[number].place
        log.warning("store_host", before=before, now=now, because=because)


def _of_all(wrong: list[StoreError]) -> StoreError:
    """The error that tells why no host is good; of a kind for which waiting may help, if it may help at one of them."""
    if len(wrong) == 1:
        return wrong[0]
    text = f"none of the {len(wrong)} hosts takes writes. {'; '.join(map(str, wrong))}"
    kinds = (Full, ReadOnly, Foreign, Unavailable, Contention)
    told = copy(next((error for kind in kinds for error in wrong if isinstance(error, kind)), wrong[0]))
    told.args = (text,)
    return told


@attrs.frozen
class Looked:
    """What was found at one host."""

    place: str
    names: frozenset[str] = frozenset()
    """The names of the servers that the host leads to, see `Connection.name`; empty if no login worked."""
    why: StoreError | None = None
    """Why it takes no writes: `ReadOnly`, or the error of the login. None: it takes them."""
    group: ServerGroup | None = None
    """The replication group or the Galera that it belongs to."""

    @property
    def cluster(self) -> str:
        """The name of its cluster, if all servers of that take writes to one database; else empty."""
        return self.group.name if self.group is not None and self.group.several_primaries else ""


async def look_at_each(dsn: Dsn) -> list[Looked]:
    """Logs in at each host a few times, since a host may lead to several servers in turn."""
    return [await look_at(one, logins=_LOGINS) for one in dsn.each]


async def look_at(dsn: Dsn, *, logins: int = 1) -> Looked:
    """Logs in at one host this many times, and returns what was found."""
    names = set[str]()
    why: StoreError | None = None
    group: ServerGroup | None = None
    writes = False
    for _ in range(logins):
        try:
            connection = await connect(dsn, write=False, timeout=_EACH)
            with closing(connection):
                group = group or await _describe(connection)
        except StoreError as error:
            why = error
            break
        names.add(connection.name)
        if connection.read_only is None:
            writes = True
        else:
            why = ReadOnly(connection.read_only)
    return Looked(dsn.place, frozenset(names), None if writes else why, group)


async def _describe(connection: Connection) -> ServerGroup | None:
    if connection.cluster is GALERA:
        return galera.describe(await connection.fetch(galera.STATES))
    return await describe(connection)
