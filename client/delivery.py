"""A message in a handler's hands: `with message:`, or `async with message:`, around the work settles it."""

import logging
from types import TracebackType
from typing import Protocol, Self

from attrs import field, frozen

from . import spans
from .durations import Duration
from .holds import Hold
from .records import Message

_log = logging.getLogger("tarry.client")

_FIELDS = tuple(Message.__annotations__)


class Acknowledger(Protocol):
    """Takes the results of handlers; sends them in its own time."""

    def ack(self, hold: Hold, id_: str) -> bool:
        """False when the message is not in our hands any more."""
        ...

    def fail(self, hold: Hold, id_: str, reason: str | None, retry_after: Duration | None, *, count: bool) -> bool:
        """False when the message is not in our hands any more."""
        ...


@frozen(kw_only=True, eq=False)
class Delivery(Message):
    """A message of `consume` or `run`. Leaving `with message:` acks it; an exception fails it, and the loop goes on.

    KeyboardInterrupt and SystemExit pass through, and the message goes back uncounted. A message that is settled inside
    the block by `ack`, `fail` or `retry` stays as it was settled.
    """

    hold: Hold = field(repr=False)
    acknowledger: Acknowledger = field(repr=False)
    work: list[spans.Processing] = field(factory=list[spans.Processing], repr=False)
    """The span of the block that is under way, where anybody looks."""

    @classmethod
    def of(cls, message: Message, hold: Hold, acknowledger: Acknowledger) -> Self:
        """A message of a claim, as it is handed out."""
        return cls(**{name: getattr(message, name) for name in _FIELDS}, hold=hold, acknowledger=acknowledger)

    def ack(self) -> None:
        """Done. Sent to the server with the other acks of its claim, 100 ms later at most."""
        self._check(self.acknowledger.ack(self.hold, self.id))

    def fail(self, reason: str | None = None, *, retry_after: Duration | None = None, count: bool = True) -> None:
        """Not done: onto the next rung of the ladder, or back after `retry_after`."""
        self._check(self.acknowledger.fail(self.hold, self.id, reason, retry_after, count=count))

    def retry(self, after: Duration, *, reason: str | None = None, count: bool = True) -> None:
        """Again after a time of the handler's choice; `count=False` does not use up an attempt."""
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
        if isinstance(error, Exception):
            _log.warning("message %s of %s failed", self.id, self.topic, exc_info=error)
            # What is half a character in the text of an error cannot be sent.
            reason = f"{type(error).__name__}: {error}"[:500].encode("utf-8", "replace")
            self.fail(reason.decode("utf-8"))
            return True
        self.fail("given back", retry_after=0, count=False)
        return False


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
