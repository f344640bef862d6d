"""The message that a handler gets: `with message:`, or `async with message:`, around the work settles it."""

import asyncio
import logging
from types import TracebackType
from typing import Protocol, Self, cast

from anyio import get_cancelled_exc_class
from attrs import field, frozen

from . import spans
from .async_tasks import is_cancelled, own_task
from .durations import Duration
from .holds import Hold
from .records import Message

_log = logging.getLogger("tarry.client")

_FIELDS = tuple(Message.__annotations__)


class Acknowledger(Protocol):
    """Takes the results of handlers, and sends them later."""

    def ack(self, hold: Hold, id_: str) -> bool:
        """False if the client does not hold the message any more."""
        ...

    def fail(self, hold: Hold, id_: str, reason: str | None, retry_after: Duration | None, *, count: bool) -> bool:
        """False if the client does not hold the message any more."""
        ...

    def lost(self, hold: Hold) -> bool:
        """Whether the lease is over, as far as the client knows."""
        ...


@frozen(kw_only=True, eq=False)
class Delivery(Message):
    """A message of `consume` or `run`. Leaving `with message:` acks it; an exception fails it, and the loop goes on.

    Exceptions that end the program (KeyboardInterrupt, SystemExit, GeneratorExit) pass through, and the message goes
    back uncounted. A message that is settled inside the block by `ack`, `fail` or `retry` stays as it was settled.
    """

    hold: Hold = field(repr=False)
    acknowledger: Acknowledger = field(repr=False)
    work: list[spans.Processing] = field(factory=list[spans.Processing], repr=False)
    """The span of the block that is under way, if OpenTelemetry is installed."""

    @classmethod
    def of(cls, message: Message, hold: Hold, acknowledger: Acknowledger) -> Self:
        """Makes a delivery of a message of a claim."""
        return cls(**{name: getattr(message, name) for name in _FIELDS}, hold=hold, acknowledger=acknowledger)

    @property
    def lost(self) -> bool:
        """Whether the lease is over, as far as the client knows: the message is or will be handed out again, and the
        server takes no result from here. Check it before a step that must not be done twice, and now and then in long
        work.
        """
        return self.acknowledger.lost(self.hold)

    def ack(self) -> None:
        """Reports success; sent to the server with the other acks of its claim, 100 ms later at most."""
        self._check(self.acknowledger.ack(self.hold, self.id))

    def fail(self, reason: str | None = None, *, retry_after: Duration | None = None, count: bool = True) -> None:
        """Reports failure: the message goes onto the next rung of the ladder, or comes back after `retry_after`."""
        self._check(self.acknowledger.fail(self.hold, self.id, reason, retry_after, count=count))

    def retry(self, after: Duration, *, reason: str | None = None, count: bool = True) -> None:
        """Has the message come again after a time of your choice; `count=False` does not use up an attempt."""
        self.fail(reason, retry_after=after, count=count)

    def _check(self, taken: bool) -> None:
        if not taken and self.hold.lost:
            _log.warning("message %s of %s: its lease is over, so its result is dropped", self.id, self.topic)

    def __enter__(self) -> Self:
        self.hold.begun.add(self.id)
        if (work := spans.processing(self, self.hold.claim.group)) is not None:
            self.work.append(work)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self.work:
            self.work.pop().end(error)
        if error is None:
            self.ack()
            return False
        if self._is_own(error):
            _log.warning("message %s of %s failed", self.id, self.topic, exc_info=error)
            # A lone surrogate in the text of an error cannot be sent.
            reason = f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace")
            self.fail(reason.decode("utf-8"))
            return True
        self.fail("given back", retry_after=0, count=False)
        return False

    def _is_own(self, error: BaseException) -> bool:
        """Whether the error is the handler's own, so that it only fails the message; for a group, whether all are."""
        if isinstance(error, BaseExceptionGroup):
            return all(map(self._is_own, cast("BaseExceptionGroup[BaseException]", error).exceptions))
        return isinstance(error, Exception) or (self._is_cancel(error) and not self._cancelled())

    def _is_cancel(self, error: BaseException) -> bool:
        return isinstance(error, asyncio.CancelledError)

    def _cancelled(self) -> bool:
        """Whether this thread's work was cancelled: never, unless an event loop runs in the thread."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True


@frozen(kw_only=True, eq=False)
class AsyncDelivery(Delivery):
    """A message of `consume` or `run`. Leaving `async with message:` acks it; an exception fails it, the loop goes on.

    The cancellation of its task, or of a scope around it, passes through, and the message goes back uncounted. `ack`,
    `fail` and `retry` only record the result, which the client's tasks send, so there is nothing to await; call them in
    the event loop.
    """

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self.__exit__(kind, error, trace)

    def _is_cancel(self, error: BaseException) -> bool:
        return isinstance(error, asyncio.CancelledError | get_cancelled_exc_class())

    def _cancelled(self) -> bool:
        return is_cancelled(own_task())
