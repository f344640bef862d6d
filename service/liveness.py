"""Liveness: which clients renew, and which of them are dead.

A client that has renewed is watched from then on, across restarts: it is dead when nothing was heard of it for
`client_timeout`. A renewal, a claim and an open long poll are signs of life. They are noted in memory, and written
together every few seconds; only the first renewal of a client waits for a commit. A client that never renews is not
watched: it lives by the leases of its claims.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager

import structlog
import trio
from attrs import define

from ..store.errors import StoreError
from ..store.store import Store
from .clock import Clock
from .combiner import Combiner

log = structlog.get_logger()


@define
class _Watched:
    registered_at: int
    renewed_at: int
    seen_at: int


class Liveness:
    """Watches clients. `gone` ends what dead or deregistered ones hold, and returns how many claims there were.

    `timeout` is the milliseconds after its last sign of life at which a client is dead.
    """

    def __init__(
        self, store: Store, clock: Clock, gone: Callable[[Sequence[str]], Awaitable[int]], timeout: int
    ) -> None:
        self._store = store
        self._clock = clock
        self._timeout = timeout
        self._gone = gone
        self._watched: dict[str, _Watched] = {}
        self._unwritten: set[str] = set()
        self._polling: Counter[str] = Counter()
        self.registering: Combiner[str, None] = Combiner(self._register)
        self.leaving: Combiner[str, tuple[bool, int]] = Combiner(self._leave)

    async def load(self) -> None:
        """After a start: all that were watched, each as if it had just been heard of."""
        now = self._clock.now()
        for name, (registered_at, renewed_at) in (await self._store.clients()).items():
            self._watched[name] = _Watched(registered_at, renewed_at, now)

    async def renew(self, client: str) -> int:
        """The client lives; returns until when, without another sign."""
        if client not in self._watched:
            await self.registering.ask(client)
        now = self._clock.now()
        if (watched := self._watched.get(client)) is not None:
            watched.renewed_at = watched.seen_at = now
            self._unwritten.add(client)
        return now + self._timeout

    async def deregister(self, client: str) -> tuple[bool, int]:
        """The client goes: whether it was watched, and how many claims it held."""
        return await self.leaving.ask(client)

    @contextmanager
    def polling(self, client: str) -> Generator[None, None, None]:
        """The client asks for messages, and lives as long as it waits for them."""
        self._polling[client] += 1
        try:
            yield
        finally:
            self._polling[client] -= 1
            if not self._polling[client]:
                del self._polling[client]
            if (watched := self._watched.get(client)) is not None:
                watched.seen_at = self._clock.now()

    def names(self) -> set[str]:
        """Clients that are watched, or wait for messages."""
        return {*self._watched, *self._polling}

    def watched(self, client: str) -> tuple[int, int, bool] | None:
        """When a client registered and last renewed, and whether it lives; None when it is not watched."""
        watched = self._watched.get(client)
        if watched is None:
            return None
        return watched.registered_at, watched.renewed_at, not self._is_dead(client, watched, self._clock.now())

    def _is_dead(self, name: str, watched: _Watched, now: int) -> bool:
        return name not in self._polling and watched.seen_at + self._timeout <= now

    async def bury(self) -> None:
        """Ends what dead clients hold."""
        now = self._clock.now()
        dead = [name for name, watched in self._watched.items() if self._is_dead(name, watched, now)]
        for name in dead:
            log.warning("client_dead", client=name)
        if dead:
            async with trio.open_nursery() as nursery:
                for name in dead:
                    nursery.start_soon(self._bury, name)

    async def _bury(self, name: str) -> None:
        try:
            await self.leaving.ask(name)
        except StoreError as error:
            log.warning("client_not_buried", client=name, error=str(error))  # the next round tries again

    async def write(self) -> None:
        """Writes the renewals since the last time."""
        names, self._unwritten = self._unwritten & set(self._watched), set()
        if names:
            try:
                await self._store.renew_clients(self._rows(names))
            except StoreError:
                self._unwritten |= names
                raise

    def _rows(self, names: set[str]) -> dict[str, tuple[int, int]]:
        return {name: (self._watched[name].registered_at, self._watched[name].renewed_at) for name in names}

    async def _register(self, names: Sequence[str]) -> list[None]:
        now = self._clock.now()
        await self._store.renew_clients(dict.fromkeys(names, (now, now)))
        for name in names:
            self._watched.setdefault(name, _Watched(now, now, now))
        return [None] * len(names)

    async def _leave(self, names: Sequence[str]) -> list[tuple[bool, int]]:
        ended = dict.fromkeys(names, 0)
        for name in ended:
            ended[name] = await self._gone([name])
        await self._store.remove_clients(list(ended))
        return [(self._watched.pop(name, None) is not None, ended[name]) for name in names]
