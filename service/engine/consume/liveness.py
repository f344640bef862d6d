"""Liveness: which clients renew, and which of them are dead.

The client's row decides, since several servers may hear of a client, or none of them for a while. A client that has
renewed is watched from then on, across restarts and at every server. A renewal, a claim and an open long poll are
heartbeats. They are noted in memory and written together, a client's some five times in a time-out; but a heartbeat
waits for its commit when the row is older than half a time-out, or when this server has not heard of the client for a
whole one: the client may have come from another. So a server that reads the row sees a heartbeat that is half a
time-out old at most, and the rule is:

- the server that heard of a client last, as far as it and the row know, finds it dead after `client_timeout`;
- every other server after one and a half of that;
- no server within `client_timeout` of its start, or of a time when it could not look: others could not either;
- and a client is dead only if its row has still not changed when it is removed.

A row that another transaction holds does not delay the heartbeats of other clients. Its own heartbeat stands in line,
over and over: when the row is free it is there before any server can take the client for dead, which none does while
the row is held.

A client that never renews is not watched: it lives by the leases of its claims.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Literal

import structlog
import trio
from attrs import frozen

from ....store.errors import Locked, StoreError
from ....store.groups import clients, holdings
from ....store.groups.clients import Registration
from ....store.records import ClaimKey
from ....store.store import Store
from ...clock import Clock
from ...errors import ServiceError
from ...outages import tell_failure
from ..batching.combiner import Combiner
from .groups import Groups

_LOOKS = 3
_LINES = 2
"""Clients for whose locked rows a task stands in line at a time, each with a connection."""
_NEVER = -(1 << 62)

log = structlog.get_logger()


@frozen
class _Heartbeat:
    client: str
    at: int
    register: bool


@frozen
class _Leaving:
    client: str
    renewed_by: int | None = None
    """Dead, unless it was heard of after this time; None: the client leaves of its own accord."""


class Liveness:
    """Watches clients. The claims of a client that is dead or deregistered are ended at once.

    `timeout`: milliseconds after its last heartbeat at which a client is dead.
    """

    def __init__(self, store: Store, clock: Clock, groups: Groups, timeout: int) -> None:
        self._store = store
        self._clock = clock
        self._timeout = timeout
        self._groups = groups
        self._rows: dict[str, Registration] = {}
        """Rows as they were at the last look, or as this server has written them since."""
        self._looked_at: int | None = None
        self._judges_from = 0
        self._heard: dict[str, int] = {}
        """When each client was last heard of here, as far as known; clients that are not watched, too."""
        self._polling: Counter[str] = Counter()
        self._locked: dict[str, None] = {}
        """Clients that were heard of, and whose row another transaction holds."""
        self._met_a_lock = trio.Event()
        self.heartbeats: Combiner[_Heartbeat, Literal[True]] = Combiner(
            self._note, write_free=self._note_free, lane=lambda beat: beat.client
        )
        self.leaving: Combiner[_Leaving, tuple[bool, tuple[ClaimKey, ...]]] = Combiner(
            self._leave, lane=lambda leaving: leaving.client, batch=100
        )

    @property
    def round(self) -> float:
        """Seconds from one `look_after` to the next."""
        return min(1.0, self._timeout / 5000)

    async def run(self) -> None:
        """Writes what callers ask for, and heartbeats for rows that are locked, for ever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.heartbeats.run)
            nursery.start_soon(self.leaving.run)
            for _ in range(_LINES):
                nursery.start_soon(self._stand_in_line)

    def hurry(self) -> None:
        """From now on nobody waits for locked rows."""
        self.heartbeats.hurry()

    async def look_after(self) -> None:
        """One round: looks at the rows, writes heartbeats, and ends what dead clients hold. While no client is known,
        it looks less often."""
        looked = self._looked_at
        if looked is None or self.names() or self._clock.now() - looked >= self._timeout // 3:
            await self.look()
        await self._write()
        await self._end_dead_clients()

    async def look(self) -> None:
        """Reads which clients are watched, and when they were last heard of anywhere."""
        began = self._clock.now()
        rows = await self._store.read(clients.all_watched)
        now = self._clock.now()
        if self._looked_at is None or not 0 <= now - self._looked_at <= self._timeout // 2:
            self._judges_from = now + self._timeout
        self._looked_at = now
        for name, row in self._rows.items():
            if row.renewed_at >= began:
                rows.setdefault(name, row)  # registered while we looked
        self._rows = rows
        self._heard = {name: at for name, at in self._heard.items() if name in rows or at >= began}

    async def renew(self, client: str) -> int:
        """Notes that the client lives; returns until when it does without another heartbeat."""
        now, waits = self._hear(client)
        if waits or client not in self._rows:
            await self.heartbeats.ask(_Heartbeat(client, now, register=True))
        return now + self._timeout

    @asynccontextmanager
    async def polling(self, client: str) -> AsyncGenerator[None, None]:
        """Keeps the client alive for as long as it waits for messages."""
        self._polling[client] += 1
        try:
            now, waits = self._hear(client)
            if waits:
                await self.heartbeats.ask(_Heartbeat(client, now, register=False))
            yield
        finally:
            self._heard[client] = self._clock.now()
            self._polling[client] -= 1
            if not self._polling[client]:
                del self._polling[client]

    async def deregister(self, client: str) -> tuple[bool, int]:
        """Removes the client; returns whether it was watched, and how many claims it held."""
        watched, claims = await self.leaving.ask(_Leaving(client))
        ended = set(claims)
        for _ in range(_LOOKS - 1):
            # A turn that was under way may have granted it one more claim. If that cannot be ended now, it ends with
            # its lease.
            with suppress(StoreError, ServiceError):
                if not set(await self._store.read(holdings.open_claims, [client])) - ended:
                    break
                ended.update((await self.leaving.ask(_Leaving(client)))[1])
        return watched, len(ended)

    def names(self) -> set[str]:
        """Clients that are watched, or wait for messages."""
        return {*self._rows, *self._polling}

    def watched(self, client: str) -> tuple[int, int, bool] | None:
        """When a client registered and was last heard of, and whether it lives; None when it is not watched."""
        row = self._rows.get(client)
        if row is None:
            return None
        heard = max(row.renewed_at, self._heard.get(client, _NEVER))
        return row.registered_at, heard, self._dead_since(client, row, self._clock.now()) is None

    def _hear(self, client: str) -> tuple[int, bool]:
        """Notes a heartbeat; returns its time, and whether it counts only once it is written."""
        now = self._clock.now()
        before = self._heard.get(client, _NEVER)
        self._heard[client] = now
        row = self._rows.get(client)
        stale = row is not None and now - row.renewed_at >= self._timeout // 2
        return now, row is not None and (stale or now - before >= self._timeout)

    def _dead_since(self, client: str, row: Registration, now: int) -> int | None:
        """The last heartbeat of a client that is dead; None while it lives."""
        if client in self._polling:
            return None
        heard = self._heard.get(client, _NEVER)
        ours = heard >= row.renewed_at
        last, patience = (heard, self._timeout) if ours else (row.renewed_at, self._timeout + self._timeout // 2)
        return last if last + patience <= now else None

    async def _write(self) -> None:
        """Writes the heartbeats of clients whose row is a fifth of a time-out old or more."""
        now = self._clock.now()
        due = now - self._timeout // 5
        beats: dict[str, int] = {}
        for name in self._rows.keys() & {*self._heard, *self._polling}:
            at = self._last_beat(name, now)
            before = self._rows[name].renewed_at
            if before < at and before <= due:
                beats[name] = at
        if beats:
            rows, locked = await self._store.write(clients.renew_free, beats)
            self._written(beats.keys() - locked, rows)
            self._locked.update(dict.fromkeys(locked))
            self._met_a_lock.set()

    async def _stand_in_line(self) -> None:
        while True:
            while not self._locked:
                if self._met_a_lock.is_set():
                    self._met_a_lock = trio.Event()
                await self._met_a_lock.wait()
            name = next(iter(self._locked))
            del self._locked[name]
            if name not in self._rows:
                continue  # it is gone
            try:
                beat = {name: self._last_beat(name, self._clock.now())}
                self._written(beat, await self._store.write(clients.renew, beat))
            except Locked:
                self._locked[name] = None
            except StoreError as error:
                tell_failure("renewal_failed", error, client=name)  # the next round tries again

    def _last_beat(self, client: str, now: int) -> int:
        return now if client in self._polling else self._heard.get(client, _NEVER)

    async def _end_dead_clients(self) -> None:
        """Ends what dead clients hold."""
        now = self._clock.now()
        if now < self._judges_from:
            return
        dead = {
            name: last for name, row in self._rows.items() if (last := self._dead_since(name, row, now)) is not None
        }
        # What takes longer goes on without this task: the heartbeats of others are not to wait for it.
        with trio.move_on_after(self._timeout / 5000):
            async with trio.open_nursery() as nursery:
                for name, last in dead.items():
                    nursery.start_soon(self._end_client, name, last)

    async def _end_client(self, name: str, last: int) -> None:
        try:
            await self.leaving.ask(_Leaving(name, last))
        except (StoreError, ServiceError) as error:
            tell_failure("client_not_buried", error, client=name)  # the next round tries again

    async def _note(self, beats: Sequence[_Heartbeat]) -> list[Literal[True]]:
        heard, register = _together(beats)
        self._written(heard, await self._store.write(clients.renew, heard, register))
        return [True] * len(beats)

    async def _note_free(self, beats: Sequence[_Heartbeat]) -> list[Literal[True] | None]:
        heard, register = _together(beats)
        rows, locked = await self._store.write(clients.renew_free, heard, register)
        self._written(heard.keys() - locked, rows)
        return [None if beat.client in locked else True for beat in beats]

    def _written(self, clients: Iterable[str], rows: dict[str, Registration]) -> None:
        for name in clients:
            if name in rows:
                self._rows[name] = rows[name]
            else:
                self._rows.pop(name, None)  # removed by another server

    async def _leave(self, leaving: Sequence[_Leaving]) -> list[tuple[bool, tuple[ClaimKey, ...]]]:
        gone: dict[str, int | None] = {}
        for one in leaving:
            before = gone.get(one.client, _NEVER)
            gone[one.client] = None if before is None or one.renewed_by is None else max(before, one.renewed_by)
        left = await self._store.write(clients.remove, gone, self._clock.now())
        async with trio.open_nursery() as nursery:
            for name, behind in left.items():
                if behind.watched and gone[name] is not None:  # no other server was sooner, or has heard of it
                    log.warning("client_dead", client=name, claims=len(behind.claims))
                if behind.watched or gone[name] is None:
                    self._rows.pop(name, None)
                    self._heard.pop(name, None)
                    nursery.start_soon(self._groups.dismiss, name, behind.claims)
        return [(left[one.client].watched, left[one.client].claims) for one in leaving]


def _together(beats: Sequence[_Heartbeat]) -> tuple[dict[str, int], set[str]]:
    """The last heartbeat of each client, and which clients are to be registered."""
    heard = {beat.client: beat.at for beat in sorted(beats, key=lambda beat: beat.at)}
    return heard, {beat.client for beat in beats if beat.register}
