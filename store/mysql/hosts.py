"""Which of the DSN's hosts a server's sessions are with: the one that takes writes.

A new session tries the host that was good last, then the others as they are listed, each for a bounded time, and stays
with the first that is not read-only. From then on all sessions are with that one: those of an `era` that is over are
given up by whoever holds them. So is every session when the server it is with says that it takes no writes any more.

Another server than the one before is looked at first: what has not the same database is left alone.
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
from .group import Group, describe

_PATIENCE = 5.0
_EACH = 3.0
"""Seconds for a host to let a session in; the second where there are several."""
_REST = 0.2
"""Seconds for which all hear why no host is good, before the hosts are asked again."""

_LEAVING = 1.0
"""Seconds for the server to take the place of a session that was closed for free."""
_IN_TURN = 0.2
"""Seconds that a pool goes without a session before another gives up one that is in use."""

_LOGINS = 3
"""By a look at a host: a balancer in front of several servers has led to another by then."""

log = structlog.get_logger()


class Sessions(Protocol):
    """What a pool holds."""

    @property
    def held(self) -> int:
        """How many there are."""
        ...

    def spare(self) -> bool:
        """Closes one that is at rest, if there is one."""
        ...

    def hang_up(self, name: str) -> None:
        """Closes those that are not with this server."""
        ...


class Hosts:
    """Those of one DSN, for all pools of one backend."""

    def __init__(self, dsn: Dsn, *, timeout: float | None = None) -> None:
        """`timeout`: seconds for a host to let a session in."""
        self.dsn = dsn
        self.timeout = timeout or (_EACH if dsn.others else _PATIENCE)
        self.era = 0
        """A session of an earlier one is not to be used."""
        self.name = ""
        """Of the server that the sessions are with, see `Connection.name`; empty before the first."""
        self.check: Callable[[Connection], Awaitable[None]] = _take_any
        """Asked of a session with another server than the one before; raises `Foreign`."""
        self.settle: Callable[[Connection], Awaitable[str | None]] = _none
        """Asked of a session with another node of a Galera: which node has the writes instead, see `one_writer`."""
        self.in_galera = False
        """Whether the server that the sessions are with is a node of one."""
        self._gave_way = False  # to another node of it, at which others write
        self._before = ""  # the name of the one before
        self.pools: list[Sessions] = []
        # The callers that found no session in their pool, and since when; when one was last closed.
        self._wanting, self._one_less_at = list[tuple[Sessions, float]](), -math.inf
        self._each = dsn.each
        # Which of them was good last, and which is asked first: another, when that one did not answer.
        self._good = self._first = 0
        # Why none was good at the last look; then one at a time looks, and the others hear what it has found.
        self._fault: StoreError | None = None
        self._turn = trio.Lock()
        # What was told of hosts that have another database, since one was good.
        self._foreign: set[str] = set()
        # Of `look_aside`: which host it has looked at last, and where another server took writes.
        self._aside, self._rivals = 0, set[str]()
        self._again_at = 0.0
        # The server that was left, as its variables may say nothing of why it takes no writes; and until when.
        self._left, self._left_until = "", 0.0

    async def connect(self, *, write: bool) -> Connection:
        """A new session with the host that takes writes. Raises `ReadOnly` when one is there that does not, another
        `StoreError` when none is there; of several hosts the text tells why it is none of them."""
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
                    connection.close()  # meanwhile another session has found one, which would have done as well
                    return await self._try_each(write=write)
                return self._with(number, connection)
            except StoreError as error:
                wrong.append(error)
                if number == first:
                    self._first = (number + 1) % len(self._each)
        fault = _of_all(wrong)
        if not isinstance(fault, Full):  # which says nothing of those who have a session
            self._fault, self._again_at = fault, trio.current_time() + _REST
        raise fault

    def leave(self) -> None:
        """The server takes no writes: no session is used any more, and the next one looks for a host that does. Where
        there are several it begins behind this one, and all rest when it comes back to it."""
        self.era += 1
        if self.dsn.others:
            self._first = (self._good + 1) % len(self._each)
            self._left, self._left_until = self.name, trio.current_time() + _REST

    def give_way(self) -> None:
        """Another node of the Galera has the writes: from now on only that one is good."""
        self._gave_way = True
        self.leave()

    def cut_off(self) -> None:
        """The server's group can commit nothing: it is left, and so is every COMMIT that waits there."""
        self.leave()
        for pool in self.pools:
            pool.hang_up("")

    def note_silence(self) -> None:
        """A session at rest got no answer, or one in use got none in time. Where there are other hosts no session that
        is at rest is used any more, and these are asked first: else one after the other would be waited for."""
        if self.dsn.others:
            self.era += 1
            self._first = (self._good + 1) % len(self._each)

    async def look_aside(self) -> bool:
        """Looks at one of the hosts that the sessions are not with, the next one each time; whether another server
        takes writes there. Costs a login."""
        aside = [number for number in range(len(self._each)) if number != self._good]
        self._aside = next((number for number in aside if number > self._aside), aside[0])
        found, place = await look_at(self._each[self._aside]), self._each[self._aside].place
        takes_writes = found.why is None and self.name not in found.names
        if takes_writes and found.cluster:
            # All nodes of it have what is written to one of them.
            good = await look_at(self._each[self._good])
            takes_writes = good.why is None and found.cluster != good.cluster
        (self._rivals.add if takes_writes else self._rivals.discard)(place)
        return takes_writes

    @property
    def rivals(self) -> list[str]:
        """The hosts at which `look_aside` has found another server that takes writes, too."""
        return sorted(self._rivals - {self._each[self._good].place})

    def forget_rivals(self) -> None:
        """It may have been a change of the server."""
        self._rivals.clear()

    def make_room(self) -> bool:
        """Where the server lets in no more: one of the pools closes a session that is at rest. False: there is none,
        at rest or in use, nor was there a moment ago."""
        for pool in self.pools:
            if pool.spare():
                return True
        if any(pool.held for pool in self.pools):
            return True
        # Two pools close each other's, and the server has not noticed yet; or a third one is logging in meanwhile.
        return trio.current_time() < self._one_less_at + _LEAVING

    def note_one_less(self) -> None:
        """A session of a pool is closed."""
        self._one_less_at = trio.current_time()

    @contextmanager
    def wanting(self, pool: Sessions, since: float) -> Generator[None, None, None]:
        """For a caller in a pool without a session, where the server lets in no more."""
        self._wanting.append((pool, since))
        try:
            yield
        finally:
            self._wanting.remove((pool, since))

    def is_one_wanted(self, by_another_than: Sessions) -> bool:
        """Whether a session that comes back is to be closed, for a pool that has had none for long."""
        if not self._wanting:  # this is asked after each use of a session
            return False
        now = trio.current_time()
        # One at a time: whoever wants one may not have found the last yet. A pool that has got one serves its callers.
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
        """Raises `StoreError` where it is not one to be used."""
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
                if self.name:
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
        if (other := await self.settle(connection)) is not None:
            raise ReadOnly(f"Tarry writes to another node of its Galera ({other}), and to one at a time")

    def _with(self, number: int, connection: Connection) -> Connection:
        if connection.name != self.name:
            if self.name:
                self.era += 1
                because = "it takes the writes; what is in memory is read again"
                if number == self._good and connection.name == self._before:
                    because = "this host leads to several servers in turn: it must lead to one at a time"
                self._tell(number, because)
            elif number and structlog.is_configured():  # a command's output is not for this
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


