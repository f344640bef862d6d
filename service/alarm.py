"""The alarm: events that somebody should hear of, posted as JSON to a webhook of the operator's.

It never holds anything up: a bounded queue, a time-out, a bounded number of tries, and what does not fit is dropped and
said so in the log. The address may hold a secret, so it is never logged.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog
import trio

if TYPE_CHECKING:
    # Loaded when there is an address: without one, as most servers are, they would be a fifth of a start.
    import httpx

_WAITING = 100
_TRIES = 4
_TIMEOUT = 5.0
"""Seconds of one try."""

log = structlog.get_logger()

Sleep = Callable[[float], Awaitable[None]]


class Alarm:
    """Posts events to `url`; without one it does nothing. `ring` from anywhere, `run` in a task of the service's."""

    def __init__(
        self, url: str, *, transport: "httpx.AsyncBaseTransport | None" = None, sleep: Sleep = trio.sleep
    ) -> None:
        self._url = url
        self._transport = transport
        self._sleep = sleep
        self._send, self._receive = trio.open_memory_channel[dict[str, object]](_WAITING)
        self.dropped = 0

    def ring(self, event: str, **facts: object) -> None:
        """Has the event posted in its own time."""
        if not self._url:
            return
        try:
            self._send.send_nowait({"event": event, **facts})
        except trio.WouldBlock:
            self.dropped += 1
            log.warning("alarm_dropped", alarm=event, dropped=self.dropped)

    async def run(self) -> None:
        """Posts what was rung, one after the other, for ever."""
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
            # Neither the text of the error nor its request: both tell the address.
            kind = type(error.last_attempt.exception()).__name__
            log.warning("alarm_failed", alarm=facts["event"], error=kind, tries=_TRIES)
