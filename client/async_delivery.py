"""A message in an asynchronous handler's hands: `async with message:` around the work settles it."""

from types import TracebackType
from typing import Self

from attrs import frozen

from .delivery import Delivery


@frozen(kw_only=True, eq=False)
class AsyncDelivery(Delivery):
    """A message of `consume` or `run`. Leaving `async with message:` acks it; an exception fails it, the loop goes on.

    Cancellation passes through, and the message goes back uncounted. `ack`, `fail` and `retry` only note what the
    client's tasks send, so there is nothing to await; call them in the event loop.
    """

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self.__exit__(kind, error, trace)