async def _take_any(_: Connection) -> None:
    """Nothing is known that it should have."""


async def _none(_: Connection) -> None:
    """Nobody else writes."""


def _of_all(wrong: list[StoreError]) -> StoreError:
    """Why no host is good: waiting may help, if it may at one of them."""
    if len(wrong) == 1:
        return wrong[0]
    text = f"none of the {len(wrong)} hosts takes writes. {'; '.join(map(str, wrong))}"
    kinds = (Full, ReadOnly, Foreign, Unavailable, Contention)
    told = copy(next((error for kind in kinds for error in wrong if isinstance(error, kind)), wrong[0]))
    told.args = (text,)
    return told


@attrs.frozen
class Looked:
    """What is found at one host."""

    place: str
    names: frozenset[str] = frozenset()
    """Of the servers that it leads to, see `Connection.name`; of none where nobody gets in."""
    why: StoreError | None = None
    """Why it takes no writes: it is `ReadOnly`, or nobody gets in. None: it takes them."""
    group: Group | None = None
    """That it is a member of, or its Galera."""

    @property
    def cluster(self) -> str:
        """Of the servers that all take writes, and have one database; empty for a server alone."""
        return self.group.name if self.group is not None and self.group.several_primaries else ""


async def look_at_each(dsn: Dsn) -> list[Looked]:
    """Logs in at each host, a few times: it may lead to one server now and to another then."""
    return [await look_at(one, logins=_LOGINS) for one in dsn.each]


async def look_at(dsn: Dsn, *, logins: int = 1) -> Looked:
    """Logs in at one host, so many times."""
    names = set[str]()
    why: StoreError | None = None
    group: Group | None = None
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


async def _describe(connection: Connection) -> Group | None:
    if connection.cluster is GALERA:
        return galera.describe(await connection.fetch(galera.STATES))
    return await describe(connection)
