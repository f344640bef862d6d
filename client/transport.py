"""Sends calls over HTTP; the only place where a call is tried again.

Every call of the client may be repeated: a publish carries its idempotency key, and the contract makes the others safe.
A repeated claim may leave the first one's messages to their lease, which then costs them an attempt.

Written once for threads and tasks, as coroutines. In a `ThreadTransport` none of them ever suspends, so they are driven
without an event loop (`coroutines`).
"""

import math
import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
import httpx
from anyio import CancelScope, move_on_after
from anyio.abc import TaskGroup
from attrs import evolve

from .. import __version__  # `mypy .` ends here: use `make check`
from .address import address_of
from .answers import alone, check_shared, distrust, read, taker, together, unanswered
from .calls import Call, Page, Reply, Share
from .connections import MAX_IDLE, Connections, Exchanges
from .credentials import authorization
from .durations import Seconds, seconds
from .errors import TarryError, Unavailable
from .lent import AsyncLent, Lent, lent, wants_httpx
from .networks import TaskNetwork, ThreadNetwork
from .processes import PerProcess
from .sharing import Sharing
from .task_sharing import TaskSharing
from .thread_sharing import ThreadSharing

T = TypeVar("T")
E = TypeVar("E", threading.Event, anyio.Event)

_FIRST = 0.05
"""Seconds until the second try, at most; twice as many before each further one."""
_BACKOFF = 2.0
"""Seconds between two tries, at most."""
_KNOCK = 0.5
"""The same if nothing listens: trying burdens no server, and messages that fall due before the next try are late."""

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, TimeoutError)

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=MAX_IDLE)
_HEADERS = {"User-Agent": f"tarry-client/{__version__}"}


