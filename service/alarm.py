"""The alarm: events that an operator should hear of, posted as JSON to the operator's webhook.

It never holds anything up: the queue, the time-out and the number of tries are bounded. An event for which the queue
has no room is dropped, and the log says so. The address may hold a secret, so it is never logged.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog
import trio

if TYPE_CHECKING:
    # Loaded only when there is an address: most servers have none, and the import would be a fifth of their start.
    import httpx

_WAITING = 100
_TRIES = 4
_TIMEOUT = 5.0
"""Seconds of one try."""

log = structlog.get_logger()

Sleep = Callable[[float], Awaitable[None]]


class Alarm:
    """Posts events to `url`; without one it does nothing. Call `ring` from anywhere, `run` in a task of the service."""

    def __init__(
        self, url: str, *, transport: "httpx.AsyncBaseTransport | None" = None, sleep: Sleep = trio.sleep
    ) -> None:
        self._url = url
        self._transport = transport
        self._sleep = sleep
        self._send, self._receive = trio.open_memory_channel[dict[str, object]](_WAITING)
        self.dropped = 0

    def ring(self, event: str, **facts: object) -> None:
        """Queues the event to be posted by `run`; never waits."""
        if not self._url:
            return
        try:
            self._send.send_nowait({"event": event, **facts})
        except trio.WouldBlock:
            self.dropped += 1
            log.warning("alarm_dropped", alarm=event, dropped=self.dropped)

    async def run(self) -> None:
        if not self._url:
            return
        import httpx

        async with httpx.AsyncClient(transport=self._transport, timeout=_TIMEOUT, follow_redirects=False) as client:
            async for facts in self._receive:
                await self._post(client, facts)

    async def _post(self, client: "httpx.AsyncClient", facts: dict[str, object]) -> None:
        from tenacity import AsyncRetrying, RetryError, stop_after_attempt, wait_random_exponential

        pause = wait_random_exponential(multiplier=0.5, max=5)
        retrying = AsyncRetrying(stop=stop_after_attempt(_TRIES), wait=pause, sleep=self._sleep)
        try:
            async for attempt in retrying:
                with attempt:
                    (await client.post(self._url, json=facts)).raise_for_status()
        except RetryError as error:
            # Log neither the text of the error nor its request: both contain the address.
            kind = type(error.last_attempt.exception()).__name__
            log.warning("alarm_failed", alarm=facts["event"], error=kind, tries=_TRIES)
