"""`AsyncTarry`, the client for asyncio and trio: one object for producers and consumers, one method per API call."""

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

import httpx
from anyio import get_current_task, sleep

from .api import Api
from .async_consumption import AsyncConsumption
from .async_messages import AsyncMessages, Consumptions
from .async_runner import AsyncRunner, Stop
from .bodies import Dumps
from .consuming import Consuming
from .durations import Seconds
from .errors import OnFailure
from .fronts import Awaited
from .identity import Identity
from .stock import Terms
from .transport import TaskTransport
from .work import Work


class AsyncTarry(Api, Consuming[AsyncMessages, Stop], Awaited):
    """A client of one server, for the tasks of one event loop, asyncio's or trio's. Use it in an `async with`: the
    loops that `consume` begins live in that block and end with it.

    A call is tried again while the server is away, overloaded or failing (back-off with full jitter, `Retry-After`
    honoured), and raises `Unavailable` when `deadline` seconds have passed. Repeating is harmless: a publish carries an
    idempotency key of its own, and acks and cancels count once. Only a claim whose answer was lost costs something: its
    messages come again when their lease is over, with one attempt used.

    `url` is the server's address; by default `TARRY_URL`, or `http://127.0.0.1:8277`. `key` is the API key; by default
    `TARRY_KEY`, or the content of the file named in `TARRY_KEY_FILE`. It is never shown. `timeout` is for one try.
    `client` is an httpx client of your own (proxies, certificates, credentials); the environment's key is not used with
    it. `on_failure` is called with topic, body (a list of bodies for a batch) and error when a publish has finally
    failed, before the error is raised. `json` writes bodies, from any value to JSON text: `msgspec.json.encode`,
    `orjson.dumps`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        timeout: Seconds = 10.0,
        deadline: Seconds = 30.0,
        client: httpx.AsyncClient | None = None,
        on_failure: OnFailure | None = None,
        json: Dumps | None = None,
        sleep: Callable[[float], Awaitable[None]] = sleep,
    ) -> None:
        self._consumptions = Consumptions()
        transport = TaskTransport(
            url, timeout=timeout, deadline=deadline, key=key, client=client, sleep=sleep, room=self._consumptions.room
        )
        super().__init__(
            transport, Identity(transport.url, resolve=False, number=lambda: get_current_task().id), on_failure, json
        )

    def __repr__(self) -> str:
        return f"AsyncTarry({self._transport.url!r})"

    async def __aenter__(self) -> Self:
        await self._consumptions.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._consumptions.leave()
        await self.close()

    async def close(self) -> None:
        """Ends the loops of `consume` and closes the connections."""
        await self._consumptions.close()
        await self._transport.close()

    def _messages(
        self, terms: Callable[[], Sequence[Terms]], limit: int | None, idle_timeout: Seconds | None
    ) -> AsyncMessages:
        return AsyncMessages(self._consumptions, AsyncConsumption(self._transport, terms(), limit), idle_timeout)

    async def _handle(self, work: Work, stop: Stop | None) -> None:
        await AsyncRunner(AsyncConsumption(self._transport, work.terms), work, stop).run()
