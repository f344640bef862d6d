"""HTTP for asyncio and trio: `transport` with awaits. What a request and an answer mean is written there."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import httpx
from anyio import CancelScope, Event, move_on_after, sleep
from tenacity import AsyncRetrying, RetryCallState, stop_before_delay

from .errors import TarryError
from .processes import PerProcess
from .transport import HEADERS, LIMITS, RETRY, Doubt, Reply, checked, headers_of, lent, pause, read, unanswered


class AsyncTransport:
    """Calls to one server, from tasks of one event loop."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        deadline: float,
        client: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = sleep,
    ) -> None:
        self.url = checked(url)
        self._timeout = timeout
        self._deadline = deadline
        self._owned = client is None
        self._http = PerProcess(
            partial(httpx.AsyncClient, limits=LIMITS, headers=HEADERS) if client is None else lent(client)
        )
        self._sleep = sleep

    async def close(self) -> None:
        """Closes the connections, unless they are the caller's own; also where all else is cancelled."""
        if self._owned:
            with CancelScope(shield=True):
                await self._http.get().aclose()

    async def call(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        *,
        params: Mapping[str, str | int] | None = None,
        wait: float = 0.0,
        deadline: float | None = None,
        abandon: Event | None = None,
    ) -> Reply:
        """One call, tried again while the server is away, until `deadline` seconds have passed or `abandon` is set.

        `wait` is how long the server may rightly take.
        """
        late = stop_before_delay(self._deadline if deadline is None else deadline)

        def stop(state: RetryCallState) -> bool:
            return late(state) or (abandon is not None and abandon.is_set())

        async def nap(seconds: float) -> None:
            if abandon is None:
                await self._sleep(seconds)
            else:
                with move_on_after(seconds):
                    await abandon.wait()

        doubt = Doubt()
        retrying = AsyncRetrying(
            retry=RETRY,
            wait=pause,
            stop=stop,
            sleep=nap,
            before_sleep=doubt.note,
            reraise=True,
        )
        try:
            return doubt.told(await retrying(self._once, method, path, content, params, wait))
        except TarryError as error:
            doubt.tell(error)
            raise

    async def _once(
        self, method: str, path: str, content: bytes | None, params: Mapping[str, str | int] | None, wait: float
    ) -> Reply:
        try:
            response = await self._http.get().request(
                method,
                self.url + path,
                content=content,
                params=params,
                headers=headers_of(content),
                timeout=httpx.Timeout(self._timeout, read=self._timeout + wait),
            )
        except httpx.RequestError as error:
            raise unanswered(self.url, error) from error
        return read(self.url, response)
