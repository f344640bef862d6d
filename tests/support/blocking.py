"""`AsyncTarry` on an event loop in another thread with the interface of `Tarry`, so that tests of one cover both."""

import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

from anyio import sleep, to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tarry.client import AsyncDelivery, AsyncTarry, Tarry


class Blocking(Tarry):
    """Makes every call in the event loop and waits for it."""

    def __init__(self, backend: str, url: str | None, sleeps: list[float], **options: Any) -> None:
        self._options = options
        self._backend = backend
        self._url = url
        self._sleeps = sleeps

    def __enter__(self) -> Self:
        async def nap(seconds: float) -> None:
            self._sleeps.append(seconds)

        async def made() -> AsyncTarry:
            return AsyncTarry(self._url, sleep=nap, **self._options)

        # If no client can be created, the portal must be closed here. Otherwise the garbage collector would close it at
        # any moment, when a thread that is starting may hold the lock that the portal's thread needs to end.
        with ExitStack() as stack:
            self.portal: BlockingPortal = stack.enter_context(start_blocking_portal(self._backend))
            self.front = stack.enter_context(self.portal.wrap_async_context_manager(self.portal.call(made)))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def __getattribute__(self, name: str) -> Any:
        paged = ("dead", "dead_letters", "find", "timers", "clients", "schedules", "fires")
        if name.startswith("_") or name in ("consume", "run", "portal", "front"):
            return super().__getattribute__(name)
        call = getattr(self.front, name)
        if name in paged:
            return partial(self._pages, call)
        return lambda *args, **options: self.portal.call(partial(call, *args, **options))

    def consume(self, *args: Any, **options: Any) -> Generator[Any, None, None]:
        def begin() -> Any:
            return self.front.consume(*args, **options)

        messages = self.portal.call(begin)
        try:
            while True:
                try:
                    delivery = self.portal.call(messages.__anext__)
                except StopAsyncIteration:
                    return
                yield BlockingDelivery(self.portal, delivery)
        finally:
            self.portal.call(messages.close)

    def _pages(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        async def all_of_them() -> list[Any]:
            return [one async for one in call(*args, **options)]

        return iter(self.portal.call(all_of_them))

    def run(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, topic: Any, group: str, handler: Any = None, *args: Any, **options: Any
    ) -> None:
        stop: threading.Event | None = options.pop("stop", None)

        class Polled:
            async def wait(self) -> None:
                while stop is None or not stop.is_set():
                    await sleep(0.001)

        def awaited(handler: Any) -> Any:
            async def handle(given: Any) -> None:
                message = BlockingDelivery(self.portal, given) if isinstance(given, AsyncDelivery) else given
                await to_thread.run_sync(handler, message)

            return handle if callable(handler) else handler

        pairs = isinstance(topic, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in topic)
        topics = [(name, awaited(one)) for name, one in topic] if pairs else topic

        async def call() -> None:
            await self.front.run(topics, group, awaited(handler), *args, stop=Polled(), **options)

        self.portal.call(call)


class BlockingDelivery:
    """A delivery that is settled in the client's event loop."""

    def __init__(self, portal: BlockingPortal, delivery: AsyncDelivery) -> None:
        self._portal = portal
        self._delivery = delivery

    def __enter__(self) -> Self:
        self._portal.call(self._delivery.__aenter__)
        return self

    def __exit__(self, *error: Any) -> bool:
        return self._portal.call(self._delivery.__aexit__, *error)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._delivery, name)
        if not inspect.ismethod(value):
            return value
        return lambda *args, **options: self._portal.call(partial(value, *args, **options))


KINDS = ("threads", "asyncio", "trio")


def client_of(kind: str, url: str | None, sleeps: list[float] | None = None, **options: Any) -> Tarry:
    """A client that works in threads, or on that event loop; it does not sleep, and notes how long it would have."""
    sleeps = [] if sleeps is None else sleeps
    if kind == "threads":
        return Tarry(url, sleep=sleeps.append, **options)
    return Blocking(kind, url, sleeps, **options)
