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
from .credentials import authorization
from .durations import Seconds, seconds
from .errors import TarryError, Unavailable
from .processes import PerProcess
from .transport import (
    HEADERS,
    LIMITS,
    RETRY,
    Doubt,
    Tries,
    check_shared,
    checked,
    lent,
    options,
    pause,
    read,
    shared_options,
    streams,
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
        self._authorization = authorization(key, own=self._owned)
        self._http = PerProcess(
            partial(httpx.AsyncClient, limits=LIMITS, headers=HEADERS) if client is None else lent(client)
        )
        self._sleep = sleep
        self._sharing = AsyncSharing(self, room)

    async def close(self) -> None:
        """Closes the connections, unless they are the caller's own; also where all else is cancelled."""
        if self._owned:
            with CancelScope(shield=True):
                await self._http.get().aclose()

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
        url = self.url + call.path
        try:
            asked = options(call, self._timeout, self._authorization)
            response = await self._http.get().request(call.method, url, **asked)
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
        return read(self.url, response)

    async def stream(self, share: Share, content: bytes, took: Callable[[bytes], None]) -> None:
        """One try of a request that calls share; `took` is given the answer as it comes. Raises `TarryError`."""
        url = self.url + share.path
        http = self._http.get()
        asked = shared_options(share, content, self._timeout, self._authorization)
        try:
            if not streams(http):
                response = await http.request("POST", url, **asked)
                check_shared(self.url, response, share)
                took(response.content)
                return
            async with http.stream("POST", url, **asked) as response:
                if not response.is_success:
                    await response.aread()
                check_shared(self.url, response, share)
                async for piece in response.aiter_bytes():
                    took(piece)
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
