"""HTTP for asyncio and trio: `transport` with awaits. What a request and an answer mean is written there."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import httpx
from anyio import CancelScope, Event, move_on_after, sleep
from anyio.abc import TaskGroup
from tenacity import AsyncRetrying, RetryCallState, stop_before_delay

from .async_sharing import AsyncSharing
from .calls import Call, Page, Reply, Share
from .connections import Connections, Exchanges
from .credentials import authorization
from .durations import Seconds, seconds
from .errors import TarryError, Unavailable
from .lent import AsyncLent, lent, wants_httpx
from .networks import TaskNetwork
from .processes import PerProcess
from .transport import (
    HEADERS,
    LIMITS,
    RETRY,
    Doubt,
    Tries,
    alone,
    check_shared,
    checked,
    pause,
    read,
    taker,
    together,
    unanswered,
)

T = TypeVar("T")


class AsyncTransport:
    """Calls to one server, from tasks of one event loop."""

    def __init__(
        self,
        url: str,
        *,
        timeout: Seconds,
        deadline: Seconds,
        key: str | None = None,
        client: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = sleep,
        room: Callable[[], TaskGroup | None] = lambda: None,
    ) -> None:
        self.url = checked(url)
        self._timeout = seconds(timeout, "timeout")
        self._deadline = seconds(deadline, "deadline")
        self._owned = client is None
        headers = authorization(key, own=self._owned)
        self._http: PerProcess[Exchanges] = PerProcess(
            partial(_own, self.url, self._timeout, HEADERS | headers)
            if client is None
            else lent(AsyncLent(client, self.url, timeout=self._timeout, headers=headers))
        )
        self._sleep = sleep
        self._sharing = AsyncSharing(self, room)

    async def close(self) -> None:
        """Closes the connections, unless they are the caller's own; also where all else is cancelled."""
        if self._owned:
            with CancelScope(shield=True):
                await self._http.get().close()

    async def send(self, call: Call[T], *, deadline: float | None = None, abandon: Event | None = None) -> T:
        """Makes a call; again while the server is away, until `deadline` seconds have passed or `abandon` is set."""
        limit = 0.0 if call.once else self._deadline if deadline is None else deadline
        began = time.monotonic()
        try:
            return call.read(await self._try(call, limit))
        except Unavailable as error:
            first = error
        return await self._send_again(call, first, limit - (time.monotonic() - began), abandon)

    async def _send_again(self, call: Call[T], first: Unavailable, limit: float, abandon: Event | None) -> T:
        late = stop_before_delay(limit)

        def stop(state: RetryCallState) -> bool:
            return late(state) or (abandon is not None and abandon.is_set())

        async def nap(seconds: float) -> None:
            if abandon is None:
                await self._sleep(seconds)
            else:
                with move_on_after(seconds):
                    await abandon.wait()

        doubt = Doubt()
        tries = Tries(first)
        retrying = AsyncRetrying(retry=RETRY, wait=pause, stop=stop, sleep=nap, before_sleep=doubt.note, reraise=True)

        async def attempt() -> Reply:
            tries.begin()
            return await self._try(call, limit)

        try:
            reply: Reply = await retrying(attempt)
        except TarryError as error:
            doubt.mark_error(error)
            raise
        return call.read(doubt.mark(reply))

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


def _own(url: str, timeout: float, headers: dict[str, str]) -> Exchanges:
    """The client's own connections."""
    if wants_httpx(url):
        return AsyncLent(httpx.AsyncClient(limits=LIMITS), url, timeout=timeout, headers=headers)
    return Connections(TaskNetwork(), url, timeout=timeout, headers=headers)
