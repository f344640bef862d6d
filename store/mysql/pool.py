"""A pool of open sessions, so that a transaction does not wait for a login.

    async with pool.connection() as connection:
        ...

Take a connection for one piece of work and return it at the end: never hold one while a person, a handler or a long
poll takes its time. A session is never reconnected. A session that is closed, or whose block raised, is dropped, and
the next caller gets a new one; it is kept if the error is caught inside the block and rolled back.

When the server accepts no more sessions, the pool goes on with those that it has, and hands each to the caller that has
waited longest. A pool without sessions gets room for one: another pool closes an idle session, or in time one that is
in use.
"""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import trio

from ..errors import Full, Locked, ReadOnly, StoreError, Unavailable
from .connection import Connection
from .hosts import Hosts
from .session import WAITS

_LINE = 5.0
"""Seconds for which a caller waits for a session. If all callers before it wait for a locked table, the queue of
callers does not move."""
_ROOM = 0.05
"""Seconds until another try, for a pool without sessions while the server accepts no more."""
_FULL = 1.0
"""Seconds for which no new session is tried after the server accepted no more, as long as some are in use."""
TRUSTED = 2.0
"""Seconds for which an idle connection is handed out without checking whether it is alive."""


class Unused(Unavailable):
    """Raised in a caller's block that has not used the session: the session is kept."""


@attrs.define(eq=False)
class _Waiter:
    """A caller that waits for a session while the server accepts no more."""

    woken: trio.Event = attrs.field(factory=trio.Event)
    given: Connection | None = None
    """A session that was returned; None: there may be room for a new one."""


class Pool:
    """At most `size` sessions of one kind, made when they are needed; callers are served in order of arrival."""

    def __init__(self, hosts: Hosts, *, size: int, write: bool) -> None:
        self._hosts = hosts
        self._size = size
        self._write = write
        # Held by each caller inside `connection`; trio serves waiting tasks in order.
        self._places = trio.Semaphore(size)
        # Idle sessions, with the time of their return: the longest idle is leftmost, the last returned is taken first.
        self._idle: deque[tuple[Connection, float]] = deque()
        # Idle sessions are closed before the server does it, which would log it as an aborted connection.
        self._rest = WAITS["write" if write else "read"].idle * 0.8
        # They are handed sessions that are returned, before callers that come meanwhile.
        self._waiting: deque[_Waiter] = deque()
        self._full_until = 0.0
        self._closed = False
        self._made = self._dropped = 0
        self._using: set[Connection] = set()
        hosts.pools.append(self)

    def __repr__(self) -> str:
        return f"<Pool {self._hosts.dsn} {self.statistics()}>"

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection, None]:
        """A live session, not in a transaction. Raises `Unavailable` when none can be made, `Locked` when all are in
        use for too long."""
        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            # Only now, since `acquire` costs a round of the event loop even where there is room.
            with trio.move_on_after(_LINE) as waited:
                await self._places.acquire()
            if waited.cancelled_caught:
                raise Locked(f"all {self._size} sessions have been in use for {_LINE:g} s") from None
        try:
            connection = await self._take()
            self._using.add(connection)
            try:
                yield connection
                if connection.in_transaction and not connection.closed:
                    raise RuntimeError("a connection came back with its transaction open: commit or roll back")
            except Unused:
                raise
            except BaseException as error:
                connection.close()
                if isinstance(error, ReadOnly) and connection.era == self._hosts.era:
                    self._hosts.leave()
                raise
            finally:
                if connection.silent and connection.era == self._hosts.era:
                    self._hosts.note_silence()
                self._using.discard(connection)
                self._give_back(connection)
        finally:
            self._places.release()

    async def aclose(self) -> None:
        """Closes idle sessions now, and those in use when they are returned. Waiting callers get `Unavailable`."""
        self._closed = True
        while self._idle:
            self._drop(self._idle.pop()[0])
        await trio.lowlevel.checkpoint()

    @property
    def held(self) -> int:
        """How many sessions the pool has."""
        return len(self._using) + len(self._idle)

    def spare(self) -> bool:
        """Closes the session that has been idle longest, for another pool; returns False when none is idle."""
        if self._idle:
            self._drop(self._idle.popleft()[0])
            return True
        return False

    def hang_up(self, name: str) -> None:
        """Closes sessions with any other server than this one: the server before may have vanished silently."""
        for connection in self._using:
            if connection.name != name:
                connection.close()
        for rested in [one for one in self._idle if one[0].name != name]:
            self._idle.remove(rested)
            self._drop(rested[0])

    def statistics(self) -> dict[str, int]:
        """Connections in use and idle, waiting callers; connections made and dropped so far."""
        return {
            "size": self._size,
            "in_use": len(self._using),
            "idle": len(self._idle),
            "waiting": self._places.statistics().tasks_waiting,
            "made": self._made,
            "dropped": self._dropped,
        }

    async def _take(self) -> Connection:
        began = now = trio.current_time()
        until = began + self._hosts.timeout
        while True:
            if self._idle or not self._using or now >= min(self._full_until, until):
                try:
                    return await self._take_or_make()
                except Full:
                    now = trio.current_time()
                    self._full_until = now + _FULL
                    if self._idle:
                        continue  # a session was returned meanwhile
                    if now >= until or not (self._using or self._hosts.make_room()):
                        raise
            with trio.move_on_at(until):
                if not self._using:
                    with self._hosts.wanting(self, began):
                        await trio.sleep(_ROOM)
                elif (connection := await self._wait()) is not None:
                    return connection
            now = trio.current_time()

    async def _wait(self) -> Connection | None:
        waiter = _Waiter()
        self._waiting.append(waiter)
        try:
            await waiter.woken.wait()
        except trio.Cancelled:
            self._waiting.remove(waiter)  # it was not woken: a woken waiter is not cancelled here
            raise
        return waiter.given

    async def _take_or_make(self) -> Connection:
        self._drop_the_rested()
        while self._idle:
            connection, since = self._idle.pop()
            if await self._is_alive(connection, since):
                return connection
            self._drop(connection)
        if self._closed:
            raise Unavailable("the pool is closed")
        connection = await self._hosts.connect(write=self._write)
        self._made += 1
        return connection

    async def _is_alive(self, connection: Connection, since: float) -> bool:
        if connection.era != self._hosts.era or connection.is_stale():
            return False
        if trio.current_time() - since < TRUSTED:
            return True
        try:
            with trio.fail_after(self._hosts.timeout):
                await connection.ping()
        except trio.TooSlowError:
            self._hosts.note_silence()
            return False
        except StoreError:
            return False
        except BaseException:
            self._drop(connection)
            raise
        return True

    def _give_back(self, connection: Connection) -> None:
        useless = connection.closed or self._closed or connection.era != self._hosts.era
        if useless or self._hosts.is_one_wanted(by_another_than=self):
            self._drop(connection)
            if useless:
                self._full_until = 0.0
            # If a place is free now, the first waiter logs in; the others get sessions that are in use, if there are
            # any.
            for _ in range(min(int(useless), len(self._waiting)) if self._using else len(self._waiting)):
                self._waiting.popleft().woken.set()
        elif self._waiting:
            waiter = self._waiting.popleft()
            waiter.given = connection
            self._using.add(connection)
            waiter.woken.set()
        else:
            self._idle.append((connection, trio.current_time()))
        self._drop_the_rested()

    def _drop_the_rested(self) -> None:
        now = trio.current_time()
        while self._idle and now - self._idle[0][1] > self._rest:
            self._drop(self._idle.popleft()[0])

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._dropped += 1
        self._hosts.note_one_less()
