"""Which of the DSN's hosts a server's sessions are with: the one that takes writes.

A new session tries the host that was good last, then the others as they are listed, each for a bounded time, and stays
with the first that is not read-only. From then on all sessions are with that one: those of an `era` that is over are
given up by whoever holds them. So is every session when the server it is with says that it takes no writes any more.
"""

from typing import Protocol

import attrs
import structlog
import trio

from ..errors import Contention, Full, ReadOnly, StoreError, Unavailable
from .connection import Connection, connect
from .dsn import Dsn

_PATIENCE = 5.0
_EACH = 3.0
"""Seconds for a host to let a session in; the second where there are several."""
_REST = 0.2
"""Seconds for which all hear that no host takes writes, before the hosts are asked again."""

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
        self._before = ""  # the name of the one before
        self.pools: list[Sessions] = []
        self._each = dsn.each
        # Which of them was good last, and which is asked first: another, when that one did not answer.
        self._good = self._first = 0
        self._refused: ReadOnly | None = None
        self._again_at = 0.0
        # The server that was left, as its variables may say nothing of why it takes no writes; and until when.
        self._left, self._left_until = "", 0.0

    async def connect(self, *, write: bool) -> Connection:
        """A new session with the host that takes writes. Raises `ReadOnly` when one is there that does not, another
        `StoreError` when none is there; of several hosts the text tells why it is none of them."""
        if self._refused is not None and trio.current_time() < self._again_at:
            raise ReadOnly(str(self._refused), self._refused.code)
        wrong: list[StoreError] = []
        first = self._first
        for number in (first, *(n for n in range(len(self._each)) if n != first)):
            try:
                return self._with(number, await self._log_in(self._each[number], write=write))
            except StoreError as error:
                wrong.append(error)
                if number == first:
                    self._first = (number + 1) % len(self._each)
        fault = _of_all(wrong)
        if isinstance(fault, ReadOnly):
            self._refused, self._again_at = fault, trio.current_time() + _REST
        raise fault

    def leave(self) -> None:
        """The server takes no writes: no session is used any more, and the next one looks for a host that does. Where
        there are several it begins behind this one, and all rest when it comes back to it."""
        self.era += 1
        if self.dsn.others:
            self._first = (self._good + 1) % len(self._each)
            self._left, self._left_until = self.name, trio.current_time() + _REST

    def note_silence(self) -> None:
        """A session at rest got no answer. Where there are other hosts no session is used any more that is at rest, and
        these are asked first: one after the other would be waited for else."""
        if self.dsn.others:
            self.era += 1
            self._first = (self._good + 1) % len(self._each)

    def make_room(self) -> bool:
        """Where the server lets in no more: one of the pools closes a session that is at rest. False: all have none."""
        for pool in self.pools:
            if pool.spare():
                return True
        return any(pool.held for pool in self.pools)

    async def _log_in(self, dsn: Dsn, *, write: bool) -> Connection:
        connection = await connect(dsn, write=write, timeout=self.timeout)
        if connection.read_only is not None:
            connection.close()
            raise ReadOnly(f"{dsn}: {connection.read_only}")
        if connection.name == self._left and trio.current_time() < self._left_until:
            connection.close()
            raise ReadOnly(f"{dsn}: it has just refused to write")
        return connection

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
            for pool in self.pools:
                pool.hang_up(self.name)
        self._good = self._first = number
        self._refused = None
        connection.era = self.era
        return connection

    def _tell(self, number: int, because: str) -> None:
        before, now = self._each[self._good].place, self._each[number].place
        log.warning("store_host", before=before, now=now, because=because)


def _of_all(wrong: list[StoreError]) -> StoreError:
    """Why no host is good: waiting may help, if it may at one of them."""
    if len(wrong) == 1:
        return wrong[0]
    text = f"none of the {len(wrong)} hosts takes writes. {'; '.join(map(str, wrong))}"
    for kind in (Full, ReadOnly, Unavailable, Contention):
        for error in wrong:
            if isinstance(error, kind):
                return type(error)(text, error.code)
    return type(wrong[0])(text, wrong[0].code)


@attrs.frozen
class Looked:
    """What is found at one host."""

    place: str
    names: frozenset[str] = frozenset()
    """Of the servers that it leads to, see `Connection.name`; of none where nobody gets in."""
    why: StoreError | None = None
    """Why it takes no writes: it is `ReadOnly`, or nobody gets in. None: it takes them."""


async def look_at_each(dsn: Dsn) -> list[Looked]:
    """Logs in at each host, a few times: it may lead to one server now and to another then."""
    return [await _look_at(one) for one in dsn.each]


async def _look_at(dsn: Dsn) -> Looked:
    names = set[str]()
    why: StoreError | None = None
    writes = False
    for _ in range(_LOGINS):
        try:
            connection = await connect(dsn, write=False, timeout=_EACH)
        except StoreError as error:
            why = error
            break
        connection.close()
        names.add(connection.name)
        if connection.read_only is None:
            writes = True
        else:
            why = ReadOnly(connection.read_only)
    return Looked(dsn.place, frozenset(names), None if writes else why)
