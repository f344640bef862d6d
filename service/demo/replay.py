"""The demo's producer and consumers: they replay a compressed day of flights with the same client that users have.

The producer schedules the whole day at the start. A little before each planned departure it reschedules flights that
will be late, cancels those that will not leave, and notes the server's verdict. Consumers handle the departures; some
handlers fail.
"""

import threading
import time
import zlib
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from attrs import frozen

from ...client import Delivery, Draft, Tarry, TooLate
from ...client.durations import instant_in
from .flights import Flight
from .ledger import Entry, Ledger

TOPIC = "departures"
GROUP = "gates"
NOTICE = 500
"""Milliseconds before a planned departure at which the producer hears that the flight is late or cancelled."""

LEASE = timedelta(seconds=6)
"""Longer than the server is down, so that messages handled meanwhile can still be acked."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class HandlerFailed(Exception):
    """A handler fails as planned."""


@frozen
class Squeeze:
    """Maps times of the day in 2013 to times of this run."""

    begins: int
    """Unix milliseconds at which the first flight is due."""
    first: datetime
    factor: float

    @classmethod
    def over(cls, day: Sequence[Flight], begins: int, length: int) -> "Squeeze":
        """Compresses the planned day into `length` milliseconds from `begins` on."""
        span = (day[-1].planned - day[0].planned).total_seconds() * 1000
        return cls(begins, day[0].planned, length / span)

    def at(self, moment: datetime) -> int:
        """The time of this run for a moment of the day, in Unix milliseconds."""
        return self.begins + round((moment - self.first).total_seconds() * 1000 * self.factor)


def planned_failures(flight: Flight, rungs: int) -> int:
    """How often the flight's handler fails, by a hash of its key, so each run is the same. A few fail on every rung."""
    number = zlib.crc32(flight.key.encode())
    if number % 180 == 0:
        return rungs + 1
    return 1 + number // 12 % 3 if number % 12 == 1 else 0


def schedule_day(tarry: Tarry, day: Sequence[Flight], squeeze: Squeeze, rungs: int) -> list[Entry]:
    drafts = [
        Draft(
            body=flight.body,
            key=flight.key,
            ordering_key=flight.tailnum,
            headers={"carrier": flight.key[:2]},
            deliver_at=_moment(squeeze.at(flight.planned)),
        )
        for flight in day
    ]
    receipts = tarry.publish_many(TOPIC, drafts)
    return [
        Entry(flight, receipt.id, _unix(receipt.deliver_at), planned_failures(flight, rungs))
        for flight, receipt in zip(day, receipts, strict=True)
    ]


class Announcer:
    """Reschedules and cancels flights a little before their planned departure. Several threads share one announcer.

    The server's verdict decides what is due: a late flight that it calls too late leaves as planned.
    """

    def __init__(self, tarry: Tarry, ledger: Ledger, squeeze: Squeeze, stop: threading.Event) -> None:
        self._tarry = tarry
        self._ledger = ledger
        self._squeeze = squeeze
        self._stop = stop
        self._lock = threading.Lock()
        changed = [entry for entry in ledger.entries if entry.flight.cancelled or entry.flight.late is not None]
        self._waiting = deque(changed)

    def run(self) -> None:
        """Runs until every change is announced, or until `stop`."""
        while (entry := self._next()) is not None:
            if self._stop.wait(max(0.0, (entry.due - NOTICE) / 1000 - time.time())):
                return
            try:
                self._announce(entry)
            except TooLate:
                self._examine(entry, now())

    def _next(self) -> Entry | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _announce(self, entry: Entry) -> None:
        if entry.flight.late is None:
            self._tarry.cancel(entry.id)
            entry.fate = "cancelled"
        else:
            due = self._squeeze.at(entry.flight.planned + entry.flight.late)
            answer = self._tarry.reschedule(entry.id, deliver_at=_moment(due))
            entry.due, entry.fate = _unix(answer.deliver_at), "rescheduled"

    def _examine(self, entry: Entry, answered: int) -> None:
        if entry.flight.cancelled:
            entry.fate = "cancel_too_late"
        else:
            # A request whose answer was lost in the kill may have rescheduled it, and the message may have left since.
            due = _unix(instant_in(self._tarry.message(entry.id)["deliver_at"]))
            entry.fate = "reschedule_too_late" if due == entry.due else "rescheduled"
            entry.due = due
        if answered < entry.due:
            self._ledger.complain(f"{entry.flight.key}: too late {entry.due - answered} ms before it was due")


def work(tarry: Tarry, ledger: Ledger, workers: int, stop: threading.Event) -> None:
    def handle(message: Delivery) -> None:
        if ledger.see(message.id, message.attempt, now(), _unix(message.deliver_at)):
            raise HandlerFailed(f"attempt {message.attempt} of {message.key} fails as planned")

    tarry.run(TOPIC, GROUP, handle, workers, pass_message=True, max=20, lease=LEASE, wait="1s", stop=stop)


def now() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


def _moment(unix: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=unix)


def _unix(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
