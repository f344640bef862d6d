"""`Tarry`, the client for threads: one object for producers and consumers, with one method per call of the API."""

import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from threading import Event
from types import TracebackType
from typing import Self

import httpx
from attrs import evolve

from .api import Api
from .bodies import Dumps
from .consuming import Consuming
from .consumption import Consumption
from .coroutines import drive
from .delivery import Delivery
from .durations import Seconds, seconds
from .errors import OnFailure
from .fronts import Direct
from .identity import Identity
from .in_threads import InThreads
from .runner import Runner
from .several import Several
from .stock import Terms
from .transport import TaskTransport, ThreadTransport
from .work import Work


class Tarry(Api, Consuming[Generator[Delivery, None, None], Event], Direct):
    """A client of one server. Safe to share between threads; close it, or use it in a `with`.

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
        client: httpx.Client | None = None,
        on_failure: OnFailure | None = None,
        json: Dumps | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        transport = ThreadTransport(url, timeout=timeout, deadline=deadline, key=key, client=client, sleep=sleep)
        super().__init__(transport, Identity(transport.url), on_failure, json)
        self._beside = (
            partial(TaskTransport, transport.url, timeout=timeout, deadline=deadline, key=key)
            if client is None
            else None
        )

    def __repr__(self) -> str:
        return f"Tarry({self._transport.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        drive(self._transport.close())

    def _messages(
        self, terms: Callable[[], Sequence[Terms]], limit: int | None, idle_timeout: Seconds | None
    ) -> Generator[Delivery, None, None]:
        consumption = self._consumption(terms(), limit)
        idle = None if idle_timeout is None else seconds(idle_timeout, "idle_timeout")
        try:
            consumption.start()
            while (delivery := consumption.next(idle)) is not None:
                consumption.rota.warn_of_left()
                yield delivery
                del delivery  # our own reference must not keep a dropped message alive
            consumption.rota.end_loop()
            consumption.rota.warn_of_left()
        finally:
            consumption.close()

    async def _handle(self, work: Work, stop: Event | None) -> None:
        Runner(self._consumption(work.terms), work, stop).run()

    def _consumption(self, terms: Sequence[Terms], limit: int | None = None) -> Consumption | Several:
        if len(terms) == 1:
            return Consumption(self._transport, terms[0])
        if (beside := self._beside) is not None:
            return Several(lambda _: beside(), terms, limit)
        # Each topic may have a claim, settlements and a renewal under way, and the end waits for them.
        most, shorter = 3 * len(terms), [evolve(one, longest=0.0) for one in terms]
        return Several(lambda stopped: InThreads(self._transport, stopped, most), shorter, limit)
