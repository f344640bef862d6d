"""HTTP for asyncio and trio: `transport` with awaits. What a request and an answer mean is written there."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import httpx
from anyio import CancelScope, Event, move_on_after, sleep
from tenacity import AsyncRetrying, RetryCallState, stop_before_delay

from .calls import Call, Page, Reply
from .credentials import authorization
from .durations import Seconds, seconds
from .errors import TarryError
from .processes import PerProcess
from .transport import HEADERS, LIMITS, RETRY, Doubt, checked, lent, options, pause, read, unanswered

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

    async def close(self) -> None:
        """Closes the connections, unless they are the caller's own; also where all else is cancelled."""
        if self._owned:
            with CancelScope(shield=True):
                await self._http.get().aclose()

    async def send(self, call: Call[T], *, deadline: float | None = None, abandon: Event | None = None) -> T:
        """Makes a call; again while the server is away, until `deadline` seconds have passed or `abandon` is set."""
        late = stop_before_delay(0.0 if call.once else self._deadline if deadline is None else deadline)

        def stop(state: RetryCallState) -> bool:
            return late(state) or (abandon is not None and abandon.is_set())

        async def nap(seconds: float) -> None:
            if abandon is None:
                await self._sleep(seconds)
            else:
                with move_on_after(seconds):
                    await abandon.wait()

        doubt = Doubt()
        retrying = AsyncRetrying(retry=RETRY, wait=pause, stop=stop, sleep=nap, before_sleep=doubt.note, reraise=True)
        try:
            reply: Reply = await retrying(self._once, call)
        except TarryError as error:
            doubt.mark_error(error)
            raise
        return call.read(doubt.mark(reply))

    async def pages(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Items page by page; each page is asked for when those of the one before have been taken."""
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self.send(following)
            for item in page.items:
                yield item
            following = page.next

    async def _once(self, call: Call[Any]) -> Reply:
        url = self.url + call.path
        try:
            asked = options(call, self._timeout, self._authorization)
            response = await self._http.get().request(call.method, url, **asked)
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
        return read(self.url, response)