class Transport(ABC, Generic[E]):
    """Calls to one server."""

    _sharing: Sharing[Any]

    def __init__(
        self,
        url: str | None,
        *,
        timeout: Seconds,
        deadline: Seconds,
        key: str | None,
        client: Callable[[str, float, Mapping[str, str]], Exchanges] | None,
    ) -> None:
        self.url = address_of(url)
        self._timeout = seconds(timeout, "timeout")
        self._deadline = seconds(deadline, "deadline")
        self._owned = client is None
        headers = authorization(key, own=self._owned)
        self._http: PerProcess[Exchanges] = PerProcess(
            partial(self._connections, _HEADERS | headers)
            if client is None
            else lent(client(self.url, self._timeout, headers))
        )

    def _connections(self, headers: Mapping[str, str]) -> Exchanges:
        try:
            return self._own(self.url, self._timeout, headers)
        except OSError as error:  # ssl.SSLError is one
            file, why = os.environ.get("SSL_CERT_FILE"), error.strerror or error
            raise ValueError(f"SSL_CERT_FILE: {file} is not a file of certificates in PEM: {why}") from error

    @staticmethod
    @abstractmethod
    def _own(url: str, timeout: float, headers: Mapping[str, str]) -> Exchanges:
        """The client's own connections."""

    @abstractmethod
    async def _nap(self, seconds: float, abandon: E | None) -> None:
        """Waits between two tries, or until `abandon` is set."""

    async def close(self) -> None:
        """Closes the connections, unless they are the caller's own."""
        if self._owned:
            await self._http.get().close()

    async def send(self, call: Call[T], *, deadline: float | None = None, abandon: E | None = None) -> T:
        """Makes a call; again while the server is away, until `deadline` seconds have passed or `abandon` is set."""
        limit = 0.0 if call.once else self._deadline if deadline is None else deadline
        until = time.monotonic() + limit
        doubtful = False
        """A try whose answer was lost may have been carried out."""
        tries = 0
        while True:
            tries += 1
            try:
                reply = await self._try(call, limit if tries == 1 else until - time.monotonic())
                break
            except TarryError as error:
                pause = math.inf
                if isinstance(error, Unavailable) and distrust(error) is None:
                    pause = _pause(error, tries)
                if time.monotonic() + pause >= until or (abandon is not None and abandon.is_set()):
                    error.in_doubt = doubtful or may_have_run(error)
                    if doubtful:
                        error.add_note("An earlier try, whose answer was lost, may have done it.")
                    raise
                doubtful |= may_have_run(error)
            await self._nap(pause, abandon)
        return call.read(evolve(reply, in_doubt=True) if doubtful else reply)

    async def _try(self, call: Call[Any], limit: float) -> Reply:
        if call.share is None:
            return await self.once(call)
        return await self._sharing.ask(call, call.share, max(limit, self._timeout))

    async def pages(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Items page by page; each page is asked for when those of the one before have been taken."""
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self.send(following)
            for item in page.items:
                yield item
            following = page.next

    async def once(self, call: Call[Any]) -> Reply:
        """One try of a call. Raises `TarryError`."""
        try:
            response = await self._http.get().exchange(alone(call))
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
        return read(self.url, response)

    async def stream(self, share: Share, content: bytes, took: Callable[[bytes], None]) -> None:
        """One try of a request that calls share; `took` is given the answer as it comes. Raises `TarryError`."""
        http = self._http.get()
        try:
            response = await http.exchange(together(share, content), taker(self.url, share, took))
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
        check_shared(self.url, response, share)


class ThreadTransport(Transport[threading.Event]):
    """The transport for threads, safe to share between them."""

    def __init__(
        self,
        url: str | None,
        *,
        timeout: Seconds,
        deadline: Seconds,
        key: str | None = None,
        client: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        lender = None if client is None else partial(Lent, client)
        super().__init__(url, timeout=timeout, deadline=deadline, key=key, client=lender)
        self._sleep = sleep
        self._sharing = ThreadSharing(self)

    @staticmethod
    def _own(url: str, timeout: float, headers: Mapping[str, str]) -> Exchanges:
        if wants_httpx(url):
            return Lent(httpx.Client(limits=_LIMITS), url, timeout, headers)
        return Connections(ThreadNetwork(), url, timeout=timeout, headers=headers)

    async def _nap(self, seconds: float, abandon: threading.Event | None) -> None:
        if abandon is None:
            self._sleep(seconds)
        else:
            abandon.wait(seconds)


class TaskTransport(Transport[anyio.Event]):
    """The transport for the tasks of one event loop."""

    def __init__(
        self,
        url: str | None,
        *,
        timeout: Seconds,
        deadline: Seconds,
        key: str | None = None,
        client: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        room: Callable[[], TaskGroup | None] = lambda: None,
    ) -> None:
        lender = None if client is None else partial(AsyncLent, client)
        super().__init__(url, timeout=timeout, deadline=deadline, key=key, client=lender)
        self._sleep = sleep
        self._sharing = TaskSharing(self, room)

    @staticmethod
    def _own(url: str, timeout: float, headers: Mapping[str, str]) -> Exchanges:
        if wants_httpx(url):
            return AsyncLent(httpx.AsyncClient(limits=_LIMITS), url, timeout, headers)
        return Connections(TaskNetwork(), url, timeout=timeout, headers=headers)

    async def _nap(self, seconds: float, abandon: anyio.Event | None) -> None:
        if abandon is None:
            await self._sleep(seconds)
        else:
            with move_on_after(seconds):
                await abandon.wait()

    async def close(self) -> None:
        """Closes the connections, even in a cancelled scope."""
        with CancelScope(shield=True):
            await super().close()


def may_have_run(error: TarryError) -> bool:
    """Whether a call that was not answered may have been carried out: not when its request never got there, or the
    server says that it did nothing."""
    never_sent = isinstance(error.__cause__, _NEVER_SENT)
    return isinstance(error, Unavailable) and not (
        never_sent or error.status == 429 or error.problem.get("executed") is False
    )


def _pause(error: Unavailable, tries: int) -> float:
    """Seconds until the next try: full jitter, on top of what the server asked for, so that clients that were turned
    away together do not come back together."""
    most = _KNOCK if isinstance(error.__cause__, httpx.ConnectError) else _BACKOFF
    return random.uniform(0, min(most, _FIRST * 2 ** min(tries - 1, 10))) + (error.retry_after or 0.0)  # noqa: S311
